"""The hash mapping Phi: feature vectors to binary codes, as frozen values (Sec. 3).

Learners produce mappings; only mappings encode. A mapping never changes once it is made, so the snapshot of
Sec. 3.1 is simply a reference to one.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .errors import CorruptStore, InvalidInput
from .kernels import one_thread
from .state import State

__all__ = [
    "GaussianKernel",
    "HashMapping",
    "KernelMapping",
    "LinearMapping",
    "NormalizedMapping",
    "mapping_from_state",
    "multiply_rows",
]

Matrix = NDArray[np.float32]

BLOCK_ROWS = 64
_CHUNK_BYTES = 1 << 20
_FAR = 1000.0  # a centre so many times the spread away costs digits, unless it is subtracted first
_SHORT = 1e-15


def multiply_rows(X: Matrix, W: Matrix) -> Matrix:
    """Return X @ W so that a row of the result depends on that row of X and on W alone.

    BLAS gives other last bits for other shapes and numbers of threads. So every product here has one shape, 64
    rows, the last one padded with zeros, and one thread: a vector has the same projection alone, in a batch, or in
    another order.

    Examples
    --------
    >>> X, W = np.ones((70, 3), dtype=np.float32), np.eye(3, 2, dtype=np.float32)
    >>> multiply_rows(X, W).shape
    (70, 2)
    """
    n, d = X.shape
    W = np.ascontiguousarray(W)
    out = np.empty((n, W.shape[1]), dtype=np.float32)
    whole = n - n % BLOCK_ROWS
    with one_thread():
        if whole:
            blocks = np.ascontiguousarray(X[:whole]).reshape(-1, BLOCK_ROWS, d)
            np.matmul(blocks, W, out=out[:whole].reshape(-1, BLOCK_ROWS, W.shape[1]))
        if whole < n:
            padded = np.zeros((BLOCK_ROWS, d), dtype=np.float32)
            padded[: n - whole] = X[whole:]
            out[whole:] = (padded @ W)[: n - whole]
    return out


class HashMapping(ABC):
    """A frozen hash mapping: what encodes.

    Subclasses are values made of arrays that are set read-only; `arrays` names them.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def n_bits(self) -> int:
        """The code length b."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The dimension d of the vectors that it takes."""

    @abstractmethod
    def arrays(self) -> dict[str, Matrix]:
        """Return the parameters by name; all that the mapping is made of."""

    @abstractmethod
    def project(self, X: Matrix) -> Matrix:
        """Return the real values (n, b) whose signs are the bits."""

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the packed codes (n, ceil(b / 8)) of feature vectors (n, d); a value of 0 gives bit 0."""
        vectors = validation.features("X", X, self.n_features, allow_empty=True, check=False)
        return self.encode_rows(vectors, check=True)

    def encode_rows(self, X: Matrix, check: bool = False) -> NDArray[np.uint8]:
        """Return the codes of float32 vectors of the right width, a chunk at a time while it is in the cache."""
        codes = np.empty((len(X), -(-self.n_bits // 8)), dtype=np.uint8)
        rows = max(BLOCK_ROWS, _CHUNK_BYTES // (4 * self.n_features) // BLOCK_ROWS * BLOCK_ROWS)
        for start in range(0, len(X), rows):
            part = slice(start, start + rows)
            if check:
                validation.finite("X", X[part], start)
            codes[part] = np.packbits(self.project(X[part]) > 0, axis=1, bitorder="little")
        return codes

    @cached_property
    def fingerprint(self) -> str:
        """Thirty-two hexadecimal digits that two mappings share only if they are the same."""
        digest = hashlib.blake2b(self.kind.encode(), digest_size=16)
        for name, array in self.arrays().items():
            digest.update(f"{name}{array.shape}".encode())
            digest.update(array.astype("<f4", copy=False).tobytes())
        return digest.hexdigest()

    def distance(self, other: "HashMapping") -> float:
        """Return ||Phi - Phi'||, the norm of the difference of the parameters; infinite if they do not compare."""
        mine, others = self.arrays(), other.arrays()
        if self.kind != other.kind or any(mine[name].shape != others[name].shape for name in mine):
            return float("inf")
        differences = ((mine[name] - others[name]).ravel() for name in mine)
        return float(np.sqrt(sum(float(np.dot(part, part)) for part in differences)))

    def state(self) -> State:
        """Return what `mapping_from_state` makes the mapping from."""
        return {"kind": self.kind, "arrays": dict(self.arrays())}

    def __copy__(self) -> Self:
        """Return the mapping itself: it never changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the mapping itself: it never changes."""
        return self

    def __eq__(self, other: object) -> bool:
        """Tell whether two mappings are the same value."""
        return isinstance(other, HashMapping) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        """Hash by value."""
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        """Show the kind, the shape and the start of the fingerprint."""
        return f"{type(self).__name__}({self.n_features} -> {self.n_bits} bits, {self.fingerprint[:8]})"


