"""Run benchmarks by name and print a table for each: ``python -m benchmarks [--help] [name ...]``.

A benchmark informs and does not judge: the exit status is 0 whether or not its targets were held.
"""

import argparse
import importlib
import os

NAMES = (
    "step",
    "moment_step",
    "quality",
    "encode",
    "table",
    "ranking",
    "measure",
    "trigger",
    "learners",
    "class_sets",
    "early_stream",
    "losses",
    "index",
    "ingest",
    "search",
    "queries",
    "held",
    "candidates",
    "served",
    "filtered",
    "products",
    "code_lengths",
    "peers",
    "plan",
    "cluster",
)
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",  # where a benchmark asks FAISS for two threads, they do not spin
}


def main() -> None:
    os.environ.update(_ENVIRONMENT)  # read once, when NumPy loads its BLAS: nothing may import it before
    modules = {name: importlib.import_module(f"{__package__}.{name}") for name in NAMES}
    lines = [f"  {name:<13}{(module.__doc__ or '').splitlines()[0]}" for name, module in modules.items()]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Process CPU time, one thread, best of interleaved rounds.",
        epilog="benchmarks:\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help="which to run; all by default")
    names = parser.parse_args().names or NAMES
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(NAMES)}")
    report = importlib.import_module(f"{__package__}.report")
    for name in names:
        modules[name].run()
        report.show_load()


if __name__ == "__main__":
    main()
