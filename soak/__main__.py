"""Run a soak by name: ``python -m soak NAME [--help]``."""

import argparse
import importlib
import os
import sys

NAMES = (
    "crash",
    "flips",
    "power",
    "faults",
    "disk",
    "concurrency",
    "latency",
    "service",
    "hostile",
    "cluster",
    "migration",
    "readers",
    "window",
)
_THREAD_COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    for variable in _THREAD_COUNTS:  # read once, when NumPy loads its BLAS: nothing may import it before
        os.environ[variable] = "1"
    parser = argparse.ArgumentParser(prog="python -m soak", description="Try to break the durable index.")
    commands = parser.add_subparsers(dest="name", required=True, metavar="{" + ",".join(NAMES) + "}")
    for name in NAMES:
        module = importlib.import_module(f"{__package__}.{name}")
        line = (module.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=line, description=module.__doc__)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    return 0 if arguments.run(arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