class LinearMapping(HashMapping):
    """Linear hash functions: bit i is 1 where w_i . x + offset_i > 0 (Sec. 3.2).

    Parameters
    ----------
    weights
        The matrix W (d, b); a copy is kept.
    offset
        One number for each bit; zeros by default. It carries a mean that is subtracted, for example.

    Examples
    --------
    >>> mapping = LinearMapping(np.array([[1.0, -1.0], [0.0, 2.0]]), offset=[0.0, -1.0])
    >>> mapping.encode([[1.0, 0.0], [0.5, 2.0]]).ravel()
    array([1, 3], dtype=uint8)
    """

    kind = "linear"

    def __init__(self, weights: ArrayLike, offset: ArrayLike | None = None) -> None:
        self._weights = _frozen("weights", weights, ndim=2)
        given = np.zeros(self._weights.shape[1]) if offset is None else offset
        self._offset = _frozen("offset", given, ndim=1)
        if self._offset.shape != self._weights.shape[1:]:
            raise InvalidInput(
                f"`offset` must have one number for each of the {self._weights.shape[1]} bits; "
                f"got shape {self._offset.shape}."
            )

    @property
    def weights(self) -> Matrix:
        """The matrix W (d, b), read-only."""
        return self._weights

    @property
    def offset(self) -> Matrix:
        """What is added to each bit's projection (b,), read-only."""
        return self._offset

    @property
    def n_bits(self) -> int:
        """The code length b."""
        return int(self._weights.shape[1])

    @property
    def n_features(self) -> int:
        """The dimension d of the vectors that it takes."""
        return int(self._weights.shape[0])

    def arrays(self) -> dict[str, Matrix]:
        """Return the weights and the offset."""
        return {"weights": self._weights, "offset": self._offset}

    def project(self, X: Matrix) -> Matrix:
        """Return X W + offset, each row independent of the others to the last bit."""
        projections = multiply_rows(X, self._weights)
        projections += self._offset
        return projections


class KernelMapping(HashMapping):
    """Linear hash functions on a Gaussian kernel map: bit i is 1 where w_i . k(x) + offset_i > 0.

    k(x) = exp(-||x - a||^2 / (2 width^2)), one number for each anchor a.

    Parameters
    ----------
    anchors
        The anchors (m, d); a copy is kept.
    width
        The kernel's width sigma.
    weights
        The matrix W (m, b).
    offset
        One number for each bit; zeros by default.
    kernel
        The kernel map of these anchors and this width, where somebody has it at hand.

    Examples
    --------
    >>> mapping = KernelMapping([[0.0], [3.0]], width=1.0, weights=np.eye(2), offset=[-0.5, -0.5])
    >>> mapping.encode([[0.1], [2.9], [9.0]]).ravel()
    array([1, 2, 0], dtype=uint8)
    """

    kind = "kernel"

    def __init__(
        self,
        anchors: ArrayLike,
        width: ArrayLike,
        weights: ArrayLike,
        offset: ArrayLike | None = None,
        *,
        kernel: "GaussianKernel | None" = None,
    ) -> None:
        self._kernel = GaussianKernel(anchors, float(np.reshape(width, ()))) if kernel is None else kernel
        self._linear = LinearMapping(weights, offset)
        if self._linear.n_features != len(self._kernel.anchors):
            raise InvalidInput(
                f"`weights` must have a row for each of the {len(self._kernel.anchors)} anchors; "
                f"got {self._linear.n_features}."
            )

    @property
    def n_bits(self) -> int:
        """The code length b."""
        return self._linear.n_bits

    @property
    def n_features(self) -> int:
        """The dimension d of the vectors that it takes."""
        return int(self._kernel.anchors.shape[1])

    def arrays(self) -> dict[str, Matrix]:
        """Return anchors, width, weights and offset."""
        return {"anchors": self._kernel.anchors, "width": self._kernel.width, **self._linear.arrays()}

    def project(self, X: Matrix) -> Matrix:
        """Return k(X) W + offset, each row independent of the others to the last bit."""
        return self._linear.project(self._kernel.features(X))


class GaussianKernel:
    """The kernel map k(x) = exp(-||x - a||^2 / (2 width^2)); what depends on the anchors alone is worked out once.

    Examples
    --------
    >>> kernel = GaussianKernel(np.array([[0, 0], [1, 1]], dtype=np.float32), width=1.0)
    >>> kernel.features(np.zeros((1, 2), dtype=np.float32)).round(3)
    array([[1.   , 0.368]], dtype=float32)
    """

    def __init__(self, anchors: ArrayLike, width: float) -> None:
        if not (np.isfinite(width) and width > 0):
            raise InvalidInput(f"`width` must be above 0; got {width}.")
        self.anchors = _frozen("anchors", anchors, ndim=2)
        self.width = _frozen("width", [width], ndim=1)
        self._centre = self.anchors.mean(axis=0)
        centred = self.anchors - self._centre
        self._inner = np.ascontiguousarray(-2 * centred.T)
        self._squares = np.einsum("ij,ij->i", centred, centred)
        self._factor = np.float32(-0.5 / float(self.width[0]) ** 2)

    def features(self, X: Matrix) -> Matrix:
        """Return k(x) for each row (n, anchors), each row independent of the others to the last bit."""
        Z = X - self._centre
        squares = multiply_rows(Z, self._inner)
        squares += np.einsum("ij,ij->i", Z, Z)[:, None]
        squares += self._squares
        np.maximum(squares, 0, out=squares)
        squares *= self._factor
        return np.exp(squares, out=squares)


