"""Two coordinators of one index on Ray: a copy of the folder is opened while the first one works, or when it died.

A process of its own adds rows to the index and notes each change that was acknowledged. Its folder is copied. Then
in turn: the copy is opened while the process works; the process is killed, and both folders are opened at the same
time; or the process is stopped and its shards are ended, as if Ray took it for dead, and it goes on once the copy
was opened. Whoever opens a folder adds rows as well. At the end of a round each folder is refused, or it has every
acknowledged row.
"""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mihash.errors import StoreLocked, Superseded
from mihash.mapping import LinearMapping
from mihash.store.ray import RayTable
from mihash.store.sqlite.database import DATABASE

from .report import Failure, console

__all__ = ["Rivalry", "soak_coordinators"]

Process = subprocess.Popen[bytes]

D, N_BITS, MOST_ROWS = 8, 16, 20
STUCK_S = 120.0
REFUSED = 3  # the status of a process that was superseded
CHANGES = 3  # by who has opened a folder beside the process
N_SHARDS = 2


@dataclass
class Rivalry:
    """What was done and found."""

    rounds: int = 0
    locked: int = 0
    superseded: int = 0
    opened: int = 0
    changes: int = 0
    lost: int = 0

    def show(self) -> None:
        """Print it."""
        console.print(
            f"Two coordinators, {self.rounds} rounds: {self.opened} opened a folder, {self.locked} were refused "
            f"while another was alive, {self.superseded} as superseded; {self.changes:,} changes acknowledged."
        )
        console.print(f"Acknowledged changes that are lost: {self.lost}")


def soak_coordinators(base: Path, address: str, nodes: list[str], n_rounds: int, seed: int) -> Rivalry:
    """Have two coordinators meet, and return what came of it; raises where the index cannot be opened any more."""
    rivalry = Rivalry()
    places = {name: str(base / f"rivals-{name}") for name in nodes}
    home = base / "coordinator"
    with closing(RayTable.create(home, N_SHARDS, nodes=places)) as table:
        table.rebuild(LinearMapping(np.random.default_rng(seed).standard_normal((D, N_BITS))))
    journal = Journal(base / "acknowledged")
    for number in range(n_rounds):
        home = _Round(base, address, home, number, journal, rivalry, seed).run()
        rivalry.rounds += 1
    rivalry.changes = len(journal.read())
    return rivalry


