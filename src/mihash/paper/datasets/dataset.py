"""A data set in memory, and the features as the paper takes them: centred, then of unit length (Sec. 4.1).

Features are float32 throughout; sums over them are taken in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import validation
from ...errors import InvalidInput
from ...neighbors import Labels

_BLOCK_ROWS = 8192
_ROUNDING = 1e-9  # of the mean's length: a shorter centred row is the rounding of the mean, not data


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Feature vectors with, where they are known, their labels and their official test set.

    Parameters
    ----------
    name
        What results on this data are called.
    X
        Feature vectors (n, d), as they were stored: neither centred nor scaled.
    y
        One class each (n,), a 0/1 matrix (n, classes) for several labels each, or None.
    is_test
        True for the rows (n,) of the official test set, where there is one. The paper's protocol draws its
        own test set and does not look at it.

    Examples
    --------
    >>> Dataset("squares", [[0.0, 0.0], [1.0, 1.0], [2.0, 4.0]], y=[0, 1, 0])
    Dataset('squares', 3 x 2, 2 classes)
    """

    name: str
    X: NDArray[np.float32]
    y: Labels | None = None
    is_test: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        """Check the arrays against one another, and bring each to its one type."""
        X = validation.features("X", self.X)
        object.__setattr__(self, "X", X)
        if self.y is not None:
            object.__setattr__(self, "y", validation.labels("y", self.y, len(X)))
        if self.is_test is not None:
            is_test = validation.boolean_matrix("is_test", np.atleast_2d(self.is_test), (1, len(X)))[0]
            object.__setattr__(self, "is_test", is_test)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        """The length of a feature vector."""
        return int(self.X.shape[1])

    @property
    def n_classes(self) -> int | None:
        """The number of classes that occur (of columns, for a 0/1 matrix), or None without labels."""
        if self.y is None:
            return None
        return len(np.unique(self.y)) if self.y.ndim == 1 else int(self.y.shape[1])

    def __repr__(self) -> str:
        kind = "no labels" if self.y is None else f"{self.n_classes} classes"
        return f"Dataset({self.name!r}, {len(self)} x {self.n_features}, {kind})"


def normalize(X: ArrayLike, mean: ArrayLike | None = None) -> NDArray[np.float32]:
    """Return the rows of ``X`` minus the mean, each scaled to unit Euclidean length.

    The paper's features, as its release prepares them. A row that is zero after centring stays zero. The
    work is done in float64 on one block of rows at a time; only the result is as large as ``X``.

    Parameters
    ----------
    X
        Feature vectors (n, d).
    mean
        What to subtract (d,); None takes the mean of ``X``. Give the mean of the training data when test
        data must not be looked at, and zeros when only the length is to be changed.

    Examples
    --------
    >>> normalize([[0.0, 0.0], [6.0, 8.0]])
    array([[-0.6, -0.8],
           [ 0.6,  0.8]], dtype=float32)
    """
    rows = validation.features("X", X)
    return gather(rows, None, column_mean(rows) if mean is None else checked_mean(mean, rows.shape[1]))


def column_mean(X: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean row of ``X``, summed in float64."""
    mean: NDArray[np.float64] = X.mean(axis=0, dtype=np.float64)
    return mean


def checked_mean(mean: ArrayLike, n_features: int) -> NDArray[np.float64]:
    """Return ``mean`` as finite float64 (n_features,)."""
    checked = np.asarray(mean, dtype=np.float64)
    if checked.shape != (n_features,) or not np.isfinite(checked).all():
        raise InvalidInput(
            f"`mean` must be {n_features} finite numbers, one a feature; got shape {checked.shape}."
        )
    return checked


def gather(
    X: NDArray[np.float32], rows: NDArray[np.int64] | None, mean: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return the named rows of ``X`` (all for None), centred and of unit length, in one new array."""
    n = len(X) if rows is None else len(rows)
    out = np.empty((n, X.shape[1]), dtype=np.float32)
    nothing = _ROUNDING * float(np.linalg.norm(mean))
    for start in range(0, n, _BLOCK_ROWS):
        here = slice(start, start + _BLOCK_ROWS)
        block = X[here if rows is None else rows[here]] - mean
        lengths = np.linalg.norm(block, axis=1, keepdims=True)
        zero = lengths <= nothing
        block[zero[:, 0]] = 0
        out[here] = block / np.where(zero, 1, lengths)
    return out
