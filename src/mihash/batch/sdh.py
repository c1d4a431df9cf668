"""SDH: supervised discrete hashing, codes that a linear classifier can classify (Sec. 4.3.2, Table 1)."""

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..mapping import HashMapping
from ..neighbors import Labels
from .batch_method import ANCHORS, FIRST, BatchMethod, Matrix, Progress, indicators
from .features import Features, check_map

Floats = NDArray[np.float64]

_SWEEPS = 20


class SDH(BatchMethod):
    """Learn codes B of +-1 that a linear classifier maps to the classes Y, and hash functions F that predict B.

    Minimises, over B, the classifier W and F(x) = P' z(x) + c by turns,

        ||Y - B W||^2 + lambda ||W||^2 + nu (||B - F(X)||^2 + n rho ||P||^2).

    W and P come from ridge regressions; B is found one bit at a time, the others fixed, without relaxing it
    (discrete cyclic coordinate descent). ``history`` is the objective, divided by the number of examples, after
    each turn; it never rises. Works with class labels and multi-labels.

    Features should be centred and of unit length (`mihash.datasets.normalize`).

    Parameters
    ----------
    n_bits
        The code length b.
    lambda_
        How much the classifier is shrunk. 1 is the publication's.
    nu
        The weight of the hash functions' error while codes are learned. 1e-5 is the publication's.
    ridge
        rho in units of the mean eigenvalue of the features' covariance.
    iterations
        How many turns are taken at most; the publication finds 5 enough.
    tolerance
        Stop when a turn lowers the objective by no more than this share of it.
    kernel
        ``"rbf"``, the publication's Gaussian kernel map with anchors, or ``"linear"``.
    n_anchors
        How many anchors are drawn from the examples. 1,000 is the publication's.
    width
        The kernel's width, in units of the mean distance between examples and anchors.
    seed
        Seeds the first codes and the anchors.

    Notes
    -----
    ``ridge`` and ``width`` were chosen, from 1e-6 to 1 and from 0.5 to 1, on divisions of the CIFAR-10 retrieval
    set that no test query is part of (500 a class to learn from, 100 a class to query with, 12 to 48 bits).

    References
    ----------
    F. Shen, C. Shen, W. Liu, H. T. Shen, "Supervised discrete hashing", CVPR 2015.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = SDH(n_bits=16, n_anchors=50).fit(data.X[:1000], data.y[:1000])
    >>> codes, queries = mapping.encode(data.X[:1000]), mapping.encode(data.X[1000:])
    >>> round(mihash.mean_average_precision(queries, codes, (data.y[1000:], data.y[:1000]), n_bits=16), 1)
    0.9
    """

    name = "sdh"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        lambda_: float = 1.0,
        nu: float = 1e-5,
        ridge: float = 1e-4,
        iterations: int = 5,
        tolerance: float = 1e-6,
        kernel: str = "rbf",
        n_anchors: int = 1000,
        width: float = 0.7,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.lambda_ = validation.number("lambda_", lambda_, above=0)
        self.nu = validation.number("nu", nu, minimum=0)
        self.ridge = validation.number("ridge", ridge, above=0)
        self.iterations = validation.integer("iterations", iterations, minimum=1)
        self.tolerance = validation.number("tolerance", tolerance, minimum=0)
        self.kernel, self.n_anchors, self.width = check_map(kernel, n_anchors, width)

    def learn(self, X: Matrix, y: Labels | None, progress: Progress) -> HashMapping:
        """Take turns between the classifier, the hash functions and the codes."""
        assert y is not None
        features = Features(X, self.kernel, self.n_anchors, self.width, self.ridge, rng=self.generator(ANCHORS))
        Y = indicators(y).astype(np.float64)
        B = np.where(self.generator(FIRST).standard_normal((len(X), self.n_bits)) > 0, 1.0, -1.0)
        U, offset = _regress(features.Z, B)
        for done in range(1, self.iterations + 1):
            W = _classify(B, Y, self.lambda_)
            F = (features.Z @ U + offset).astype(np.float64)
            _descend(B, W, Y @ W.T + self.nu * F)
            U, offset = _regress(features.Z, B)
            self.history.append(self._objective(Y, B, W, features, U, offset))
            progress(done, self.iterations)
            if done > 1 and self.history[-2] - self.history[-1] <= self.tolerance * self.history[-2]:
                break
        return features.mapping(U, offset)

    def _objective(self, Y: Floats, B: Floats, W: Floats, features: Features, U: Matrix, offset: Floats) -> float:
        read = np.square(Y - B @ W).sum() + self.lambda_ * np.square(W).sum()
        # rho ||P||^2 = ||U||^2 - ||Z U||^2 / n, since C + rho I = L L'
        ZU = (features.Z @ U).astype(np.float64)
        shrunk = len(B) * np.square(U, dtype=np.float64).sum() - np.square(ZU).sum()
        return float(read + self.nu * (np.square(B - ZU - offset).sum() + shrunk)) / len(B)


def _regress(Z: Matrix, B: Floats) -> tuple[Matrix, Floats]:
    """Return the ridge regression of codes on whitened features, U = Z' B / n, and the offset (b,)."""
    U: Matrix = Z.T @ (B.astype(np.float32) / np.float32(len(B)))
    return U, B.mean(axis=0)


def _classify(B: Floats, Y: Floats, lambda_: float) -> Floats:
    """Return the ridge regression W (b, classes) of the classes on codes."""
    return np.asarray(np.linalg.solve(B.T @ B + lambda_ * np.eye(B.shape[1]), B.T @ Y), dtype=np.float64)


def _descend(B: Floats, W: Floats, Q: Floats) -> None:
    """Lower ||B W||^2 - 2 tr(B' Q) in place, one bit after the other, until none changes."""
    gram = W @ W.T
    for _ in range(_SWEEPS):
        changed = False
        for bit in range(B.shape[1]):
            pull = Q[:, bit] - B @ gram[:, bit] + B[:, bit] * gram[bit, bit]
            new = np.where(pull == 0, B[:, bit], np.sign(pull))
            changed |= bool((new != B[:, bit]).any())
            B[:, bit] = new
        if not changed:
            break