class NormalizedMapping(HashMapping):
    """A hash mapping of normalised features: phi(gain (u - mean)), where u is x, or x at unit length.

    The normalisation is part of the mapping, so queries and stored vectors go through the same.

    Parameters
    ----------
    inner
        The mapping phi of normalised features.
    mean
        What is subtracted (d,).
    gain
        A scalar factor.
    unit
        Whether vectors are brought to unit length first.

    Examples
    --------
    >>> inner = LinearMapping([[1.0], [0.0]])
    >>> mapping = NormalizedMapping(inner, mean=[0.5, 0.0], unit=True)
    >>> mapping.encode([[3.0, 3.0], [0.1, 1.0]]).ravel()
    array([1, 0], dtype=uint8)
    """

    kind = "normalized"

    def __init__(self, inner: HashMapping, mean: ArrayLike, gain: float = 1.0, unit: bool = False) -> None:
        self.inner = inner
        self.mean = _frozen("mean", mean, ndim=1)
        self.gain = _frozen("gain", [gain], ndim=1)
        self.unit = bool(unit)
        if len(self.mean) != inner.n_features:
            raise InvalidInput(f"`mean` must have {inner.n_features} numbers; got {len(self.mean)}.")
        self._folded: LinearMapping | None = None
        if isinstance(inner, LinearMapping) and np.linalg.norm(self.mean) * float(self.gain[0]) < _FAR:
            weights = inner.weights.astype(np.float64) * float(self.gain[0])
            self._folded = LinearMapping(weights, inner.offset - self.mean @ weights)

    @property
    def n_bits(self) -> int:
        """The code length b."""
        return self.inner.n_bits

    @property
    def n_features(self) -> int:
        """The dimension d of the vectors that it takes."""
        return self.inner.n_features

    def arrays(self) -> dict[str, Matrix]:
        """Return the normalisation, and the arrays of the inner mapping."""
        unit = np.array([self.unit], dtype=np.float32)
        return {"mean": self.mean, "gain": self.gain, "unit": unit, **self.inner.arrays()}

    def normalize(self, X: Matrix) -> Matrix:
        """Return normalised features (n, d)."""
        if self.unit:
            X = X * _inverse_lengths(X)[:, None]
        return (X - self.mean) * self.gain

    def project(self, X: Matrix) -> Matrix:
        """Return the inner mapping's real values; for a linear one, without a pass over the features."""
        if self._folded is None:
            return self.inner.project(self.normalize(X))
        if not self.unit:
            return self._folded.project(X)
        projections = multiply_rows(X, self._folded.weights)
        projections *= _inverse_lengths(X)[:, None]
        projections += self._folded.offset
        return projections

    def distance(self, other: HashMapping) -> float:
        """Return the distance of the inner mappings where the normalisation is the same, else infinity."""
        same = isinstance(other, NormalizedMapping) and self.unit == other.unit
        if same and np.array_equal(self.mean, other.mean) and np.array_equal(self.gain, other.gain):  # type: ignore[attr-defined]
            return self.inner.distance(other.inner)  # type: ignore[attr-defined]
        return float("inf")

    def state(self) -> State:
        """Return what `mapping_from_state` makes the mapping from."""
        own = {"mean": self.mean, "gain": self.gain, "unit": self.unit}
        return {"kind": self.kind, "inner": self.inner.state(), **own}


KINDS: dict[str, Callable[..., HashMapping]] = {cls.kind: cls for cls in (LinearMapping, KernelMapping)}


def mapping_from_state(state: State) -> HashMapping:
    """Return the mapping that `HashMapping.state` described."""
    kind = state.get("kind")
    if kind == NormalizedMapping.kind:
        inner = mapping_from_state(state["inner"])
        return NormalizedMapping(inner, state["mean"], float(state["gain"][0]), state["unit"])
    if kind not in KINDS:
        raise CorruptStore(f"A saved mapping has the unknown kind {kind!r}; known: {', '.join(KINDS)}.")
    return KINDS[kind](**state["arrays"])


def _inverse_lengths(X: Matrix) -> Matrix:
    """Return 1 / ||x|| for each row, 0 for a row of zeros."""
    lengths: Matrix = np.sqrt(np.einsum("ij,ij->i", X, X))
    short = lengths < _SHORT
    if short.any():  # their squares may be too small for float32
        lengths[short] = np.sqrt(np.square(X[short], dtype=np.float64).sum(axis=1))
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _frozen(name: str, values: ArrayLike, ndim: int) -> Matrix:
    array: NDArray[Any] = np.array(values, dtype=np.float32, order="C")
    if array.ndim != ndim or 0 in array.shape:
        raise InvalidInput(f"`{name}` must have {ndim} dimension(s) and not be empty; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidInput(f"`{name}` must hold finite numbers.")
    array.setflags(write=False)
    return array
