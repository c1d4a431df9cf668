"""Fill the disk under an index, give the space back, and check that it says so, goes on, and loses nothing.

The index is on a small tmpfs. A file beside it takes all of the space but a little, drawn anew each time, then an
operation runs: create, add, update, delete, rehash, compact, backup, search with verify, or closing and opening
again. Each must succeed or raise a named error (`MIHashError`), and be there as a whole or not at all. Searches,
`get` and `stats` go on while the disk is full. Then the file is removed: the same process must store rows again.
What it left is opened as after a kill, and now and then the index is closed and opened again: every acknowledged
row is there, and codes, answers and decisions are right.

Only times at which the disk was full are counted. To mount a tmpfs takes root; without, nothing is tested, which
is said.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mihash.errors import MIHashError

from .configurations import shrink
from .recorded import checkpoint_often
from .report import add_lap_arguments, console
from .subject import Subject, Tally

__all__ = ["add_arguments", "run"]

DISK_BYTES = 16 << 20
MOST_ROOM = 200_000
_PAGE = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=70, help="how often the disk is filled (70)")
    add_lap_arguments(parser, 15, "full disks")


def run(arguments: argparse.Namespace) -> bool:
    shrink()
    checkpoint_often()
    base = Path(tempfile.mkdtemp(prefix="mihash-disk-", dir=arguments.folder)).resolve()
    tally, began, lap = Tally("full disks"), time.perf_counter(), arguments.lap
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("full disks", total=arguments.times)
        while tally.n < arguments.times:
            with _mounted(base / "disk") as reason:
                if reason is not None:
                    progress.stop()
                    console.print(f"Skipped: {reason}.")
                    shutil.rmtree(base)
                    return True
                rng = np.random.default_rng([arguments.seed, lap, 2])
                subject = Subject(base / "disk", base, lap, arguments.seed, tally)
                enough = min(arguments.times, tally.n + arguments.each)
                while tally.n < enough and not subject.failed:
                    subject.try_out(FullDisk(base / "disk", int(rng.integers(MOST_ROOM))))
                    progress.update(task, completed=tally.n, description=f"{subject.configuration.name:<36}")
                subject.end()
                if subject.failed:
                    kept = shutil.copytree(base / "disk", base / f"lap-{lap}")
                    console.print(f"Kept in {kept}.", soft_wrap=True)
            lap += 1
    if not tally.failures:
        shutil.rmtree(base)
    tally.show(time.perf_counter() - began)
    return not tally.failures


@contextmanager
def _mounted(folder: Path) -> Iterator[str | None]:
    """Mount a small tmpfs for a while; give the reason where that is not allowed."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        yield "to mount a tmpfs takes root"
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", os.fspath(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"a tmpfs cannot be mounted: {done.stderr.strip()}"
        return
    try:
        yield None
    finally:
        subprocess.run(["umount", "--lazy", os.fspath(folder)], check=True)


class FullDisk:
    """A disk with little room left, until `end`.

    Parameters
    ----------
    folder
        Where it is mounted.
    room
        How many bytes are left to begin with.
    """

    spares_reads = True

    def __init__(self, folder: Path, room: int) -> None:
        self._folder, self._room = folder, room
        self._ballast = folder / "ballast"
        pages = room // _PAGE
        self.kind = "no room" if not pages else "less than 64 kB" if pages < 16 else "less than 200 kB"

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self._room:,} bytes left on the disk"

    def begin(self) -> None:
        """Fill the disk."""
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(_PAGE, self._free() - self._room))

    def is_met(self, error: MIHashError | None) -> bool:
        """Return whether the disk was full: something failed, or little is left."""
        return error is not None or self._free() < self._room // 2 or self._free() < 8 * _PAGE

    def end(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def _free(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize
