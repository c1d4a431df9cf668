"""Commands that measure this machine: how fast it is, and what an index will cost on it."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..stopwatch import Stopwatch
from .arguments import OPTIONS, AsJSON, Bits, Format, Seed, open_vectors, refuse
from .output import duration, json_line, note, size, table
from .program import command
from .runbook_command import RunbookOptions, play_runbook

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..index.online_index import OnlineIndex
    from ..io.readers import Columns
    from ..sizing.plan import Plan

_PANEL = "This machine"
_CHUNK_ROWS = 4096
_ENCODED = 50
_QUERIES, _SINGLE_QUERIES = 1000, 50
_MAX_ROWS, _MAX_S = 1e15, 1e12
_RANDOM_ONLY = ("rows", "features", "bits", "learner")  # parameters of `bench`
_RUNBOOK_ONLY = ("data", "queries", "steps", "most", "only", "vector_format")


class _Measure(NamedTuple):
    what: str
    n: int
    unit: str
    seconds: float


@command(_PANEL, "mihash bench --rows 1000000 --features 512, or mihash bench --runbook sliding-window photos.npy")
def bench(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="With --runbook, a file of vectors.", show_default=False),
    ] = None,
    rows: Annotated[int, typer.Option(min=_CHUNK_ROWS, help="Vectors in the index.")] = 50_000,
    features: Annotated[int, typer.Option(min=1, help="Numbers in a vector.")] = 128,
    bits: Bits = 64,
    learner: Annotated[str, typer.Option(help="The learner whose speed is measured.")] = "momenthash",
    seed: Seed = 0,
    runbook: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Run a streaming runbook in the format of big-ann-benchmarks (YAML or JSON), or one that is "
            "made from DATA: sliding-window, expiration or clustered.",
            show_default=False,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --runbook, the queries.",
            show_default="100 rows of DATA that are not inserted",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="With a runbook made from DATA, the number of inserts.", min=2)] = 40,
    most: Annotated[
        int | None,
        typer.Option(
            "--max-rows", metavar="N", help="With --runbook, use only this many rows of DATA.", show_default="all"
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --runbook, a system to run; may be repeated.", show_default="all"),
    ] = None,
    vector_format: Format = None,
    as_json: AsJSON = False,
) -> None:
    """Measure how fast this machine learns, stores, encodes, rehashes and searches; or run a runbook.

    Without --runbook, it uses random vectors and an index in a temporary folder. Time for compilation is not
    included. With --runbook, it runs inserts, deletes and searches with each rule for rehashing and with peers
    that are installed, and shows recall, rehashes, processor time, memory and latency (docs/runbooks.md).
    """
    if runbook is not None:
        refuse(
            context,
            _RANDOM_ONLY,
            "is an option of the measurement with random vectors: leave it or --runbook out.",
        )
        play_runbook(runbook, data, queries, vector_format, RunbookOptions(steps, most, only, seed, as_json))
        return
    refuse(context, _RUNBOOK_ONLY, "is for a runbook: give --runbook, or leave it out.")
    note(f"Measuring with {rows:,} vectors of {features} numbers, {bits} bits ...")
    with tempfile.TemporaryDirectory() as folder:
        found = list(_measures(folder, _Clusters(features, seed), bits, learner, rows))
    if as_json:
        for each in found:
            json_line(each._asdict())
        return
    shown = [(each.what, f"{each.n / each.seconds:,.0f} {each.unit}/s", duration(each.seconds)) for each in found]
    table({"what": "left", "rate": "right", "took": "right"}, shown)


class _Clusters:
    """Random vectors in 64 clusters; the label of a vector is its cluster."""

    def __init__(self, n_features: int, seed: int) -> None:
        import numpy as np

        self._rng = np.random.default_rng(seed)
        self._centers = 2 * self._rng.standard_normal((64, n_features), dtype=np.float32)

    def draw(self, n: int) -> "tuple[NDArray[np.float32], NDArray[np.int64]]":
        import numpy as np

        y = self._rng.integers(0, len(self._centers), n)
        return self._centers[y] + self._rng.standard_normal((n, self._centers.shape[1]), dtype=np.float32), y


def _measures(folder: str, clusters: _Clusters, bits: int, learner: str, rows: int) -> Iterator[_Measure]:
    from ..index.online_index import OnlineIndex
    from ..trigger import TriggerUpdate

    X, y = clusters.draw(_CHUNK_ROWS)
    half = len(X) // 2
    with OnlineIndex.create(f"{folder}/learned", bits, learner) as index:
        index.add(X[:half], y[:half])
        yield _measure(f"add, learning with {learner}", half, "rows", lambda: index.add(X[half:], y[half:]))
    with OnlineIndex.create(f"{folder}/stored", bits, "lsh", TriggerUpdate(float("inf"))) as index:
        index.add(X)
        seconds, n = 0.0, rows - len(X)
        for start in range(0, n, _CHUNK_ROWS):
            seconds += _measure_add(index, clusters.draw(min(_CHUNK_ROWS, n - start))[0])
        if n:
            yield _Measure("add, learning nothing", n, "rows", seconds)
        snapshot = index.snapshot
        yield _measure("encode", _ENCODED * len(X), "rows", lambda: [snapshot.encode(X) for _ in range(_ENCODED)])
        yield _measure("rehash", len(index), "rows", lambda: _rehash(index))
        queries = clusters.draw(_QUERIES)[0]
        single = list(queries[:_SINGLE_QUERIES, None])
        yield _measure_search(index, f"search, {_QUERIES:,} at once", [queries])
        yield _measure_search(index, "search, one by one", single)
        yield _measure_search(index, "search, rescoring 100", single, rescore=100)


def _measure(what: str, n: int, unit: str, work: Callable[[], Any]) -> _Measure:
    watch = Stopwatch()
    work()
    return _Measure(what, n, unit, watch.seconds)


def _rehash(index: "OnlineIndex") -> None:
    index.rehash()
    index.wait(recall=False)


def _measure_add(index: "OnlineIndex", X: "NDArray[np.float32]") -> float:
    return _measure("", len(X), "", lambda: index.add(X)).seconds


def _measure_search(
    index: "OnlineIndex", what: str, batches: "list[NDArray[np.float32]]", rescore: int = 0
) -> _Measure:
    index.search(batches[0], rescore=rescore)  # compiles
    n = sum(map(len, batches))
    return _measure(what, n, "queries", lambda: [index.search(each, rescore=rescore) for each in batches])


@command(_PANEL, "mihash plan --rows 1e9 --features 128 --bits 64 --nodes 16 --rate 5000")
def plan(
    rows: Annotated[float, typer.Option(help="Vectors in the index, such as 1e9.")] = 1_000_000,
    features: Annotated[int, typer.Option(min=1, help="Numbers in a vector; ignored with --sample.")] = 128,
    bits: Annotated[
        int | None, typer.Option(help="Code length.", show_default="what an index chooses (docs/choosing.md)")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Vectors that arrive per second.", show_default="what one core can learn from"),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Machines that share the vectors.")] = 1,
    cores: Annotated[int, typer.Option(min=1, help="Cores of each machine that answer queries.")] = 1,
    learner: Annotated[
        str | None, typer.Option(help="The learner.", show_default="what an index chooses (docs/choosing.md)")
    ] = None,
    dtype: Annotated[str, typer.Option(help="How vectors are stored: float32 or float16.")] = "float32",
    interval: Annotated[int | None, typer.Option(help="Rows between two decisions.", show_default="100")] = None,
    disk: Annotated[
        float | None,
        typer.Option(help="MB/s that the disk reads, if the vectors do not fit in memory.", show_default=False),
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="The vectors will have labels.")] = False,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Vectors like those to come, in their order; the first 32,768 are read.",
            show_default="random vectors",
        ),
    ] = None,
    vector: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The vector in FILE.", show_default="guessed, and printed"),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The label in FILE.", show_default="no labels")
    ] = None,
    file_format: Format = None,
    as_json: AsJSON = False,
) -> None:
    """Estimate disk, memory, rehashes and query time of an index before it is built.

    The command measures a small index on this machine, which takes some seconds to a minute; docs/scale.md has the
    model. Use --labels if vectors will have labels: the default learner, the time to learn and the number of
    rehashes may then differ.
    """
    from ..errors import InvalidInput
    from ..index.defaults import default_bits, default_learner
    from ..index.options import N_BITS
    from ..io.readers import Columns
    from ..online import MomentHash
    from ..sizing.calibration import calibrate
    from ..sizing.plan import plan as estimate

    chosen = learner is None and bits is None and nodes == 1 and interval is None
    interval = 100 if interval is None else interval
    learner = MomentHash.name if learner is None else learner
    _check_plan(rows, rate, disk, dtype, N_BITS if bits is None else bits, learner, interval)
    X: NDArray[np.float32] | None = None
    y: NDArray[Any] | bool = labels
    if sample is None:
        for name, given in (("--vector", vector), ("--label", label), ("--format", file_format)):
            if given is not None:
                raise InvalidInput(f"{name} needs --sample.")
    else:
        _check_labels(learner, labels, label)
        X, y = _read_sample(sample, Columns(vector, label=label, called=OPTIONS), file_format)
    n_features = features if X is None else X.shape[1]
    if chosen:
        learner, bits = default_learner(n_features, y is not False)
    elif bits is None:
        bits = default_bits(n_features, y is not False, learner)
    machine = calibrate(
        n_features, bits, learner=learner, dtype=dtype, interval=interval, sample=X,
        labels=y, progress=lambda what: note(f"Measuring this machine: {what} ..."),
    )  # fmt: skip
    costs = estimate(
        machine, int(rows), rate=rate, nodes=nodes, cores=cores,
        disk_bytes_per_s=None if disk is None else 1e6 * disk,
    )  # fmt: skip
    if rate is not None and rate > costs.ingest_rate:
        note(
            f"One core learns from {costs.ingest_rate:,.0f} rows per second, fewer than {rate:,.0f}: rows would "
            "queue up. Learn from a part of them, and only store the others."
        )
    if as_json:
        json_line({**asdict(costs), **{f"measured_{name}": value for name, value in asdict(machine).items()}})
    else:
        with_labels = "with labels" if machine.labelled else "without labels"
        title = (
            f"{int(rows):,} vectors of {machine.n_features} numbers {with_labels}, {bits} bits, "
            f"{nodes} node{'s' * (nodes > 1)}"
        )
        table({"what": "left", "each node" if nodes > 1 else "cost": "right"}, _cost_rows(costs, cores), title)


def _check_plan(
    rows: float, rate: float | None, disk: float | None, dtype: str, bits: int, learner: str, interval: int
) -> None:
    """Refuse bad options before anything is measured."""
    from .. import validation
    from ..errors import InvalidInput
    from ..index.options import Options, default_trigger
    from ..sizing.calibration import DTYPES

    if not 1 <= rows <= _MAX_ROWS or rows != int(rows):
        raise InvalidInput(f"--rows must be a whole number from 1 to {_MAX_ROWS:g}; got {rows:g}.")
    for name, speed in (("rate", rate), ("disk", disk)):
        if speed is not None:
            validation.number(name, speed, above=0)
    validation.choice("dtype", dtype, DTYPES)
    Options(n_bits=bits, learner=learner, trigger=default_trigger(interval))


def _check_labels(learner: str, labels: bool, label: str | None) -> None:
    from ..errors import InvalidInput
    from ..online import learner_class

    if label is None and (labels or learner_class(learner).needs_labels):
        who = "--labels" if labels else learner
        raise InvalidInput(f"{who} needs a sample with labels: name the label column with --label.")


def _read_sample(
    sample: str, columns: "Columns", file_format: str | None
) -> "tuple[NDArray[np.float32], NDArray[Any] | bool]":
    """Return the first vectors of a file, and their labels, or False if it has none."""
    import numpy as np

    from ..errors import InvalidInput
    from ..io.readers.values import class_numbers
    from ..sizing.calibration import n_learned

    source, chunks = open_vectors(sample, columns, file_format), []
    for rows in source.rows(0, n_learned(1)):
        chunks.append(rows)
        if rows.first + len(rows.X) >= n_learned(rows.X.shape[1]):
            break
    if not chunks:
        raise InvalidInput(f"{source.name} has no rows; give a file with vectors.")
    found = [class_numbers(rows.y) for rows in chunks if rows.y is not None]
    return np.concatenate([rows.X for rows in chunks]), np.concatenate(found) if found else False


def _time(seconds: float) -> str:
    return duration(seconds) if seconds < _MAX_S else f"more than {duration(_MAX_S)}"


def _cost_rows(costs: "Plan", cores: int) -> list[tuple[str, str]]:
    few = " (the first ones of few rows)" if costs.updates > 1 else ""
    multi = [("memory of multi-index hashing, if it is used", size(costs.multi_index_bytes))]
    return [
        ("vectors", f"{costs.rows_per_node:,}"),
        ("disk", size(costs.disk_bytes)),
        ("memory", size(costs.memory_bytes)),
        ("memory during a rehash", size(costs.memory_peak_bytes)),
        *(multi if costs.multi_index_bytes else []),
        ("rows per second that one core learns from", f"{costs.ingest_rate:,.0f}"),
        ("time to add all rows", _time(costs.ingest_s)),
        ("a rehash of all rows", _time(costs.rehash_s)),
        ("rehashes with the trigger", f"about {costs.updates:,.0f}{few}"),
        ("rehashes at a fixed rate", f"{costs.updates_fixed:,.0f}"),
        ("time spent rehashing, with the trigger", _time(costs.rehashing_s)),
        ("time spent rehashing, at a fixed rate", _time(costs.rehashing_fixed_s)),
        ("a query, by codes alone", _time(costs.query_s)),
        (f"a query that looks up {costs.candidates:,.0f} vectors, the default", _time(costs.rescored_query_s)),
        (f"such queries per second on {cores} core{'s' * (cores > 1)}", f"{costs.queries_per_s:,.0f}"),
        ("an upsert of one row", _time(costs.upsert_s)),
        ("sent to each node by a rehash", size(costs.broadcast_bytes)),
    ]
