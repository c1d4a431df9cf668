"""A few rates of this machine, for the model of what an index costs (`mihash.sizing.plan`, docs/scale.md).

Times are CPU seconds, so that other work on the machine hardly counts. Waiting for the disk comes on top.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..index.options import Options, default_trigger
from ..online import learner_class
from ..search import as_columns, nearest
from .learning_costs import FEWEST, learning_costs
from .search_costs import QUERIES, best, search_costs
from .storing_costs import storing_costs

DTYPES = ("float32", "float16")

_LEARNED, _LEARNED_WIDE = 32_768, 8192  # most and fewest examples to learn from; between them, by _LEARNED_FLOATS
_LEARNED_FLOATS = 1 << 24
_FALLING = 4  # times ``n_learned`` examples: after these, the time to learn from an example stays the same
_LABEL_BYTES = 8
_SCANNED_BYTES = 16_000_000  # more than a core's own cache holds, as with any large index

_OPEN = """
import sys
import numpy as np
import mihash
with mihash.OnlineIndex.open(sys.argv[1]) as index:
    index.rehash()
    index.wait(recall=False)
    index.search(np.ones((1, index.snapshot.n_features), dtype=np.float32))
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmRSS")))
"""
_USUAL_BASE = 200e6  # where the system does not tell


@dataclass(frozen=True)
class Calibration:
    """What this machine does, per row, for vectors of one dimension and codes of one length.

    Attributes
    ----------
    n_features, n_bits, dtype
        What was measured.
    learn_s, store_s, rehash_s, scan_s
        Seconds to learn from an example late in a stream, to store a row, to read and encode a row again, and to
        compare a code.
    query_s
        Seconds of a query without the scan and without reading vectors.
    lookup_s, upsert_s
        Seconds to read the vector of one candidate; seconds to replace a row, without learning.
    disk_bytes, disk_base_bytes
        Bytes on disk for a row, with its vector and its codes of two versions, and for the learner's state.
    base_bytes
        Memory of a process that has a small index open, and has rehashed it.
    n_learned, updates, updates_doubling
        How many examples were learned from; how often the trigger accepted, in all and in the last half of them.
    interval
        Examples between two decisions of the trigger; a fixed rate rehashes as often.
    labelled
        Whether the examples had labels: learning is then several times as fast, and the number of rehashes
        differs.
    learn_first_s, learn_falling_s
        Seconds to learn from the first ``n_learned`` examples together. The s-th example after them takes
        ``learn_s`` + ``learn_falling_s`` / s, and stays there after 4 ``n_learned``. By default each takes
        ``learn_s``.
    moves
        Whether the learner moves its mapping; if not, there are no rehashes.
    n_searched, candidates, candidates_growth
        How many vectors (``candidates``) a search without options reads in an index of ``n_searched`` rows; with n
        times the rows it reads n ** ``candidates_growth`` times as many.
    ranking_s
        Seconds for each row of the index, if such a search ranks a share of all codes by margins.
    """

    n_features: int
    n_bits: int
    dtype: str
    learn_s: float
    store_s: float
    rehash_s: float
    scan_s: float
    query_s: float
    disk_bytes: float
    disk_base_bytes: float
    base_bytes: float
    n_learned: int
    updates: int
    updates_doubling: int
    interval: int = 100
    labelled: bool = False
    lookup_s: float = 0.0
    upsert_s: float = 0.0
    learn_first_s: float | None = None
    learn_falling_s: float = 0.0
    moves: bool = True
    n_searched: int = 1
    candidates: int = 100
    candidates_growth: float = 0.0
    ranking_s: float = 0.0

    def learning_s(self, rows: int) -> float:
        """Return the seconds to learn from the first ``rows`` examples.

        Examples
        --------
        >>> machine = Calibration(8, 16, "float32", 2e-4, 0, 0, 0, 0, 0, 0, 0, 1000, 5, 1, learn_first_s=0.5)
        >>> [round(machine.learning_s(rows), 3) for rows in (500, 1000, 2000)]
        [0.25, 0.5, 0.7]
        """
        n = self.n_learned
        first = self.learn_s * n if self.learn_first_s is None else self.learn_first_s
        if rows <= n:
            return first * rows / n
        end = min(rows, _FALLING * n)
        return first + self.learn_s * (rows - n) + self.learn_falling_s * (log(end / n) + (rows - end) / end)

    def learning_late_s(self, rows: int) -> float:
        """Return the seconds to learn from one more example after ``rows`` examples."""
        return self.learn_s + self.learn_falling_s / min(max(rows, self.n_learned), _FALLING * self.n_learned)


def n_learned(n_features: int) -> int:
    """Return how many examples with ``n_features`` features a calibration learns from at most.

    Examples
    --------
    >>> n_learned(128), n_learned(1024), n_learned(4096)
    (32768, 16384, 8192)
    """
    return max(_LEARNED_WIDE, min(_LEARNED, _LEARNED_FLOATS // n_features))


def calibrate(
    n_features: int = 128,
    n_bits: int = 64,
    *,
    learner: str = "momenthash",
    dtype: str = "float32",
    interval: int = 100,
    sample: ArrayLike | None = None,
    labels: bool | ArrayLike = False,
    progress: Callable[[str], object] = str,
) -> Calibration:
    """Measure this machine with a small index in a temporary folder; takes some seconds to a minute.

    Parameters
    ----------
    n_features, n_bits
        Of the planned index.
    learner, dtype, interval
        Likewise. An interval above a quarter of the examples is measured with that quarter, as nothing could be
        counted otherwise.
    sample
        Vectors of the planned stream, in their order, at least 1,000: how often the trigger accepts depends on
        them. Random vectors by default. The first 32,768 are learned from, or what 30 seconds are enough for;
        fewer, down to 8,192, where they have more than 512 features.
    labels
        The labels of the sample; for random vectors, whether they have some; for a learner that needs
        labels, they always do.
    progress
        Called with what is being measured.
    """
    n_features = validation.integer("n_features", n_features, minimum=1)
    options = Options(n_bits=n_bits, learner=learner, trigger=default_trigger(interval))
    validation.choice("dtype", dtype, DTYPES)
    X, y = _examples(n_features, options, sample, labels)
    progress("learning")
    learned = learning_costs(X, y, replace(options, trigger=default_trigger(min(interval, len(X) // 4))))
    with tempfile.TemporaryDirectory() as folder:
        progress("searching")
        searched = search_costs(Path(folder) / "searched", X, y, learned.mapping, dtype)
        scan_s = _scanning(n_bits, searched.n_ranked)
        progress("storing and rehashing")
        path = Path(folder) / "index"
        stored = storing_costs(path, X, n_bits, dtype, y is not None)
        progress("opening")
        base_bytes = _base(path)
    disk_bytes = max(stored.disk_bytes - (_LABEL_BYTES if y is None else 0), 0.0)
    return Calibration(
        n_features, n_bits, dtype, learned.late_s, stored.store_s, stored.rehash_s, scan_s, searched.query_s,
        disk_bytes, stored.disk_base_bytes, base_bytes, learned.n, learned.updates, learned.updates_doubling,
        interval, y is not None, searched.lookup_s, stored.upsert_s, learned.seconds, learned.falling_s,
        not options.make_learner().is_fixed, len(X), searched.candidates, searched.growth,
        searched.ranking_s,
    )  # fmt: skip


def _examples(
    n_features: int, options: Options, sample: ArrayLike | None, labels: bool | ArrayLike
) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Return what is learned from, checked, with its labels."""
    needed = learner_class(options.learner).needs_labels
    if sample is None:
        if not isinstance(labels, bool):
            raise InvalidInput("Without a `sample`, `labels` must be True or False: the vectors are random.")
        X, cloud = _made_up(n_features)
        return X, cloud if labels or needed else None
    X = validation.features("sample", sample, n_features)
    if len(X) < FEWEST:
        raise InvalidInput(f"`sample` must have at least {FEWEST:,} rows; got {len(X)}.")
    if isinstance(labels, bool):
        if labels or needed:
            why = "" if labels else f", which {options.learner} needs"
            raise InvalidInput(f"`labels` must be the labels of the sample{why}; got {labels}.")
        return X[: n_learned(n_features)], None
    n = n_learned(n_features)
    return X[:n], validation.labels("labels", labels, len(X))[:n]


def _made_up(n_features: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return vectors of a hundred clouds, and the cloud of each."""
    rng, n = np.random.default_rng(0), n_learned(n_features)
    centers = rng.standard_normal((100, n_features), dtype=np.float32)
    cloud = rng.integers(0, 100, n)
    return centers[cloud] + rng.standard_normal((n, n_features), dtype=np.float32), cloud


def _base(path: Path) -> float:
    try:
        run = subprocess.run([sys.executable, "-c", _OPEN, str(path)], check=True, capture_output=True, text=True)
        return 1024.0 * int(run.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return _USUAL_BASE


def _scanning(n_bits: int, k: int) -> float:
    """Return seconds for a code of a scan for the k nearest, one query at a time."""
    n_bytes = ceil(n_bits / 8)
    n = _SCANNED_BYTES // max(n_bytes, 4)
    codes = np.random.default_rng(0).integers(0, 256, (n, n_bytes), dtype=np.uint8)
    columns = as_columns(codes)
    return best(lambda: [nearest(columns[i : i + 1], columns, k) for i in range(QUERIES)]) / n
