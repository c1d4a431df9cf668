"""ITQ: iterative quantisation, a rotation that brings principal components close to binary codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..mapping import HashMapping
from ..neighbors import Labels
from .batch_method import FIRST, BatchMethod, Matrix, Progress
from .features import Features, leading_eigenvectors

Floats = NDArray[np.float64]


class ITQ(BatchMethod):
    """Rotate the leading principal components V (n, b) so that rounding them to codes loses little.

    Minimises the quantisation error ||B - V R||^2 over codes B of +-1 and rotations R by turns: B = sgn(V R), then
    R from the singular vectors of B' V. Labels are ignored. ``history`` is the error for each example and bit
    after each turn; it never rises.

    Parameters
    ----------
    n_bits
        The code length b; at most the number of features, and below the number of examples.
    iterations
        How many turns are taken at most.
    tolerance
        Stop when a turn lowers the error by no more than this share of it.
    seed
        Seeds the first rotation.

    References
    ----------
    Y. Gong, S. Lazebnik, A. Gordo, F. Perronnin, "Iterative quantization: a Procrustean approach to learning
    binary codes for large-scale image retrieval", TPAMI 2013.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = ITQ(n_bits=16).fit(data.X[:1000])
    >>> codes, queries = mapping.encode(data.X[:1000]), mapping.encode(data.X[1000:])
    >>> mihash.mean_average_precision(queries, codes, (data.y[1000:], data.y[:1000]), n_bits=16) > 0.5
    True
    """

    name = "itq"
    needs_labels = False

    def __init__(self, n_bits: int = 32, *, iterations: int = 50, tolerance: float = 1e-6, seed: int = 0) -> None:
        super().__init__(n_bits, seed)
        self.iterations = validation.integer("iterations", iterations, minimum=1)
        self.tolerance = validation.number("tolerance", tolerance, minimum=0)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, progress: Progress | None = None) -> HashMapping:  # noqa: ARG002 -- one signature for all
        """Learn from vectors (n, d); labels are ignored. Return the mapping."""
        return super().fit(X, None, progress)

    def refusal(self, X: Matrix, y: Labels | None) -> str | None:
        """Return why it cannot learn from these examples, for example with fewer components than bits."""
        n, d = X.shape
        if n >= 2 and self.n_bits > min(d, n - 1):
            return (
                f"ITQ makes as many bits as there are principal components at most, {min(d, n - 1)} for "
                f"{n} examples of {d} features; got `n_bits` = {self.n_bits}."
            )
        return super().refusal(X, y)

    def learn(self, X: Matrix, y: Labels | None, progress: Progress) -> HashMapping:  # noqa: ARG002 -- there are none
        """Find the principal components, then rotate them."""
        n = len(X)
        features = Features(X, "linear", rng=self.generator(FIRST))
        Z = features.Z.astype(np.float64)
        directions = leading_eigenvectors(Z.T @ Z / n, self.n_bits)
        V = Z @ directions
        V /= max(float(np.sqrt(np.square(V).mean())), 1e-12)  # codes have a mean square of 1
        R = np.linalg.qr(self.generator(FIRST).standard_normal((self.n_bits, self.n_bits)))[0]
        for done in range(1, self.iterations + 1):
            B, error = _quantize(V @ R)
            self.history.append(error)
            progress(done, self.iterations)
            if done > 1 and self.history[-2] - error <= self.tolerance * error:
                break
            R = closest_rotation(V, B)
        return features.mapping((directions @ R).astype(np.float32))


def _quantize(rotated: Floats) -> tuple[Floats, float]:
    """Return the nearest codes B, and the mean squared error."""
    B = np.where(rotated > 0, 1.0, -1.0)
    return B, float(np.square(B - rotated).mean())


def closest_rotation(V: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    """Return the rotation R for which V R is closest to B (the orthogonal Procrustes problem).

    Examples
    --------
    >>> closest_rotation(np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]])).round(6).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    left, _, right = np.linalg.svd(V.T @ B)
    return np.asarray(left @ right)
