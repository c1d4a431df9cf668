"""Search from several threads while versions change, and check every answer against brute force.

Each search notes the version that answered, which changes had returned before it began, and which had begun when
it ended. Afterwards its answer is compared with the exact one of that version at each state of the table between
the two; one that fits none would mix versions or states. Three modes:

steady    rows with numbers as keys; examples are added, to move the mapping, and the index is rehashed
busy      named rows that are also deleted and updated, and the index is compacted now and then
filtered  as busy, on a fortieth of the rows, with filters and rescoring
"""

import argparse
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import mihash

from .exact import Exact, Ledger
from .report import console, show_load

__all__ = ["Searcher", "Setting", "Shared", "Writer", "add_arguments", "check", "filled", "learned_from", "run"]

MODES = ("steady", "busy", "filtered")
D, N_BITS, N_CLASSES = 32, 64, 8
K, RESCORE, POOL = 5, 40, 200
PART = 20_000
AHEAD = 3  # how many times as many rehashes as were asked for there may be
COLORS = ("red", "blue")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, default=200_000, help="at least so many in each mode (200000)")
    parser.add_argument("--threads", type=int, default=4, help="how many threads search (4)")
    parser.add_argument("--items", type=int, default=200_000, help="how many rows there are (200000)")
    parser.add_argument("--rehashes", type=int, default=20, help="at least so many in each mode (20)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="which modes (all)")


def run(arguments: argparse.Namespace) -> bool:
    rows = []
    for mode in arguments.modes:
        n_items = arguments.items // 40 if mode == "filtered" else arguments.items
        setting = Setting(mode, n_items, arguments.queries, arguments.threads, arguments.rehashes, arguments.seed)
        rows.append(soak(setting))
    table = Table(title="Answers while versions change", title_justify="left", title_style="bold")
    names = ("mode", "items", "queries", "rehashes", "changes", "answers changed by a rehash", "wrong", "seconds")
    for name in names:
        table.add_column(name, justify="left" if name == "mode" else "right")
    for result in rows:
        table.add_row(*result.cells())
    console.print(table)
    show_load()
    wrong = sum(result.wrong for result in rows)
    console.print(f"Answers that mix versions or states: {wrong}")
    return wrong == 0


@dataclass(frozen=True)
class Setting:
    """How much is done in one mode."""

    mode: str
    n_items: int
    n_queries: int
    n_threads: int
    n_rehashes: int
    seed: int


@dataclass
class Result:
    """What one mode has shown."""

    setting: Setting
    n_queries: int
    n_rehashes: int
    n_changes: int
    changed: float
    wrong: int
    seconds: float

    def cells(self) -> tuple[str, ...]:
        """Return a row of the table."""
        counts = (self.setting.n_items, self.n_queries, self.n_rehashes, self.n_changes)
        marked = f"[{'red' if self.wrong else 'green'}]{self.wrong}[/]"
        return (
            self.setting.mode,
            *(f"{n:,}" for n in counts),
            f"{self.changed:.0%}",
            marked,
            f"{self.seconds:.0f}",
        )


class Answer(NamedTuple):
    """What a search gave, and between which states and versions it ran."""

    queries: tuple[int, ...]
    color: str | None
    rescored: bool
    version: int
    first_state: int
    last_state: int
    versions: tuple[int, int]
    keys: Any
    distances: Any


@dataclass
class Shared:
    """What the writer and the searching threads both know.

    Attributes
    ----------
    begun, ended
        How many changes have begun, and how many have returned.
    mappings
        The mapping of each version that has answered; an index drops those of old versions.
    """

    index: mihash.OnlineIndex
    queries: NDArray[np.float32]
    mode: str
    begun: int = 0
    ended: int = 0
    mappings: dict[int, Any] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def note_mappings(self) -> None:
        """Take over the mappings of versions that were published since the last call."""
        for version in self.index.versions():
            if version.number not in self.mappings:
                self.mappings[version.number] = self.index._table.mapping_of(version.number)


def soak(setting: Setting) -> Result:
    """Run one mode, then check it."""
    began = time.perf_counter()
    ledger = Ledger()
    rng = np.random.default_rng([setting.seed, MODES.index(setting.mode)])
    queries, _ = learned_from(rng, POOL)
    with tempfile.TemporaryDirectory(prefix="mihash-soak-") as folder:
        index = filled(folder, rng, setting.n_items, ledger, named=setting.mode != "steady")
        with index:
            shared = Shared(index, queries, setting.mode)
            shared.note_mappings()
            threads = [Searcher(shared, [setting.seed, number]) for number in range(setting.n_threads)]
            for thread in threads:
                thread.start()
            writer = Writer(shared, ledger, rng)
            try:
                _work(writer, threads, setting)
            finally:
                shared.stop.set()
                for thread in threads:
                    thread.join()
            answers = [answer for thread in threads for answer in thread.answers]
            versions = sorted({answer.version for answer in answers})
            mappings = {version: shared.mappings[version] for version in versions}
            index.verify()
    errors = [thread.error for thread in threads if thread.error is not None]
    for error in errors:
        console.print(error, markup=False)
    wrong, changed = check(answers, ledger, mappings, queries)
    n_queries = sum(len(answer.queries) for answer in answers)
    seconds = time.perf_counter() - began
    return Result(setting, n_queries, writer.n_rehashes, shared.ended, changed, wrong + len(errors), seconds)


def learned_from(rng: np.random.Generator, n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return vectors around class centres, and their classes."""
    centres = np.random.default_rng(1).standard_normal((N_CLASSES, D)) * 2
    y = rng.integers(N_CLASSES, size=n)
    return (centres[y] + 2 * rng.standard_normal((n, D))).astype(np.float32), y


def filled(
    folder: str, rng: np.random.Generator, n_items: int, ledger: Ledger, named: bool = False, **options: Any
) -> mihash.OnlineIndex:
    """Return an index with rows that it has not learned from, but for the first few."""
    index = mihash.OnlineIndex.create(
        folder, N_BITS, reservoir_size=300, **options, trigger=mihash.TriggerUpdate(float("inf"))
    )
    labelled = min(500, n_items)
    starts = [0, *range(labelled, n_items, PART), n_items]
    for begin, end in pairwise(starts):
        X, y = learned_from(rng, end - begin)
        keys: list[int | str] = [f"item {row}" if named else row for row in range(begin, end)]
        colors = [COLORS[row % len(COLORS)] for row in range(begin, end)]
        metadata = [{"color": color} for color in colors] if named else None
        index.add(X, y if not begin else None, keys if named else None, metadata)
        ledger.add(0, X, keys, colors)
    index.wait()
    return index


def _work(writer: "Writer", threads: list["Searcher"], setting: Setting) -> None:
    """Change the index until there are enough searches and enough rehashes."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{setting.mode}: queries", total=setting.n_queries)
        while True:
            n_queries = sum(thread.n_queries for thread in threads)
            text = f"{setting.mode}: {writer.n_rehashes} rehashes, queries"
            progress.update(task, completed=n_queries, description=text)
            if n_queries >= setting.n_queries and writer.n_rehashes >= setting.n_rehashes:
                return
            if any(thread.error is not None for thread in threads):
                return
            if writer.n_rehashes * setting.n_queries > AHEAD * setting.n_rehashes * n_queries + setting.n_queries:
                time.sleep(0.01)  # each version takes a second to check
            else:
                writer.turn()


class Writer:
    """Changes an index and writes down what it has changed.

    Parameters
    ----------
    shared
        The index, and the count of changes.
    ledger
        Where rows are written down.
    rng
        What everything is drawn from.
    """

    def __init__(self, shared: Shared, ledger: Ledger, rng: np.random.Generator) -> None:
        self._shared, self._ledger, self._rng = shared, ledger, rng
        self.n_rehashes = 0

    def turn(self) -> None:
        """Make a few changes, the last of them while a new version is built, and wait for this one."""
        self._add(100)
        self._shared.index.rehash()
        if self._shared.mode != "steady":
            for _ in range(4):
                (self._add, self._delete, self._update)[int(self._rng.integers(3))](int(self._rng.integers(1, 60)))
            if self.n_rehashes % 7 == 3:
                self._shared.index.compact()
        if not self._shared.index.wait(timeout=120):
            raise RuntimeError("A version was not built within two minutes.")
        self._shared.note_mappings()
        self.n_rehashes += 1

    def _add(self, n: int) -> None:
        X, y = learned_from(self._rng, n)
        first = len(self._ledger.keys)
        named = self._shared.mode != "steady"
        keys: list[int | str] = [f"item {row}" if named else row for row in range(first, first + n)]
        colors = [COLORS[int(choice)] for choice in self._rng.integers(len(COLORS), size=n)]
        metadata = [{"color": color} for color in colors] if named else None
        self._ledger.add(self._begin(), X, keys, colors)
        self._shared.index.add(X, y, keys if named else None, metadata)
        self._shared.ended += 1

    def _delete(self, n: int) -> None:
        keys = self._some(n)
        self._ledger.remove(self._begin(), keys)
        self._shared.index.delete(keys)
        self._shared.ended += 1

    def _update(self, n: int) -> None:
        keys = self._some(n)
        X, y = learned_from(self._rng, n)
        state = self._begin()
        self._ledger.add(state, X, keys, self._ledger.remove(state, keys))
        self._shared.index.update(keys, X, y)
        self._shared.ended += 1

    def _begin(self) -> int:
        self._shared.begun += 1
        return self._shared.begun

    def _some(self, n: int) -> list[int | str]:
        """Return keys of rows, half of them near a query, so that answers change."""
        query = int(self._rng.integers(POOL))
        near = self._shared.index.search(self._shared.queries[query : query + 1], (n + 1) // 2).keys[0].tolist()
        alive = list(self._ledger.alive)
        others = [alive[at] for at in self._rng.choice(len(alive), size=n, replace=False)]
        return list(dict.fromkeys([*near, *others]))[:n]


class Searcher(threading.Thread):
    """Searches until it is told to stop, and keeps every answer.

    Parameters
    ----------
    shared
        The index and the queries.
    seed
        What the queries are drawn from.
    """

    def __init__(self, shared: Shared, seed: list[int]) -> None:
        super().__init__(daemon=True)
        self._shared, self._rng = shared, np.random.default_rng(seed)
        self.answers: list[Answer] = []
        self.n_queries = 0
        self.error: str | None = None

    def run(self) -> None:
        """Search."""
        try:
            while not self._shared.stop.is_set():
                self._search()
        except Exception:
            self.error = traceback.format_exc()

    def _search(self) -> None:
        shared, rng = self._shared, self._rng
        batch = tuple(rng.integers(POOL, size=int(rng.integers(1, 4))).tolist())
        kind = int(rng.integers(3)) if shared.mode == "filtered" else 0
        color, rescored = (COLORS[0] if kind == 1 else None), kind == 2
        where: dict[str, Any] | None = None
        if color is not None:  # half the time a filter that nobody has asked with before
            where = {"color": color} | ({"no": {"$ne": self.n_queries}} if rng.random() < 0.5 else {})
        state, before = shared.ended, shared.index.version
        how = {"where": where, "rescore": RESCORE if rescored else 0, "margins": False}
        hits = shared.index.search(shared.queries[list(batch)], K, **how)
        after, last = shared.index.version, shared.begun
        assert before is not None
        assert after is not None
        found = hits.keys if hits.keys.dtype != object else hits.keys.tolist()
        self.answers.append(
            Answer(batch, color, rescored, hits.version, state, last, (before, after), found, hits.distances)
        )
        self.n_queries += len(batch)


def check(
    answers: list[Answer], ledger: Ledger, mappings: dict[int, Any], queries: NDArray[np.float32]
) -> tuple[int, float]:
    """Return how many answers are wrong, and the share of them that a new version changes."""
    by_version: dict[int, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_version[answer.version].append(answer)
    wrong, same, previous = 0, [], None
    for version, mapping in mappings.items():
        exact = Exact(ledger, mapping, queries, K, RESCORE)
        for answer in by_version[version]:
            if not _fits(answer, exact):
                wrong += 1
                if wrong <= 3:
                    console.print(_explained(answer, ledger, mappings, queries), markup=False)
        firsts = [exact.answer(query, None, False, 0) for query in range(len(queries))]
        if previous is not None:
            same += [one == other for one, other in zip(firsts, previous, strict=True)]
        previous = firsts
    return wrong, 1 - float(np.mean(same)) if same else 0.0


def _fits(answer: Answer, exact: Exact) -> bool:
    """Tell whether all of an answer is exact at one state that the table had meanwhile."""
    if not answer.versions[0] <= answer.version <= answer.versions[1]:
        return False
    found = [
        (list(keys), list(distances))
        for keys, distances in zip(_lists(answer.keys), answer.distances.tolist(), strict=True)
    ]
    return any(
        all(
            exact.answer(query, answer.color, answer.rescored, state) == one
            for query, one in zip(answer.queries, found, strict=True)
        )
        for state in range(answer.first_state, answer.last_state + 1)
    )


def _lists(keys: Any) -> list[Any]:
    lists: list[Any] = keys.tolist() if isinstance(keys, np.ndarray) else keys
    return lists


def _explained(answer: Answer, ledger: Ledger, mappings: dict[int, Any], queries: NDArray[np.float32]) -> str:
    """Say what is wrong, and whether another version or state would have answered so."""
    others = [
        version
        for version, mapping in mappings.items()
        if _fits(
            answer._replace(version=version, versions=(version, version)),
            Exact(ledger, mapping, queries, K, RESCORE),
        )
    ]
    exact = Exact(ledger, mappings[answer.version], queries, K, RESCORE)
    expected = [exact.answer(query, answer.color, answer.rescored, answer.first_state) for query in answer.queries]
    return f"Wrong: {answer}\n  expected at first: {expected}\n  versions that answer so: {others or 'none'}"
