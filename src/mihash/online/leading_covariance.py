"""A covariance of many features by its leading directions: C = U diag(v) U' + s I, in memory that is linear in d.

What lies outside of the leading directions counts as round noise: s is the mean of the other eigenvalues, so that
the trace is that of the stream. Systems with C are solved by the formula of Woodbury.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Matrix = NDArray[np.float32]

_WIDE, _RANK = 2048, 512  # with more than _WIDE features, keep _RANK leading directions
_ROUNDING = 1e-6  # of the largest eigenvalue: smaller eigenvalues count as zero


class LeadingCovariance(NamedTuple):
    """The leading directions of a covariance.

    Attributes
    ----------
    directions
        U (d, r), orthonormal, the largest variance first.
    excess
        v (r,): how much larger than ``rest`` the variance in each direction is.
    rest
        s: the variance in every other direction.
    """

    directions: Matrix
    excess: NDArray[np.float64]
    rest: float

    @classmethod
    def of(cls, root: Matrix, mean: NDArray[np.float64], total: float) -> Self:
        """Return the covariance root' root - mean mean', whose trace is ``total``.

        Parameters
        ----------
        root
            Rows (r, d) that are orthogonal to each other, as `leading_rows` returns them.
        mean
            The mean (d,), which is subtracted.
        total
            The trace of the whole covariance, also of what the root lacks.

        Examples
        --------
        >>> rows = np.array([[2, 0, 0], [0, 1, 0]], dtype=np.float32)
        >>> found = LeadingCovariance.of(rows, np.array([0.0, 1.0, 0.0]), 4.3)
        >>> found.excess.round(2).tolist(), round(found.rest, 2)
        ([3.85], 0.15)
        """
        d = root.shape[1]
        values = np.einsum("ij,ij->i", root, root, dtype=np.float64)
        basis = root.T / np.sqrt(values).astype(np.float32)
        inside = basis.T @ mean
        across = mean - basis @ inside
        length = float(np.sqrt(across @ across))
        if length > _ROUNDING * float(np.sqrt(mean @ mean)):  # the mean has a part outside of the rows
            basis = np.concatenate([basis, (across / length)[:, None].astype(np.float32)], axis=1)
            values, inside = np.append(values, 0.0), np.append(inside, length)
        variances, turn = np.linalg.eigh(np.diag(values) - np.outer(inside, inside))
        leading = variances[::-1]
        leading = leading[leading > _ROUNDING * max(leading[0], 0.0)]
        n = len(leading)
        rest = max(0.0, total - float(leading.sum())) / max(1, d - n)
        return cls(basis @ turn[:, ::-1][:, :n].astype(np.float32), np.maximum(leading - rest, 0.0), rest)

    @property
    def n_features(self) -> int:
        """The dimension d."""
        return len(self.directions)

    @property
    def trace(self) -> float:
        """The trace of C."""
        return float(self.excess.sum()) + self.rest * self.n_features

    def factor(self, ridge: float) -> tuple[Matrix, float]:
        """Return V (d, r) and f with (C + ridge I)^-1 = (I - V V') / f."""
        floor = self.rest + ridge
        return self.directions * np.sqrt(self.excess / (self.excess + floor)).astype(np.float32), floor


def kept_rank(asked: int | None, n_bits: int, n_features: int) -> int | None:
    """Return how many leading directions to keep, or None for all of the covariance.

    If it is not asked for a number, those are at least as many as the bits, of more than 2048 features.

    Examples
    --------
    >>> kept_rank(None, 64, 2048), kept_rank(None, 64, 4096), kept_rank(20, 64, 4096), kept_rank(512, 64, 512)
    (None, 512, 20, None)
    """
    if asked is None and n_features <= _WIDE:
        return None
    rank = max(_RANK, n_bits) if asked is None else asked
    return None if rank >= n_features else rank


def leading_rows(rows: Matrix, rank: int) -> Matrix:
    """Return at most ``rank`` orthogonal rows whose sum of squares x x' is nearest to that of more rows.

    Examples
    --------
    >>> np.abs(leading_rows(np.array([[3, 0], [0, 1], [4, 0]], dtype=np.float32), 1)).round(3).tolist()
    [[5.0, 0.0]]
    """
    n = len(rows)
    squares = rows @ rows.T
    values, vectors = eigh(squares, subset_by_index=[max(0, n - rank), n - 1], check_finite=False)
    told = values > _ROUNDING * max(float(values[-1]), 1e-30)
    found: Matrix = vectors[:, told].T @ rows
    return found
