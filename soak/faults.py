"""Let calls of a process that works on an index fail, and check that it says so, goes on, and loses nothing.

A small C library, loaded before the system's (shim.c), makes the n-th pwrite, fsync, ftruncate or pread on a file
of the index fail: with EIO or ENOSPC, once or until the end of the operation, or with half of the bytes done. The
operations are create, add, update, delete, rehash, compact, backup, search with verify, and closing and opening
again. Each must succeed or raise a named error (`MIHashError`), and be there as a whole or not at all. Reads and
statistics go on while writes fail. Then the fault is gone: the same process must answer rightly and store rows.
What it left on the disk is opened as after a kill, and now and then the index is closed and opened again: every
acknowledged row is there, and codes, answers and decisions are right.

Only faults that an operation met are counted. Everything depends on the seed but for the moments at which versions
are built. Without a C compiler nothing is tested, which is said.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import shim
from .configurations import shrink
from .recorded import checkpoint_often
from .report import add_lap_arguments, console
from .shim import Fault
from .subject import Subject, Tally

__all__ = ["add_arguments", "run"]

_SHARES = {"pwrite": 0.12, "fsync": 0.3, "ftruncate": 0.7, "pread": 0.08}  # of meeting the next call of a kind
_KINDS = {
    "pwrite": (("EIO", False), ("ENOSPC", False), ("ENOSPC", True), ("", True)),
    "fsync": (("EIO", False), ("ENOSPC", False)),
    "ftruncate": (("EIO", False), ("ENOSPC", False)),
    "pread": (("EIO", False), ("", True)),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--faults", type=int, default=100, help="how many faults (100)")
    add_lap_arguments(parser, 25, "faults")


def run(arguments: argparse.Namespace) -> bool:
    reason = shim.unavailable()
    if reason is not None:
        console.print(f"Skipped: {reason}.")
        return True
    if not shim.is_loaded():
        return _run_with_shim(arguments.folder)
    shrink()
    checkpoint_often()
    return _run(Path(os.environ["SOAK_FOLDER"]), arguments)


def _run_with_shim(folder: Path | None) -> bool:
    """Run the same command in a process that has the shim."""
    base = Path(tempfile.mkdtemp(prefix="mihash-faults-", dir=folder)).resolve()
    work, temporary = base / "work", base / "work" / "temporary"
    temporary.mkdir(parents=True)
    environment = shim.environment(shim.compiled(base), work) | {"SQLITE_TMPDIR": str(temporary)}  # of VACUUM
    done = subprocess.run([sys.executable, "-m", "soak", *sys.argv[1:]], env=environment, check=False)
    if done.returncode == 0:
        shutil.rmtree(base)
    return done.returncode == 0


def _run(work: Path, arguments: argparse.Namespace) -> bool:
    tally, began, lap = Tally("faults"), time.perf_counter(), arguments.lap
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("faults", total=arguments.faults)
        while tally.n < arguments.faults:
            folder = work / f"lap-{lap}"
            folder.mkdir()
            rng = np.random.default_rng([arguments.seed, lap, 2])
            subject = Subject(folder, folder, lap, arguments.seed, tally)
            enough = min(arguments.faults, tally.n + arguments.each)
            while tally.n < enough and not subject.failed:
                subject.try_out(_fault(rng))
                progress.update(task, completed=tally.n, description=f"{subject.configuration.name:<36}")
            subject.end()
            if subject.failed:
                console.print(f"Kept in {folder}.", soft_wrap=True)
            else:
                shutil.rmtree(folder)
            lap += 1
    tally.show(time.perf_counter() - began)
    return not tally.failures


def _fault(rng: np.random.Generator) -> Fault:
    call = list(shim.CALLS)[int(rng.integers(len(shim.CALLS)))]
    after = int(rng.geometric(_SHARES[call])) - 1
    error, half = _KINDS[call][int(rng.integers(len(_KINDS[call])))]
    return Fault(call, after, error, half, lasting=bool(error) and (half or rng.random() < 0.4))
