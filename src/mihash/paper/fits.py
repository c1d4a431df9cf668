"""Batch methods fitted to a training set and measured: Setting 1 of the paper (Sec. 4.3.2, Tables 1 and 3).

The training set is a quarter of the stream, as many examples of each class as of any other: 500 of each of the ten
classes at the paper's sizes. Queries and retrieval set are those of the online experiments.
"""

import inspect
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..batch import method_class
from ..codes import pack, unpack
from ..errors import InvalidInput
from ..kernels import one_thread
from ..neighbors import Labels
from ..ranking import mean_average_precision
from .datasets import Split
from .jobs import Job
from .learning_pass import pass_seed

Matrix = NDArray[np.float32]

_SHARE = 4
_WIDENING = 5  # what a generator is for
_ROWS = 4096


def fit_once(
    split: Split, jobs: Sequence[Job], seed: int = 0, top: int | None = None, device: str = "auto"
) -> list[dict[str, Any]]:
    """Fit a method once, for codes of one length or of several that are beginnings of the longest; measure each.

    Returns for each length mAP as ``"final"``, the kind of mapping, the method's history, how many examples it
    learned from, and CPU seconds: of learning, and of one step (an epoch, a turn, a bit), in the median. Where the
    method refuses the data, it is its reason as ``"refused"``. A method that can learn on a GPU does so on a
    ``device`` that is given, not by itself; its seconds are then those that passed.

    Examples
    --------
    >>> from mihash.paper.datasets import digits, find_protocol
    >>> split = find_protocol("digits").split(digits())
    >>> found = fit_once(split, [Job("batch", "digits", "itq", (), 16)])[0]
    >>> found["n_train"], found["mapping"], found["final"] > 0.5
    (390, 'linear', True)
    """
    longest = max(jobs, key=lambda job: job.n_bits)
    rows = training_set(split)
    y = None if split.y_base is None else split.y_base[rows]
    X = widened(split.X_base[rows], longest.n_features, seed)
    options: dict[str, Any] = {
        "n_bits": longest.n_bits,
        "seed": pass_seed(longest.trial, seed),
        **dict(longest.parameters),
    }
    on_device = device != "auto" and can_choose_device(longest.method)
    options |= {"device": device} if on_device else {}
    method = method_class(longest.method)(**options)
    clock = time.perf_counter if on_device else time.process_time
    moments = [clock()]
    with one_thread():
        try:
            mapping = method.fit(X, y, lambda *_: moments.append(clock()))
        except InvalidInput as error:
            return [{"refused": str(error), "n_train": len(rows)} for _ in jobs]
        moments.append(clock())
        queries, base = (_bits(mapping, X, longest.n_features, seed) for X in (split.X_query, split.X_base))
    found = []
    for job in jobs:
        codes = (pack(queries[:, : job.n_bits]), pack(base[:, : job.n_bits]))
        until = moments if job.n_bits == longest.n_bits else moments[: job.n_bits + 1]
        steps = [after - before for before, after in pairwise(until[1:-1])] or [until[-1] - until[0]]
        found.append(
            {
                "final": mean_average_precision(*codes, split.relevant, job.n_bits, top=top),
                "mapping": mapping.kind,
                "history": method.history[: job.n_bits] if method.nested else method.history,
                "n_train": len(rows),
                "times": {"learning_s": until[-1] - until[0], "step_s": float(np.median(steps))},
            }
        )
    return found


def can_choose_device(method: str) -> bool:
    """Tell whether a batch method can learn on a GPU.

    Examples
    --------
    >>> can_choose_device("sdh")
    False
    """
    return "device" in inspect.signature(method_class(method)).parameters


def training_set(split: Split) -> NDArray[np.int64]:
    """Return which rows of the retrieval set are learned from: the first of each class in the stream.

    Examples
    --------
    >>> from mihash.paper.datasets import digits, find_protocol
    >>> split = find_protocol("digits").split(digits())
    >>> np.bincount(split.y_base[training_set(split)]).tolist()
    [39, 39, 39, 39, 39, 39, 39, 39, 39, 39]
    """
    n, y = max(2, len(split.stream) // _SHARE), split.y_stream
    if y is None or y.ndim == 2:
        return split.stream[:n]
    return split.stream[np.sort(_of_each(y, n))]


def _of_each(y: Labels, n: int) -> NDArray[np.int64]:
    """Return the places of the first examples of each class, as many of each as make n: a pair at least."""
    classes, which = np.unique(y, return_inverse=True)
    count = max(2, n // len(classes))
    return np.concatenate([np.flatnonzero(which == index)[:count] for index in range(len(classes))])


def widened(X: Matrix, n_features: int, seed: int = 0) -> Matrix:
    """Return vectors in more dimensions, at the same distances; as they are where they have as many already.

    Examples
    --------
    >>> X = np.eye(2, 3, dtype=np.float32)
    >>> wide = widened(X, 5)
    >>> wide.shape, np.round(wide @ wide.T, 3).tolist()
    ((2, 5), [[1.0, 0.0], [0.0, 1.0]])
    """
    d = X.shape[1]
    if n_features <= d:
        return X
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_WIDENING,)))
    Q = np.linalg.qr(generator.standard_normal((n_features, d)))[0].T
    wide: Matrix = X @ np.ascontiguousarray(Q, dtype=np.float32)
    return wide


def _bits(mapping: Any, X: Matrix, n_features: int, seed: int) -> NDArray[np.bool_]:
    """Return the bits (n, b) of vectors, widened a part at a time."""
    parts = [
        mapping.encode_rows(np.ascontiguousarray(widened(X[start : start + _ROWS], n_features, seed)))
        for start in range(0, len(X), _ROWS)
    ]
    bits: NDArray[np.bool_] = unpack(np.concatenate(parts), mapping.n_bits) > 0
    return bits
