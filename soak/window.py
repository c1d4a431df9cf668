"""Kill a process that streams rows through an index with a window; check that old rows go and new ones stay.

A child process adds rows to an index that keeps the newest ones, and searches meanwhile. It writes down how many
rows were acknowledged. It is killed with SIGKILL after a random number of rows, and the index is opened: it must
hold exactly the newest rows, with their vectors, and no search may find another. At the end the recall is compared
with that of an index that has only ever seen the newest rows. Size on disk and memory are printed over the stream.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import mihash

from .report import Failure, console, show_load

__all__ = ["add_arguments", "run"]

_BATCH, _DIM, _CLUSTERS, _QUERIES = 250, 32, 200, 200
_STUCK_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=500_000, help="how many rows the stream has (500,000)")
    parser.add_argument("--keep", type=int, default=50_000, help="how many of them the index keeps (50,000)")
    parser.add_argument("--kills", type=int, default=100, help="how many kills (100)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")


class _Size(NamedTuple):
    rows: int
    items: int
    disk_mb: float
    memory_mb: float


def run(arguments: argparse.Namespace) -> bool:
    base = Path(tempfile.mkdtemp(prefix="mihash-window-"))
    began, sizes = time.perf_counter(), []
    rng = np.random.default_rng(arguments.seed)
    with mihash.OnlineIndex.create(base / "index", keep=arguments.keep):
        pass
    stops = np.sort(rng.choice(np.arange(_BATCH, arguments.rows), arguments.kills, replace=False))
    compared = 0
    try:
        for stop in [*stops.tolist(), None]:
            memory_mb = _killed_after(base, stop, arguments)
            n, found = _check(base, arguments.keep, rng)
            compared += found
            sizes.append(_Size(n, min(n, arguments.keep), _disk_mb(base / "index"), memory_mb))
        recalls = _recalls(base, arguments)
    except Failure as failure:
        console.print(f"[red]{failure}[/] Left in {base}")
        return False
    _show(sizes)
    seconds = time.perf_counter() - began
    console.print(
        f"{arguments.kills} kills, {compared:,} comparisons, 0 expired rows in any answer; recall@10 "
        f"{recalls[0]:.3f}, of an index that has only seen the newest rows {recalls[1]:.3f}; {seconds:.0f} s."
    )
    show_load()
    shutil.rmtree(base)
    return True


def rows(first: int, last: int) -> NDArray[np.float32]:
    """Return some rows of the stream: clusters, the same for everybody."""
    centres = np.random.default_rng(1).standard_normal((_CLUSTERS, _DIM))
    numbers = np.arange(first, last)
    noise = [np.random.default_rng([2, number]).standard_normal(_DIM) for number in numbers]
    return (centres[numbers * 7919 % _CLUSTERS] + 0.5 * np.array(noise)).astype(np.float32)


def work(base: str, keep: int, n_rows: int) -> None:
    """Add rows from where the index is, and search; every answer must be of the newest rows."""
    journal = Path(base) / "acknowledged"
    rng = np.random.default_rng(os.getpid())
    with mihash.OnlineIndex.open(Path(base) / "index") as index, journal.open("a") as file:
        n = _n_added(index)
        while n < n_rows:
            index.add(rows(n, min(n + _BATCH, n_rows)), keys=range(n, min(n + _BATCH, n_rows)))
            n = min(n + _BATCH, n_rows)
            file.write(f"{n}\n")
            file.flush()
            if rng.random() < 0.1:  # searches of every kind
                options = ({}, {"rescore": 0}, {"radius": 8})[int(rng.integers(3))]
                found = index.search(rows(n - 5, n), **options).keys
                if any(np.any(np.asarray(each) < n - keep) for each in found):
                    file.write("expired\n")
                    file.flush()


def _killed_after(base: Path, stop: int | None, arguments: argparse.Namespace) -> float:
    """Run the child until the stream has come so far, and kill it; None lets it end. Return its memory in MB."""
    context = multiprocessing.get_context("spawn")
    child: BaseProcess = context.Process(target=work, args=(str(base), arguments.keep, arguments.rows))
    child.start()
    memory_mb, until = 0.0, time.monotonic() + _STUCK_S
    while child.is_alive() and (stop is None or _acknowledged(base) < stop):
        memory_mb = max(memory_mb, _memory_mb(child))
        if stop is not None and time.monotonic() > until:
            child.kill()
            raise Failure(f"The child has not come to row {stop:,} in {_STUCK_S:.0f} s.")
        time.sleep(0.01)
    if stop is not None:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    if stop is None and child.exitcode:
        raise Failure(f"The last child ended with {child.exitcode}.")
    return memory_mb


def _check(base: Path, keep: int, rng: np.random.Generator) -> tuple[int, int]:
    """Compare the index with the stream; return how many rows it has taken, and how many things were compared."""
    acknowledged = _acknowledged(base)
    if "expired" in (base / "acknowledged").read_text():
        raise Failure("A search has found a row that had expired.")
    with mihash.OnlineIndex.open(base / "index") as index:
        n = _n_added(index)
        if not acknowledged <= n <= acknowledged + _BATCH:
            raise Failure(f"{acknowledged:,} rows were acknowledged; the index has taken {n:,}.")
        wanted = list(range(max(0, n - keep), n))
        if len(index) != len(wanted) or list(index.keys()) != wanted:
            raise Failure(f"The index has {len(index):,} items, not the newest {len(wanted):,} of {n:,}.")
        if not wanted:
            return n, 0
        looked = [wanted[0], *rng.choice(wanted, min(_QUERIES, len(wanted)), replace=False).tolist()]
        for key, item in zip(looked, index.get(looked), strict=True):
            if not np.array_equal(item.vector, rows(key, key + 1)[0]):
                raise Failure(f"Row {key:,} has another vector.")
        found = index.search(np.concatenate([rows(key, key + 1) for key in looked[:20]]), k=10)
        if found.keys.min() < wanted[0] or found.keys[:, 0].tolist() != looked[:20]:
            raise Failure("A search has found an expired row, or not the row itself.")
    return n, len(wanted) + len(looked) + found.keys.size


def _recalls(base: Path, arguments: argparse.Namespace) -> list[float]:
    """Return the recall of the index, and of one that has only seen the newest rows."""
    X = rows(max(0, arguments.rows - arguments.keep), arguments.rows)
    queries = rows(arguments.rows, arguments.rows + _QUERIES)
    squares = (X**2).sum(axis=1)[None] - 2 * queries @ X.T
    first = arguments.rows - len(X)
    truth = np.argsort(squares, axis=1)[:, :10] + first
    with mihash.OnlineIndex.create(base / "fresh") as index:
        index.add(X, keys=range(first, arguments.rows))
    found = []
    for folder in ("index", "fresh"):
        with mihash.OnlineIndex.open(base / folder) as index:
            index.wait()
            keys = index.search(queries, k=10).keys
        found.append(np.mean([len(np.intersect1d(*pair)) / 10 for pair in zip(keys, truth, strict=True)]))
    return [float(each) for each in found]


def _n_added(index: mihash.OnlineIndex) -> int:
    last = index.keys()[-1:]
    return last[0] + 1 if last else 0


def _acknowledged(base: Path) -> int:
    journal = base / "acknowledged"
    text = journal.read_text() if journal.exists() else ""
    numbers = [line for line in text[: text.rfind("\n") + 1].split() if line.isdigit()]
    return int(numbers[-1]) if numbers else 0


def _disk_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def _memory_mb(child: BaseProcess) -> float:
    try:
        pages = int(Path(f"/proc/{child.pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _show(sizes: list[_Size]) -> None:
    table = Table(title="Over the stream", title_justify="left", title_style="bold")
    for column in ("rows so far", "items", "disk, MB", "memory, MB"):
        table.add_column(column, justify="right")
    for size in sizes[:: max(1, len(sizes) // 10)]:
        table.add_row(f"{size.rows:,}", f"{size.items:,}", f"{size.disk_mb:.1f}", f"{size.memory_mb:.0f}")
    console.print(table)
