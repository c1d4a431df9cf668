"""The base class of hash mappings: frozen values that encode (Sec. 3)."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import state as saved
from .. import validation
from ..errors import InvalidInput
from ..kernels import one_thread
from ..state import State
from .ordered_sums import Matrix

_CHUNK_BYTES, _FEWEST_ROWS = 1 << 21, 256  # of the vectors that are multiplied at a time


class HashMapping(ABC):
    """A frozen hash mapping: it turns vectors into codes and never changes.

    A subclass is a value made of read-only arrays, which `arrays` names.
    """

    kind: ClassVar[str]

    def __init__(self, n_features: int, n_bits: int) -> None:
        self._n_features, self._n_bits = int(n_features), int(n_bits)

    @property
    def n_bits(self) -> int:
        """The code length b."""
        return self._n_bits

    @property
    def n_features(self) -> int:
        """The dimension d of the vectors that it takes."""
        return self._n_features

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all parameters by name."""

    @abstractmethod
    def project(self, X: Matrix) -> Matrix:
        """Return the real values (n, b) whose signs are the bits, up to rounding: BLAS decides the last bits."""

    @property
    def has_margins(self) -> bool:
        """Whether the boundary of each bit is a hyperplane, so that vectors have a distance to it."""
        return False

    @property
    def has_factors(self) -> bool:
        """Whether items have the two bytes of `mihash.mapping.factors`: margins of normalised features."""
        return False

    @property
    def for_products(self) -> HashMapping:
        """What queries are encoded with where items are compared by inner products; this mapping by default.

        An inner product orders items alike wherever they are centred, and a query is not centred with them.
        """
        return self

    def margins(self, X: Matrix) -> Matrix:  # noqa: ARG002 -- for those that have them
        """Return how far float32 vectors are from the hyperplane of each bit (n, b), after normalisation.

        The numbers are the same on every machine. Only a mapping that `has_margins` has them.
        """
        raise InvalidInput(f"A mapping of kind {self.kind!r} has no hyperplanes, so it has no margins.")

    def without_blas(self, n: int) -> bool:  # noqa: ARG002 -- for those that can
        """Tell whether `signs` of n rows does not call BLAS, whose threads would have to be limited."""
        return False

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the packed codes of float32 vectors; ``projections`` are the result of `project`, if known."""
        values = self.project(X) if projections is None else projections
        return np.packbits(values > 0, axis=1, bitorder="little")

    def checked_signs(self, X: Matrix, first_row: int) -> NDArray[np.uint8]:
        """Return `signs`; raise for a number that is not finite, and count rows from ``first_row``."""
        validation.finite("X", X, first_row, any_length=True)
        return self.signs(X)

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the packed codes (n, ceil(b / 8)) of feature vectors (n, d); a value of 0 gives bit 0.

        A single vector (d,) gives a single code (ceil(b / 8),).
        """
        rows = validation.array("X", X)
        single = rows.ndim == 1
        vectors = validation.features(
            "X", rows[None] if single else rows, self.n_features, allow_empty=True, check=False
        )
        codes = self.encode_rows(vectors, check=True)
        return codes[0] if single else codes

    def encode_rows(self, X: Matrix, check: bool = False) -> NDArray[np.uint8]:
        """Return the codes of float32 vectors of the right width, in chunks that fit into the cache."""
        codes = np.empty((len(X), -(-self.n_bits // 8)), dtype=np.uint8)
        if self.without_blas(len(X)) and not check:
            return self.signs(X)
        rows = max(_FEWEST_ROWS, _CHUNK_BYTES // (4 * self.n_features))
        # One thread is faster for products of this size; the codes do not depend on it.
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), rows):
                part = slice(start, start + rows)
                codes[part] = self.checked_signs(X[part], start) if check else self.signs(X[part])
        return codes

    @cached_property
    def fingerprint(self) -> str:
        """Thirty-two hexadecimal digits, equal for two mappings only if they are the same mapping."""
        digest = hashlib.blake2b(self.kind.encode(), digest_size=16)
        for name, array in self.arrays().items():
            digest.update(f"{name}{array.shape}".encode())
            digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        return digest.hexdigest()

    def distance(self, other: HashMapping) -> float:
        """Return ||Phi - Phi'||, the norm of the difference of the parameters; infinite for another form."""
        mine, others = self.arrays(), other.arrays()
        if self.kind != other.kind or mine.keys() != others.keys():
            return float("inf")
        if any(mine[name].shape != others[name].shape for name in mine):
            return float("inf")
        differences = [(mine[name] - others[name]).ravel() for name in mine]
        with np.errstate(over="ignore"):
            square = sum(float(np.dot(part, part)) for part in differences)
        if not np.isfinite(square):  # weights of tiny features are large: float32 does not hold their squares
            return float(np.linalg.norm([np.linalg.norm(part.astype(np.float64)) for part in differences]))
        return float(np.sqrt(square))

    def state(self) -> State:
        """Return the mapping as plain values, for `mapping_from_state`."""
        return {"kind": self.kind, "arrays": dict(self.arrays())}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mapping to a file, for `mihash.load_mapping` to read: plain arrays and a checksum, no pickle.

        A crash leaves the old file or the new one, never a part.

        Examples
        --------
        >>> import mihash, pathlib, tempfile
        >>> mapping = mihash.mapping.LinearMapping([[1.0, -1.0], [0.0, 2.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "hyperplanes"
        ...     mapping.save(path)
        ...     mihash.load_mapping(path) == mapping
        True
        """
        saved.write(path, {"mapping": self.state(), "fingerprint": self.fingerprint})

    def __copy__(self) -> Self:
        """Return the mapping itself: it never changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the mapping itself: it never changes."""
        return self

    def __eq__(self, other: object) -> bool:
        """Return whether two mappings have the same fingerprint."""
        return isinstance(other, HashMapping) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        """Hash by value."""
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        """Show the kind, the shape and the start of the fingerprint."""
        return f"{type(self).__name__}({self.n_features} -> {self.n_bits} bits, {self.fingerprint[:8]})"


def frozen(name: str, values: ArrayLike, ndim: int) -> Matrix:
    """Return a read-only float32 copy of an array; raise if it is empty or has a number that is not finite."""
    array: NDArray[Any] = np.array(values, dtype=np.float32, order="C")
    if array.ndim != ndim or 0 in array.shape:
        raise InvalidInput(f"`{name}` must have {ndim} dimension(s) and not be empty; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidInput(f"`{name}` must hold finite numbers.")
    array.setflags(write=False)
    return array