class Journal:
    """The changes that were acknowledged: for each its keys, and what its rows are made from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, keys: list[Any], source: list[int]) -> None:
        """Append a change; a kill of the process that writes loses nothing of it."""
        with self.path.open("a") as file:
            file.write(json.dumps({"keys": keys, "source": source}) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """Return all of them; a kill may have cut the last."""
        text = self.path.read_text() if self.path.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def rows(source: list[int]) -> NDArray[np.float32]:
    """Return rows that nobody else adds."""
    rng = np.random.default_rng(source)
    return rng.standard_normal((int(rng.integers(1, MOST_ROWS)), D)).astype(np.float32)


def add_to(table: RayTable, journal: Journal, source: list[int]) -> None:
    """Add rows, and note that this was acknowledged."""
    keys, _ = table.add(rows(source))
    journal.write(keys, source)


class _Round:
    """One meeting of two coordinators: a process that works in a folder, and this one with a copy of it."""

    def __init__(
        self, base: Path, address: str, home: Path, number: int, journal: Journal, rivalry: Rivalry, seed: int
    ) -> None:
        self.address, self.home, self.copy, self.number = address, home, base / f"copy-{number}", number
        self.journal, self.rivalry, self.rng = journal, rivalry, np.random.default_rng([seed, 13, number])

    def run(self) -> Path:
        """Have them meet; return the folder to go on with."""
        meet = (self._meet_alive, self._meet_killed, self._meet_cut_off)[self.number % 3]
        with self._first() as first:
            meet(first)
        whole = [folder for folder in (self.home, self.copy) if self._is_whole(folder)]
        if not whole:
            raise Failure(f"After round {self.number} neither folder can be opened.")
        return whole[-1]

    @contextmanager
    def _first(self) -> Iterator[Process]:
        """Start the process, wait until it works, and kill it at the end."""
        words = (str(self.home), self.address, str(self.journal.path), str(self.number))
        process = subprocess.Popen([sys.executable, "-m", f"{__package__}.coordinators", *words])
        try:
            self._await_change()
            time.sleep(float(self.rng.uniform(0, 1)))
            yield process
        finally:
            process.kill()
            process.wait()

    def _await_change(self) -> None:
        n, until = len(self.journal.read()), time.monotonic() + STUCK_S
        while len(self.journal.read()) == n:
            if time.monotonic() > until:
                raise Failure(f"The first coordinator has added nothing in {STUCK_S:.0f} s.")
            time.sleep(0.05)

    def _take_copy(self) -> None:
        self.copy.mkdir()
        with (
            closing(sqlite3.connect(self.home / DATABASE)) as source,
            closing(sqlite3.connect(self.copy / DATABASE)) as target,
        ):
            source.backup(target)

    # How they meet

    def _meet_alive(self, _first: Process) -> None:
        self._take_copy()
        table = self._opened(self.copy)
        if table is not None:
            table.close()
            raise Failure("A copy was opened while the first coordinator was alive.")
        self._await_change()  # it goes on as before

    def _meet_killed(self, first: Process) -> None:
        is_late = bool(self.rng.integers(2))  # then the copy has all that was acknowledged, and may win
        if not is_late:
            self._take_copy()
            time.sleep(float(self.rng.uniform(0, 0.5)))
        first.kill()
        first.wait()
        if is_late:
            self._take_copy()
        with ThreadPoolExecutor() as pool:
            tables = list(pool.map(self._opened, (self.home, self.copy)))
        for table in tables:
            if table is not None:
                table.close()
        if None not in tables:
            raise Failure("Two coordinators had the index open at the same time.")

    def _meet_cut_off(self, first: Process) -> None:
        import ray

        first.send_signal(signal.SIGSTOP)
        self._take_copy()
        with closing(sqlite3.connect(self.home / DATABASE)) as database:
            (name,) = database.execute("SELECT value FROM setting WHERE name = 'cluster'").fetchone()
        for shard in range(N_SHARDS):
            ray.kill(ray.get_actor(f"{name} {shard}", "mihash"), no_restart=True)
        table = self._opened(self.copy)
        if table is not None and self.rng.integers(2):  # it may be gone again when the first goes on
            table.close()
            table = None
        first.send_signal(signal.SIGCONT)
        try:
            code = first.wait(STUCK_S)
        finally:
            if table is not None:
                table.close()
        if code != REFUSED:
            raise Failure(f"A coordinator that was superseded was not told so: it has ended with {code}.")
        self.rivalry.superseded += 1

    # What comes of it

    def _opened(self, folder: Path) -> RayTable | None:
        """Open a folder and add rows, or count the refusal."""
        table = self._open(folder)
        if table is not None:
            self.rivalry.opened += 1
            for change in range(CHANGES):
                add_to(table, self.journal, [self.number, 1 + (folder == self.copy), change])
        return table

    def _open(self, folder: Path) -> RayTable | None:
        try:
            return RayTable(folder)
        except StoreLocked:
            self.rivalry.locked += 1
        except Superseded:
            self.rivalry.superseded += 1
        return None

    def _is_whole(self, folder: Path) -> bool:
        """Tell whether a folder can be opened; then every acknowledged row must be there."""
        table = self._open(folder)
        if table is None:
            return False
        with closing(table):
            ids, vectors = table.sample(len(table), 0)
        stored = dict(zip(ids.tolist(), vectors, strict=True))
        for change in self.journal.read():
            pairs = zip(change["keys"], rows(change["source"]), strict=True)
            self.rivalry.lost += not all(key in stored and np.array_equal(stored[key], row) for key, row in pairs)
        return True


def _work(folder: str, address: str, journal: str, number: str) -> int:
    """Add rows to an index until this process is killed, or refused."""
    try:
        table = RayTable(folder, address=address)
        for change in count():
            add_to(table, Journal(Path(journal)), [int(number), 0, change])
    except Superseded:
        return REFUSED
    return 1


if __name__ == "__main__":
    sys.exit(_work(*sys.argv[1:]))
