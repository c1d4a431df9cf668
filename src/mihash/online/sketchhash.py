"""Online Sketching Hashing: principal directions of a small sketch of all data so far (Sec. 4.2, App. D).

C. Leng, J. Wu, J. Cheng, X. Bai and H. Lu, "Online Sketching Hashing", CVPR 2015. The sketch is that of
E. Liberty, "Simple and Deterministic Matrix Sketching", KDD 2013.

The sketch B has a few rows, and B'B approximates the scatter matrix of the stream about its mean. Its squared
singular values come from an eigen-decomposition of BB' (or of B'B, where that is smaller) in place of an SVD.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import InvalidInput
from ..mapping import LinearMapping
from ..reservoir import Reservoir
from ..state import State
from .online_learner import OnlineLearner, hyperplanes

Matrix = NDArray[np.float64]

_ROUNDING = 1e-13
_ILL_CONDITIONED = 1e-8


class SketchHash(OnlineLearner):
    """Hash by the principal directions of a sketch of the stream, randomly rotated.

    Unsupervised: labels are ignored. A batch of m examples adds its rows, centred by the batch's mean, and, after
    the first one, the row sqrt(n m / (n + m)) (batch mean - mean before), n being the number of examples before.
    The sum of these rows' outer products is the scatter matrix of all examples about the running mean. Rows fill
    the sketch; when it is full, the (l/2 + 1)-th squared singular value is subtracted from all of them, which
    leaves at most l/2 rows. For every unit vector v, ||A v||^2 - ||B v||^2 is between 0 and 2 ||A||_F^2 / l, A
    being the centred examples. The hash functions are the top b right singular vectors of B times a rotation.

    References
    ----------
    C. Leng, J. Wu, J. Cheng, X. Bai and H. Lu, "Online Sketching Hashing", CVPR 2015.

    Parameters
    ----------
    n_bits
        The code length b. Where the sketch has only r < b directions, all are used, through a random matrix (r, b)
        with orthonormal rows in place of the rotation.
    sketch_size
        The number of rows l of the sketch, even. The paper uses 200 (CIFAR-10) and 100. For the first
        ``sketch_size`` examples, the loop updates the table after every batch (App. D).
    batch_size
        How many examples are learned from at a time; the paper uses 50.
    rotate
        ``"batch"`` draws another rotation for each batch, as the authors' release does, so that all codes change
        even where the directions do not; ``"once"`` keeps one; None leaves the directions as they are.
    seed
        Seeds the first hyperplanes and the rotations.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> X = 3 + rng.standard_normal((2000, 4)) @ rng.standard_normal((4, 64)) + rng.standard_normal((2000, 64))
    >>> system = mihash.OnlineHashing(SketchHash(n_bits=4, sketch_size=20), reservoir_size=200)
    >>> system.feed(X)
    >>> before = mihash.online.LSH(n_bits=4)
    >>> before.start(64)
    >>> for mapping in (before.mapping, system.current):  # the share of the variance that the hash functions see
    ...     print(round(float((X @ mapping.weights).var(axis=0).sum() / X.var(axis=0).sum()), 1))
    0.1
    0.8
    """

    name = "sketchhash"
    learned_names = ("sketch", "n_rows", "mean", "n_seen", "n_batches")

    def __init__(
        self,
        n_bits: int = 32,
        *,
        sketch_size: int = 200,
        batch_size: int = 50,
        rotate: str | None = "batch",
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.sketch_size = validation.integer("sketch_size", sketch_size, minimum=2)
        if self.sketch_size % 2:
            raise InvalidInput(
                f"`sketch_size` must be even, because half of it is freed at a time; got {sketch_size}."
            )
        self.batch_size = validation.integer("batch_size", batch_size, minimum=1)
        self.rotate = validation.choice("rotate", rotate, ("batch", "once", None))
        self.block_size = self.batch_size
        self.forced_until = self.sketch_size

    def begin(self, n_features: int) -> None:
        """Start with an empty sketch."""
        self._sketch: Matrix = np.zeros((self.sketch_size, n_features))
        self._n_rows = 0
        self._mean: Matrix = np.zeros(n_features)
        self._n_seen = 0
        self._n_batches = 0
        self._mapping: LinearMapping | None = None

    def current(self) -> LinearMapping:
        """Return the rotated principal directions of the sketch, about the running mean.

        They are a function of what `learned` returns, and are computed on demand. While all examples are equal,
        there is no direction, and the mapping is random hyperplanes.
        """
        if self._mapping is None:
            self._mapping = self._principal_mapping()
        return self._mapping

    def learn(
        self,
        X: NDArray[np.float32],
        y: NDArray[Any] | None,  # noqa: ARG002 -- unsupervised
        reservoir: Reservoir,  # noqa: ARG002 -- all rows are in the sketch
        slots: NDArray[np.int64],  # noqa: ARG002 -- as above
    ) -> None:
        """Take a batch into the sketch and the mean."""
        n, m = self._n_seen, len(X)
        mean = X.mean(axis=0, dtype=np.float64)
        self._insert(X - mean)
        moved = mean - self._mean
        if n:
            self._insert(np.sqrt(n * m / (n + m)) * moved[None])
        self._mean = self._mean + moved * (m / (n + m))
        self._n_seen = n + m
        self._n_batches += 1
        self._mapping = None

    def _insert(self, rows: Matrix) -> None:
        """Append rows, shrinking the sketch each time that it is full and another row waits."""
        while len(rows):
            if self._n_rows == self.sketch_size:
                self._shrink()
            start = self._n_rows
            self._n_rows = min(start + len(rows), self.sketch_size)
            self._sketch[start : self._n_rows] = rows[: self._n_rows - start]
            rows = rows[self._n_rows - start :]

    def _shrink(self) -> None:
        """Subtract the (l/2 + 1)-th squared singular value from all; at most l/2 rows are left."""
        half = self.sketch_size // 2
        squares, V = _principal(self._sketch, half)
        if len(squares) > half:
            squares = squares - squares[half]
        self._n_rows = int(np.count_nonzero(squares[: len(V)] > 0))
        np.multiply(np.sqrt(squares[: self._n_rows, None]), V[: self._n_rows], out=self._sketch[: self._n_rows])
        self._sketch[self._n_rows :] = 0

    def _principal_mapping(self) -> LinearMapping:
        if self._n_rows:
            _, V = _principal(self._sketch[: self._n_rows], self.n_bits)
            if len(V):
                largest = np.abs(V).argmax(axis=1)[:, None]  # a singular vector's sign is free
                signs = np.sign(np.take_along_axis(V, largest, axis=1))
                W = (V.T @ (signs * self._rotation(len(V)))).astype(np.float32)
                return LinearMapping(W, offset=-(self._mean @ W))
        return LinearMapping(hyperplanes(self._sketch.shape[1], self.n_bits, self.seed))

    def _rotation(self, n_directions: int) -> Matrix:
        """Return a random matrix (r, b) with orthonormal rows, a function of the seed and the batch's number."""
        if self.rotate is None and n_directions == self.n_bits:
            return np.eye(self.n_bits)
        draw = self._n_batches if self.rotate == "batch" else 0
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(4, draw)))
        Q, R = np.linalg.qr(generator.standard_normal((n_directions, self.n_bits)).T)
        rotation: Matrix = (Q * np.sign(np.diag(R))).T
        return rotation

    def learned(self) -> State:
        """Return the sketch, the mean and the counts; the sketch is changed in place later."""
        return {**super().learned(), "sketch": self._sketch.copy()}

    def relearn(self, learned: State) -> None:
        """Continue from what `learned` returned."""
        super().relearn({**learned, "sketch": learned["sketch"].copy()})
        self._mapping = None


def _principal(B: Matrix, n: int) -> tuple[Matrix, Matrix]:
    """Return all squared singular values of B, largest first, and up to n right singular vectors as rows.

    The Gram matrix squares the condition: a square below 1e-13 of the largest is rounding, and its vector is left
    out; vectors of squares below 1e-8 of it are inexact, and are made orthonormal in order.
    """
    n_rows, d = B.shape
    squares, vectors = np.linalg.eigh(B @ B.T if n_rows <= d else B.T @ B)
    squares, vectors = np.maximum(squares[::-1], 0), vectors[:, ::-1].T
    n = min(n, int(np.count_nonzero(squares > _ROUNDING * squares[0])))
    if n_rows > d:
        return squares, vectors[:n]
    V = vectors[:n] @ B
    V /= np.sqrt(squares[:n, None])
    if n and squares[n - 1] < _ILL_CONDITIONED * squares[0]:
        V = np.linalg.qr(V.T)[0].T
    return squares, V
