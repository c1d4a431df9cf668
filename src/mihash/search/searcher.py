"""The choice of a search method: a scan, or multi-index hashing if that is cheaper.

Multi-index hashing is faster on codes that cluster, as learned ones do, and slower on random ones. So the cost is
counted: some of the codes serve as queries, and the sizes of the buckets that they would open give the cost of a
search. Counting and building take as long as some hundred scans, so they are done after that many scans: few
searches never pay for them, and many searches pay at most twice.
"""

import threading
from typing import Literal, Self, get_args

import numpy as np

from .. import validation
from . import scan
from .columns import Bitmap, Columns, n_live
from .multi_index import NEIGHBOR, MultiIndex, occupancy, work
from .scan import Found

Method = Literal["auto", "scan", "multi-index"]

_SMALL = 262_144  # below it a scan takes microseconds
_PATIENCE = 1024  # queries
_MOST = 2**32 - 1  # codes that the tables can number
_COUNTED = 65_536
_SAMPLE = 32
_CAUTION = 1.3  # a scan is the safer choice where they are close
_LONG = 128  # the tables of longer codes take more memory than they are worth, unless the caller chooses them
LONGEST_INDEXED = 256
"""The longest codes that multi-index hashing takes."""


def as_method(method: str) -> Method:
    """Return the name of a search method, or raise."""
    checked: Method = validation.choice("method", method, get_args(Method))
    return checked


class Searcher:
    """Searches codes that are appended to, and remembers which method is cheaper.

    Parameters
    ----------
    n_bits
        The length of a code.

    Examples
    --------
    >>> from mihash.search import as_columns
    >>> columns = as_columns(np.array([[3], [0], [1]], dtype=np.uint8))
    >>> Searcher(n_bits=8).nearest(columns[1:2], columns, k=2)[0].tolist()
    [[1, 2]]
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits
        self._lock = threading.Lock()
        self._index: MultiIndex | None = None
        # For each k or radius: queries since it was judged, on how many codes that was, and the judgement.
        self._asked: dict[tuple[str, int], int] = {}
        self._n_judged: dict[tuple[str, int], int] = {}
        self._pays: dict[tuple[str, int], bool] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        """Return how to make a copy, which has yet to learn which method is cheaper."""
        return type(self), (self.n_bits,)

    @property
    def index(self) -> MultiIndex | None:
        """The tables of multi-index hashing, None while there are none."""
        return self._index

    def nearest(
        self,
        queries: Columns,
        columns: Columns,
        k: int,
        live: Bitmap | None = None,
        method: Method = "auto",
        n_threads: int = 1,
    ) -> Found:
        """Return what `scan.nearest` returns, by the faster method."""
        n, reach = len(columns), k
        if live is not None and method == "auto" and n >= _SMALL:
            # Where some are filtered out, the k-th of those left is as far as a farther one of all.
            reach = k * n // max(n_live(live), 1)
        index = self._chosen(columns, len(queries), method, "nearest", 1 << (min(reach, n) - 1).bit_length())
        if index is None:
            return scan.nearest(queries, columns, k, live, n_threads)
        return index.nearest(queries, columns, k, live, n_threads)

    def within(
        self,
        queries: Columns,
        columns: Columns,
        radius: int,
        live: Bitmap | None = None,
        method: Method = "auto",
        n_threads: int = 1,
    ) -> list[Found]:
        """Return what `scan.within` returns, by the faster method."""
        index = self._chosen(columns, len(queries), method, "within", min(radius, self.n_bits))
        if index is None:
            return scan.within(queries, columns, radius, live, n_threads)
        return index.within(queries, columns, radius, live, n_threads)

    def always_scans(self, n: int) -> bool:
        """Tell whether n codes are scanned unless the caller chooses another method: no table is ever built."""
        return n < _SMALL or self.n_bits > _LONG

    def _chosen(
        self, columns: Columns, n_queries: int, method: Method, kind: str, reach: int
    ) -> MultiIndex | None:
        """Return the tables to search with, None for a scan."""
        n, key = len(columns), (kind, reach)
        if method == "scan" or self.n_bits > LONGEST_INDEXED or n > _MOST:
            return None
        if method == "multi-index":
            with self._lock:
                index: MultiIndex | None = self._built(columns)
        elif self.always_scans(n):
            return None
        else:
            self._asked[key] = self._asked.get(key, 0) + n_queries
            if self._asked[key] >= _PATIENCE and _outgrown(self._n_judged.get(key, 0), n):
                with self._lock:
                    self._judge(columns, kind, reach)
            index = self._index if self._pays.get(key) else None
        # A reader of an older edition has fewer codes than the tables.
        return index if index is not None and index.n <= n else None

    def _judge(self, columns: Columns, kind: str, reach: int) -> None:
        key = (kind, reach)
        if _outgrown(self._n_judged.get(key, 0), len(columns)):
            pays = self._cheaper(columns, kind, reach)
            if pays:
                self._built(columns)
            self._pays[key], self._n_judged[key], self._asked[key] = pays, len(columns), 0

    def _built(self, columns: Columns) -> MultiIndex:
        """Return tables over these codes, built again if they hold too few of them."""
        if self._index is None or _outgrown(self._index.n, len(columns)):
            self._index = MultiIndex(columns, self.n_bits)
        return self._index

    def _cheaper(self, columns: Columns, kind: str, reach: int) -> bool:
        """Return whether multi-index hashing costs less than a scan, on a sample of the codes as queries."""
        n = len(columns)
        sample = columns[:: max(n // _SAMPLE, 1)][:_SAMPLE]
        if kind == "within":
            radii = np.full(len(sample), reach, dtype=np.int32)
        elif reach * NEIGHBOR >= n:
            return False
        else:
            radii = scan.nearest(sample, columns, reach + 1)[1][:, -1]  # a code finds itself first
        costs = work(sample, occupancy(columns, self.n_bits), radii, self.n_bits, n)
        if kind == "within" and costs.mean() < n:
            part = columns[:: max(n // _COUNTED, 1)]
            costs += (
                NEIGHBOR * n // len(part) * np.array([len(ids) for ids, _ in scan.within(sample, part, reach)])
            )
        elif kind == "nearest":
            costs += NEIGHBOR * reach
        # A query that exceeds its budget is scanned after all.
        return bool(np.where(costs > n, 2 * n, costs).mean() * _CAUTION < n)


def _outgrown(n_then: int, n: int) -> bool:
    """Return whether the codes have grown by a quarter since there were ``n_then``."""
    return n_then == 0 or n > n_then + n_then // 4
