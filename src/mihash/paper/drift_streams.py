"""Streams that change, made of a data set: what `mihash reproduce drift` runs on.

Each stream is a function of the data set, the kind and the seed. Features are normalised by the first 256 rows of
the order drawn: centred, and with labels brought to unit length.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from .datasets.dataset import Dataset

Matrix = NDArray[np.float32]

N_FIRST = 256  # rows that the normalisation is taken from
_PHASES = 5
_OLD = 0.2  # share of rows of earlier classes in a phase
_RARE = 0.1  # share of the rare half of the classes
_HELD_OUT = 1000  # rows that are kept out of a stream, of all classes together


class Stream(NamedTuple):
    """A stream that changes.

    Attributes
    ----------
    kind
        Its name, a key of `KINDS`.
    X, y
        Its rows, in order, and their labels or None.
    changes
        After how many rows it changes abruptly.
    returns
        Those of ``changes`` that return to what was known before.
    held_out
        Of ``"classes"``: rows of every class that the stream does not have, and their labels; None of others, or
        where the data set has no such rows.
    """

    kind: str
    X: Matrix
    y: NDArray[Any] | None
    changes: tuple[int, ...] = ()
    returns: tuple[int, ...] = ()
    held_out: tuple[Matrix, NDArray[Any]] | None = None


def make_stream(dataset: Dataset, kind: str, length: int, seed: int) -> Stream:
    """Return a stream of a data set.

    Parameters
    ----------
    dataset
        Where rows are taken from, without replacement while there are enough.
    kind
        ``"none"``: rows in random order. ``"classes"``: five phases, each with a fifth of the classes as new ones
        and 20 % rows of earlier ones. ``"prior"``: nine tenths of the rows are of one half of the classes, then of
        the other. ``"rotate"``: a random rotation of all features and a shift by one spread half-way.
        ``"partial"``: the same in half of the directions, by half a spread. ``"recur"``: rotated and not, in four
        turns. ``"gradual"``: all directions turn by 90 degrees in pairs, from the first to the third quarter.
        ``"model"``: half-way, a random layer of rectified units replaces the features. ``"turn"``: images of
        8 x 8 pixels are turned by 90 degrees half-way.
    length
        How many rows.
    seed
        Seeds the order and the change.

    Examples
    --------
    >>> import mihash
    >>> stream = make_stream(mihash.datasets.digits(), "rotate", 1000, seed=0)
    >>> stream.X.shape, stream.changes
    ((1000, 64), (500,))
    """
    if kind not in KINDS:
        raise InvalidInput(f"`kind` must be one of {', '.join(KINDS)}; got {kind!r}.")
    if kind in NEED_LABELS and dataset.y is None:
        raise InvalidInput(f"A stream of the kind {kind!r} needs labels, and {dataset.name} has none.")
    rng = np.random.default_rng([seed, 31])
    return KINDS[kind](dataset, length, rng)


def _order(n: int, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return rows in random order; where the stream is longer than the data, in several orders after another."""
    turns = [rng.permutation(n) for _ in range(-(-length // n))]
    return np.concatenate(turns)[:length]


def _taken(dataset: Dataset, order: NDArray[np.int64]) -> tuple[Matrix, Any]:
    """Return normalised rows and labels in an order."""
    y = None if dataset.y is None else dataset.y[order]
    return _normalized(dataset.X[order], unit=y is not None), y


def _normalized(X: Matrix, unit: bool) -> Matrix:
    """Return rows centred by the first ones, and of unit length or with a mean square length of 1."""
    rows = X.astype(np.float64)
    rows -= rows[:N_FIRST].mean(axis=0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.maximum(lengths, 1e-12) if unit else np.sqrt(np.mean(lengths[:N_FIRST] ** 2))
    return rows.astype(np.float32)


def _none(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    return Stream("none", *_taken(dataset, _order(len(dataset), length, rng)))


def _classes(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    assert dataset.y is not None
    names = rng.permutation(np.unique(dataset.y))
    groups = np.array_split(names, _PHASES)
    pools = [_Pool(np.flatnonzero(np.isin(dataset.y, group)), rng) for group in groups]
    edges = np.linspace(0, length, _PHASES + 1).astype(int)
    order = list[int]()
    for phase in range(_PHASES):
        n = int(edges[phase + 1] - edges[phase])
        old = rng.random(n) < _OLD if phase else np.zeros(n, dtype=np.bool_)
        order += [pools[rng.integers(phase) if is_old else phase].take() for is_old in old.tolist()]
    held = _held_out(dataset.y, np.array(order), rng)
    X, y = _taken(dataset, np.concatenate([order, held]).astype(np.int64))
    changes = tuple(int(edge) for edge in edges[1:-1])
    return Stream("classes", X[:length], y[:length], changes, (), (X[length:], y[length:]) if len(held) else None)


def _held_out(y: NDArray[Any], order: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return rows that an order does not have: as many of each class, none where a class has too few of them."""
    unused = np.ones(len(y), dtype=np.bool_)
    unused[order] = False
    names = np.unique(y)
    each = max(1, _HELD_OUT // len(names))
    rows = [rng.permutation(np.flatnonzero(unused & (y == name)))[:each] for name in names]
    return np.concatenate(rows) if all(len(part) == each for part in rows) else np.empty(0, dtype=np.int64)


def _prior(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    assert dataset.y is not None
    halves = np.array_split(rng.permutation(np.unique(dataset.y)), 2)
    pools = [_Pool(np.flatnonzero(np.isin(dataset.y, half)), rng) for half in halves]
    rare = (rng.random(length) < _RARE).astype(int)
    which = np.where(np.arange(length) < length // 2, rare, 1 - rare)
    order = np.array([pools[pool].take() for pool in which.tolist()])
    return Stream("prior", *_taken(dataset, order), (length // 2,))


class _Pool:
    """Rows that are taken one after another in random order, again from the start when all were."""

    def __init__(self, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._rows, self._rng, self._at = rng.permutation(rows), rng, 0

    def take(self) -> int:
        if self._at == len(self._rows):
            self._rows, self._at = self._rng.permutation(self._rows), 0
        self._at += 1
        return int(self._rows[self._at - 1])


def _rotated(X: Matrix, rng: np.random.Generator, n_directions: int, shift: float) -> Matrix:
    """Rotate rows within random directions, and shift them by a part of their spread."""
    d = X.shape[1]
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:, :n_directions]
    turn = np.linalg.qr(rng.standard_normal((n_directions, n_directions)))[0]
    spread = np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    direction = rng.standard_normal(d)
    inside = X @ basis
    moved = X + (inside @ turn - inside) @ basis.T + shift * spread * direction / np.linalg.norm(direction)
    return np.asarray(moved, dtype=np.float32)


def _rotate(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    X, y = _taken(dataset, _order(len(dataset), length, rng))
    half = length // 2
    X[half:] = _rotated(X[half:], rng, X.shape[1], 1.0)
    return Stream("rotate", X, y, (half,))


def _partial(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    X, y = _taken(dataset, _order(len(dataset), length, rng))
    half = length // 2
    X[half:] = _rotated(X[half:], rng, X.shape[1] // 2, 0.5)
    return Stream("partial", X, y, (half,))


def _recur(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    X, y = _taken(dataset, _order(len(dataset), length, rng))
    edges = [length // 4, length // 2, 3 * length // 4]
    other = _rotated(X, rng, X.shape[1], 1.0)
    for begin, end in ((edges[0], edges[1]), (edges[2], length)):
        X[begin:end] = other[begin:end]
    return Stream("recur", X, y, tuple(edges), tuple(edges[1:]))


def _gradual(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    X, y = _taken(dataset, _order(len(dataset), length, rng))
    d = X.shape[1] // 2 * 2
    basis = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0][:, :d].astype(np.float32)
    angle = np.clip((np.arange(length) / length - 0.25) * 2, 0, 1) * (np.pi / 2)
    cos, sin = np.cos(angle)[:, None].astype(np.float32), np.sin(angle)[:, None].astype(np.float32)
    inside = X @ basis
    first, second = inside[:, 0::2], inside[:, 1::2]
    turned = np.empty_like(inside)
    turned[:, 0::2], turned[:, 1::2] = cos * first - sin * second, sin * first + cos * second
    return Stream("gradual", X + (turned - inside) @ basis.T, y)


def _model(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    X, y = _taken(dataset, _order(len(dataset), length, rng))
    half, d = length // 2, X.shape[1]
    layer = (rng.standard_normal((d, d)) / np.sqrt(d)).astype(np.float32)
    other = np.maximum(X[half:] @ layer, 0)
    scale = np.sqrt(np.square(X[:half]).sum(axis=1).mean() / np.square(other).sum(axis=1).mean())
    X[half:] = other * scale
    return Stream("model", X, y, (half,))


def _turn(dataset: Dataset, length: int, rng: np.random.Generator) -> Stream:
    side = round(dataset.n_features**0.5)
    if side * side != dataset.n_features:
        raise InvalidInput(f"Only square images can be turned; {dataset.name} has {dataset.n_features} features.")
    order = _order(len(dataset), length, rng)
    half = length // 2
    images = dataset.X[order].reshape(length, side, side)
    images[half:] = np.rot90(images[half:], axes=(1, 2))
    X = _normalized(images.reshape(length, -1), unit=dataset.y is not None)
    return Stream("turn", X, None if dataset.y is None else dataset.y[order], (half,))


KINDS: dict[str, Callable[[Dataset, int, np.random.Generator], Stream]] = {
    "none": _none,
    "classes": _classes,
    "prior": _prior,
    "rotate": _rotate,
    "partial": _partial,
    "recur": _recur,
    "gradual": _gradual,
    "model": _model,
    "turn": _turn,
}
NEED_LABELS = ("classes", "prior")
