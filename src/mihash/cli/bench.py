"""The command that measures this machine."""

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .output import duration, note, table
from .program import command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..index.online_index import OnlineIndex

_LEARNED_ROWS = 4096
_CHUNK_ROWS = 4096
_ENCODED = 50
_QUERIES = 1000
_SINGLE_QUERIES = 50


class _Measure(NamedTuple):
    what: str
    n: int
    unit: str
    seconds: float


@command("This machine", "mihash bench --rows 1000000 --features 512 --bits 128")
def bench(
    rows: Annotated[int, typer.Option(help="Vectors in the index.")] = 50_000,
    features: Annotated[int, typer.Option(help="Numbers in a vector.")] = 128,
    bits: Annotated[int, typer.Option(help="Code length.")] = 64,
    learner: Annotated[str, typer.Option(help="The learner whose speed is measured.")] = "mihash",
    seed: Annotated[int, typer.Option(help="Seeds the made-up vectors.")] = 0,
) -> None:
    """Measure how fast this machine learns, stores, encodes, rehashes and searches.

    On made-up vectors, with an index in a temporary folder. What is compiled, is compiled before it is measured.
    """
    from .. import validation

    validation.integer("rows", rows, minimum=_LEARNED_ROWS)
    validation.integer("features", features, minimum=1)
    note(f"Measuring with {rows:,} vectors of {features} numbers, {bits} bits ...")
    clouds = _Clouds(features, seed)
    with tempfile.TemporaryDirectory() as folder:
        found = [
            *_learning(f"{folder}/learned", clouds, bits, learner),
            *_serving(f"{folder}/stored", clouds, bits, rows),
        ]
    shown = [(each.what, f"{each.n / each.seconds:,.0f} {each.unit}/s", duration(each.seconds)) for each in found]
    table({"what": "left", "rate": "right", "took": "right"}, shown)


class _Clouds:
    """Made-up vectors: 64 clouds, the label of a vector being its cloud."""

    def __init__(self, n_features: int, seed: int) -> None:
        import numpy as np

        self._rng = np.random.default_rng(seed)
        self._centers = 2 * self._rng.standard_normal((64, n_features), dtype=np.float32)

    def draw(self, n: int) -> "tuple[NDArray[np.float32], NDArray[np.int64]]":
        import numpy as np

        y = self._rng.integers(0, len(self._centers), n)
        return self._centers[y] + self._rng.standard_normal((n, self._centers.shape[1]), dtype=np.float32), y


def _learning(folder: str, clouds: _Clouds, bits: int, learner: str) -> Iterator[_Measure]:
    from ..index.online_index import OnlineIndex

    X, y = clouds.draw(_LEARNED_ROWS)
    half = len(X) // 2
    with OnlineIndex.create(folder, bits, learner) as index:
        index.add(X[:half], y[:half])
        yield _measure(f"add, learning with {learner}", half, "rows", lambda: index.add(X[half:], y[half:]))


def _serving(folder: str, clouds: _Clouds, bits: int, rows: int) -> Iterator[_Measure]:
    from ..index.online_index import OnlineIndex
    from ..trigger import TriggerUpdate

    with OnlineIndex.create(folder, bits, "lsh", TriggerUpdate(float("inf"))) as index:
        index.add(clouds.draw(_CHUNK_ROWS)[0])
        seconds = [_filled(index, clouds, n) for n in _chunks(rows - _CHUNK_ROWS)]
        if seconds:
            yield _Measure("add, learning nothing", rows - _CHUNK_ROWS, "rows", sum(seconds))
        X, snapshot = clouds.draw(_CHUNK_ROWS)[0], index.snapshot
        yield _measure("encode", _ENCODED * len(X), "rows", lambda: [snapshot.encode(X) for _ in range(_ENCODED)])
        yield _measure("rehash", len(index), "rows", lambda: _rehashed(index))
        queries = clouds.draw(_QUERIES)[0]
        single = queries[:_SINGLE_QUERIES]
        for what, asked, rescore in (
            (f"search, {_QUERIES:,} at once", [queries], 0),
            ("search, one by one", list(single[:, None]), 0),
            ("search, rescoring 100", list(single[:, None]), 100),
        ):
            index.search(asked[0], rescore=rescore)
            n = sum(len(each) for each in asked)
            yield _measure(what, n, "queries", lambda: _asked(index, asked, rescore))  # noqa: B023 -- at once


def _chunks(n: int) -> list[int]:
    return [min(_CHUNK_ROWS, n - start) for start in range(0, n, _CHUNK_ROWS)]


def _filled(index: "OnlineIndex", clouds: _Clouds, n: int) -> float:
    X = clouds.draw(n)[0]
    return _measure("", n, "", lambda: index.add(X)).seconds


def _rehashed(index: "OnlineIndex") -> None:
    index.rehash()
    index.wait()


def _asked(index: "OnlineIndex", asked: "list[NDArray[np.float32]]", rescore: int) -> None:
    for queries in asked:
        index.search(queries, rescore=rescore)


def _measure(what: str, n: int, unit: str, work: Callable[[], Any]) -> _Measure:
    begin = time.perf_counter()
    work()
    return _Measure(what, n, unit, time.perf_counter() - begin)
