"""Plays a runbook with each contestant in a process of its own, and measures what it found and what that took."""

import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, MIHashError, NotReady
from ..neighbors import squared_distances
from ..records import Record
from ..stopwatch import Stopwatch
from .contestants import Contestant, contestant
from .runbook import DELETE, INSERT, REPLACE, SEARCH, Runbook, live_rows
from .workload import Workload

K = 10
_SINGLE = 20  # queries that are asked one by one at each search, for the latency
_GROUP = 256


@dataclass(frozen=True)
class Played(Record):
    """How a contestant did.

    Attributes
    ----------
    name
        Its name.
    skipped
        Why it did not play; None if it did.
    recall
        recall@10, the mean over the searches: the share of the true ten nearest that are found.
    recalls, code_recalls
        The same at each search; and by codes alone, for an index of this package.
    rehashes, encoded, hindsight, best_rehashes
        As `Work` has them.
    cpu_s
        Seconds of processor time for all steps, without the time to start.
    memory
        The most bytes of memory of its own at the end of a step, above what it began with.
    latency_ms, late_ms
        The median, and the 95th percentile, of the time of a search for one query right after a change.
    """

    name: str
    skipped: str | None = None
    recall: float | None = None
    recalls: list[float] = field(default_factory=list)
    code_recalls: list[float] = field(default_factory=list)
    rehashes: int = 0
    encoded: int = 0
    hindsight: float | None = None
    best_rehashes: int | None = None
    cpu_s: float | None = None
    memory: int | None = None
    latency_ms: float | None = None
    late_ms: float | None = None

    @property
    def code_recall(self) -> float | None:
        """The mean of ``code_recalls``."""
        return float(np.mean(self.code_recalls)) if self.code_recalls else None


def true_nearest(workload: Workload, k: int = K) -> list[NDArray[np.int64]]:
    """Return the tags of the k nearest items of each query at each search, -1 if there are fewer.

    Examples
    --------
    >>> from mihash.runbooks.runbook import Step
    >>> steps = [Step("insert", range(3), range(3)), Step("delete", range(1)), Step("search")]
    >>> runbook = Runbook.of_steps("x", steps)
    >>> true_nearest(Workload(runbook, np.float32([[0], [1], [2]]), np.float32([[0.1]])), k=3)[0].tolist()
    [[1, 2, -1]]
    """
    found = []
    for tags, rows in live_rows(workload.runbook):
        nearest = np.full((len(workload.queries), k), -1, dtype=np.int64)
        for start in range(0, len(workload.queries) if len(rows) else 0, _GROUP):
            distances = squared_distances(workload.queries[start : start + _GROUP], workload.X[rows])
            first = np.argsort(distances, axis=1, kind="stable")[:, :k]
            nearest[start : start + _GROUP, : first.shape[1]] = tags[first]
        found.append(nearest)
    return found


def recall_of(found: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Return the mean share of the true items that were found.

    Examples
    --------
    >>> recall_of(np.array([[1, 2], [3, 9]]), np.array([[2, 1], [3, 4]]))
    0.75
    """
    shares = [np.isin(row[row >= 0], got).mean() for row, got in zip(true, found, strict=True) if (row >= 0).any()]
    return float(np.mean(shares)) if shares else 1.0


def check_data(workload: Workload) -> None:
    """Raise if the data has too few rows for the runbook, or the queries have another width."""
    needed = workload.runbook.n_rows
    if needed > len(workload.X):
        raise InvalidInput(f"The runbook needs {needed:,} rows; the data has {len(workload.X):,}.")
    if workload.queries.shape[1] != workload.X.shape[1]:
        raise InvalidInput(
            f"Queries have {workload.queries.shape[1]} features, and the data has {workload.X.shape[1]}."
        )
    if not workload.runbook.n_searches:
        raise InvalidInput("The runbook has no `search` step.")


def play(workload: Workload, names: Iterable[str]) -> Iterator[Played]:
    """Play a runbook with each contestant, one after the other, and yield how it did."""
    check_data(workload)
    with tempfile.TemporaryDirectory(prefix="mihash-runbook-") as name:
        folder = Path(name)
        np.save(folder / "X.npy", workload.X)
        np.save(folder / "queries.npy", workload.queries)
        np.save(folder / "true.npy", np.stack(true_nearest(workload)))
        (folder / "runbook.yaml").write_text(workload.runbook.to_text(), encoding="utf-8")
        for each in names:
            yield _play_apart(folder, each)


def _play_apart(folder: Path, name: str) -> Played:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_play_here, args=(str(folder), name, theirs))
    process.start()
    theirs.close()
    try:
        return Played(**json.loads(ours.recv_bytes()))
    except EOFError:
        process.join()
        return Played(name, f"its process ended with {process.exitcode}")
    finally:
        process.join()
        ours.close()


def _play_here(folder: str, name: str, answer: Connection) -> None:
    """Play with one contestant, and send how it did."""
    place = Path(folder)
    workload = Workload(
        Runbook.from_text((place / "runbook.yaml").read_text(encoding="utf-8")),
        np.load(place / "X.npy", mmap_mode="r"),
        np.load(place / "queries.npy"),
    )
    try:
        with contestant(name) as player:
            played = play_with(player, name, workload, np.load(place / "true.npy"))
    except NotReady as error:
        played = Played(name, str(error))
    except MIHashError as error:
        played = Played(name, f"failed: {error}")
    answer.send_bytes(json.dumps(asdict(played)).encode())


def play_with(player: Contestant, name: str, workload: Workload, true: NDArray[np.int64]) -> Played:
    """Play a runbook with one contestant in this process."""
    queries, k = workload.queries, true.shape[2]
    found: list[NDArray[np.int64]] = []
    by_codes: list[NDArray[np.int64]] = []
    seconds, memory = list[float](), 0
    begun, used, unmeasured = _own_memory(), time.process_time(), 0.0
    for step in workload.runbook.steps:
        tags = np.asarray(step.tags, dtype=np.int64)
        if step.operation == INSERT:
            player.insert(tags, np.ascontiguousarray(workload.X[step.rows.start : step.rows.stop]))
        elif step.operation == REPLACE:
            player.replace(tags, np.ascontiguousarray(workload.X[step.rows.start : step.rows.stop]))
        elif step.operation == DELETE:
            player.delete(tags)
        else:
            assert step.operation == SEARCH
            for query in queries[len(found) * _SINGLE % len(queries) :][:_SINGLE]:
                watch = Stopwatch()
                player.search(query[None], k)
                seconds.append(watch.seconds)
            player.settle()
            found.append(player.search(queries, k))
            before = time.process_time()
            codes = player.search_codes(queries, k)
            unmeasured += time.process_time() - before
            if codes is not None:
                by_codes.append(codes)
        memory = max(memory, _own_memory() - begun)
    player.settle()
    cpu_s = time.process_time() - used - unmeasured
    recalls = [recall_of(each, true[place]) for place, each in enumerate(found)]
    times = 1000 * np.array(seconds[_SINGLE:] or seconds)  # without those in which kernels are compiled
    work: dict[str, Any] = player.work()._asdict()
    return Played(
        name,
        recall=float(np.mean(recalls)),
        recalls=recalls,
        code_recalls=[recall_of(each, true[place]) for place, each in enumerate(by_codes)],
        cpu_s=cpu_s,
        memory=memory,
        latency_ms=float(np.median(times)),
        late_ms=float(np.quantile(times, 0.95)),
        **work,
    )


def _own_memory() -> int:
    """Return the bytes of memory of this process that are no pages of files; 0 on systems without /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)
