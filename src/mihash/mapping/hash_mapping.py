"""What every hash mapping is: a frozen value that encodes (Sec. 3)."""

import hashlib
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..kernels import one_thread
from ..state import State
from .sums import Matrix

_CHUNK_BYTES = 1 << 22


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
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the parameters by name; all that the mapping is made of."""

    @abstractmethod
    def project(self, X: Matrix) -> Matrix:
        """Return the real values (n, b) whose signs are the bits, up to rounding: last bits are BLAS's."""

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the packed codes of float32 vectors, all at once; ``projections`` are theirs, where at hand."""
        values = self.project(X) if projections is None else projections
        return np.packbits(values > 0, axis=1, bitorder="little")

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the packed codes (n, ceil(b / 8)) of feature vectors (n, d); a value of 0 gives bit 0."""
        vectors = validation.features("X", X, self.n_features, allow_empty=True, check=False)
        return self.encode_rows(vectors, check=True)

    def encode_rows(self, X: Matrix, check: bool = False) -> NDArray[np.uint8]:
        """Return the codes of float32 vectors of the right width, a chunk at a time while it is in the cache."""
        codes = np.empty((len(X), -(-self.n_bits // 8)), dtype=np.uint8)
        rows = max(64, _CHUNK_BYTES // (4 * self.n_features))
        # One thread is faster for products of this size; the codes do not depend on it.
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), rows):
                part = slice(start, start + rows)
                if check:
                    validation.finite("X", X[part], start, any_length=True)
                codes[part] = self.signs(X[part])
        return codes

    @cached_property
    def fingerprint(self) -> str:
        """Thirty-two hexadecimal digits that two mappings share only if they are the same."""
        digest = hashlib.blake2b(self.kind.encode(), digest_size=16)
        for name, array in self.arrays().items():
            digest.update(f"{name}{array.shape}".encode())
            digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
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


def frozen(name: str, values: ArrayLike, ndim: int) -> Matrix:
    """Return numbers as a read-only float32 copy; an empty array or a number that is not finite is refused."""
    array: NDArray[Any] = np.array(values, dtype=np.float32, order="C")
    if array.ndim != ndim or 0 in array.shape:
        raise InvalidInput(f"`{name}` must have {ndim} dimension(s) and not be empty; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidInput(f"`{name}` must hold finite numbers.")
    array.setflags(write=False)
    return array
