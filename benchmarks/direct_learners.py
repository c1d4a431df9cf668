"""Direct ports of the compared methods' update rules: NumPy, one example or one pair at a time.

What one writes with each paper beside the editor. A port goes on from where a learner stands, with its parameters
and in its precision: single, and double for the sketch. What it keeps between two examples is what the paper
keeps: the hash functions, HMOH's sum of them, the sketch.
"""

import math

import numpy as np
from numpy.typing import NDArray

from mihash.online import HCOH, HMOH, OKH, OSH, AdaptHash, OnlineLearner, SketchHash
from mihash.online.codewords import Codebook

Array = NDArray[np.float32]
Doubles = NDArray[np.float64]
Labels = NDArray[np.int64]


class Port:
    """Hash functions W (d, b) that learn from labelled examples as a learner does."""

    def __init__(self, learner: OnlineLearner) -> None:
        self.W: Array = learner.learned()["W"].copy()

    def learn(self, X: Array, y: Labels) -> None:
        """Take the steps of some examples, in order."""
        raise NotImplementedError

    @property
    def weights(self) -> Array:
        """What the learner's mapping has as its weights."""
        return self.W


def _by_class(codebook: Codebook, learner: OnlineLearner) -> Array:
    """Return the codewords of a learner's labels, row by class."""
    codebook.restore(learner.learned()["codebook"])
    codewords = np.zeros((codebook.labels.max() + 1, learner.n_bits), dtype=np.float32)
    codewords[codebook.labels] = codebook.codewords
    return codewords


class DirectBoosting(Port):
    """OSH with the exponential loss: bit after bit. Functions are columns in one piece, as in MATLAB."""

    def __init__(self, learner: OSH) -> None:
        super().__init__(learner)
        self.W = np.asfortranarray(self.W)
        self.eta = learner.eta
        self.codewords = _by_class(Codebook(learner.n_bits, learner.seed), learner)

    def learn(self, X: Array, y: Labels) -> None:
        """Take a round of boosting for each example."""
        for x, label in zip(X, y, strict=True):
            before = 0.0
            for j, c in enumerate(self.codewords[label].tolist()):
                w = self.W[:, j]
                weight = math.exp(min(-before - c * float(w @ x), 10.0))
                w += self.eta * weight * c * x
                before += c * float(w @ x)


class DirectHinge(Port):
    """OSH with the hinge loss."""

    def __init__(self, learner: OSH) -> None:
        super().__init__(learner)
        self.eta = learner.eta
        self.codewords = _by_class(Codebook(learner.n_bits, learner.seed), learner)

    def learn(self, X: Array, y: Labels) -> None:
        """Take a step on the bits with a loss, for each example."""
        for x, label in zip(X, y, strict=True):
            c = self.codewords[label]
            self.W += np.outer(x, self.eta * c * (c * (x @ self.W) < 1))


class DirectHCOH(Port):
    """HCOH."""

    def __init__(self, learner: HCOH) -> None:
        super().__init__(learner)
        self.eta = learner.eta
        self.codewords = _by_class(Codebook(learner.n_bits, learner.seed, learner.n_bits), learner)

    def learn(self, X: Array, y: Labels) -> None:
        """Take a gradient step for each example."""
        for x, label in zip(X, y, strict=True):
            f = np.tanh(x @ self.W)
            self.W += np.outer(x, self.eta * (self.codewords[label] - f) * (1 - f * f))


class DirectHMOH(Port):
    """HMOH: the sum of all W so far is kept for their average."""

    def __init__(self, learner: HMOH) -> None:
        super().__init__(learner)
        self.lr = learner.lr
        self.total = learner.learned()["sum"].astype(np.float32)
        self.n_summed = learner.learned()["n_summed"]
        self.codewords = _by_class(Codebook(learner.n_bits, learner.seed, learner.n_bits), learner)

    def learn(self, X: Array, y: Labels) -> None:
        """Take a perceptron step on the wrong bits, for each example."""
        for x, label in zip(X, y, strict=True):
            c = self.codewords[label]
            self.W += np.outer(x, self.lr * c * (c * (x @ self.W) <= 0))
            self.total += self.W
            self.n_summed += 1

    @property
    def weights(self) -> Array:
        """The average of all W."""
        return self.total / self.n_summed


def _loss(f_i: Array, f_j: Array, similar: bool, alpha: float) -> tuple[float, Labels]:
    """Return the Hamming loss of a pair's codes, and the bits that are wrong."""
    n_bits = len(f_i)
    differing = (f_i > 0) != (f_j > 0)
    distance = np.count_nonzero(differing)
    if similar:
        return max(0.0, distance - (1 - alpha) * n_bits), np.flatnonzero(differing)
    return max(0.0, alpha * n_bits - distance), np.flatnonzero(~differing)


class DirectAdaptHash(Port):
    """AdaptHash."""

    def __init__(self, learner: AdaptHash) -> None:
        super().__init__(learner)
        self.alpha, self.lambda_, self.eta = learner.alpha, learner.lambda_, learner.eta
        self.identity = np.eye(learner.n_bits, dtype=np.float32)

    def learn(self, X: Array, y: Labels) -> None:
        """Take a gradient step for each pair with a loss."""
        for t in range(0, len(X), 2):
            self._step(X[t], X[t + 1], bool(y[t] == y[t + 1]))

    def _step(self, x_i: Array, x_j: Array, similar: bool) -> None:
        W, n_bits = self.W, len(self.identity)
        v_i, v_j = x_i @ W, x_j @ W
        loss, wrong = _loss(v_i, v_j, similar, self.alpha)
        if loss == 0:
            return
        surest = np.argsort(-np.maximum(np.abs(v_i), np.abs(v_j))[wrong], kind="stable")
        picked = np.zeros(n_bits, dtype=np.float32)
        picked[wrong[surest[: math.ceil(loss)]]] = 1
        f_i, f_j = np.tanh(v_i / 2), np.tanh(v_j / 2)
        slope = picked * (f_i @ f_j - (n_bits if similar else -n_bits))
        gradient = np.outer(x_i, slope * f_j * (1 - f_i * f_i)) + np.outer(x_j, slope * f_i * (1 - f_j * f_j))
        W = W - self.eta * gradient - self.lambda_ * (W @ (W.T @ W - self.identity))
        self.W = W / np.linalg.norm(W, axis=0)


class DirectOKH(Port):
    """OKH on a Gaussian kernel map with a constant."""

    def __init__(self, learner: OKH) -> None:
        super().__init__(learner)
        self.C, self.alpha = learner.C, learner.alpha
        anchors = learner.learned()["anchors"]
        self.anchors, self.factor = anchors["points"], -0.5 / anchors["width"] ** 2
        self.squares = (self.anchors**2).sum(axis=1)

    def learn(self, X: Array, y: Labels) -> None:
        """Take a passive-aggressive step for each pair with a loss."""
        for t in range(0, len(X), 2):
            self._step(self._features(X[t]), self._features(X[t + 1]), bool(y[t] == y[t + 1]))

    def _features(self, x: Array) -> Array:
        squares = x @ x - 2 * (self.anchors @ x) + self.squares
        return np.append(np.exp(self.factor * squares), np.float32(1))

    def _step(self, k_i: Array, k_j: Array, similar: bool) -> None:
        f_i, f_j = k_i @ self.W, k_j @ self.W
        loss, wrong = _loss(f_i, f_j, similar, self.alpha)
        if loss == 0:
            return
        size_i, size_j = np.abs(f_i), np.abs(f_j)
        flipped = wrong[np.argsort(np.minimum(size_i, size_j)[wrong], kind="stable")[: math.ceil(loss)]]
        first = size_i[flipped] <= size_j[flipped]
        towards_i, towards_j = np.zeros_like(f_i), np.zeros_like(f_j)  # g - h, for codes h and g of +-1
        towards_i[flipped[first]] = np.where(f_i[flipped[first]] > 0, -2, 2)
        towards_j[flipped[~first]] = np.where(f_j[flipped[~first]] > 0, -2, 2)
        G = np.outer(k_i, towards_i) + np.outer(k_j, towards_j)
        excess = math.sqrt(loss) - towards_i @ f_i - towards_j @ f_j
        self.W += min(self.C, float(excess / (G * G).sum())) * G

    @property
    def weights(self) -> Array:
        """The functions without their constant."""
        return self.W[:-1]


class DirectSketchHash(Port):
    """SketchHash: a row at a time, an SVD when the sketch is full, and QR and SVD for the mapping."""

    def __init__(self, learner: SketchHash) -> None:
        self.n_bits, state = learner.n_bits, learner.learned()
        self.B: Doubles = state["sketch"].copy()
        self.mean: Doubles = state["mean"].copy()
        self.used, self.n_seen = state["n_rows"], state["n_seen"]
        self.rng = np.random.default_rng(0)
        self._map()

    def learn(self, X: Array, y: Labels) -> None:  # noqa: ARG002 -- unsupervised
        """Take a batch into the sketch and make the mapping."""
        n, m = self.n_seen, len(X)
        mean = X.mean(axis=0, dtype=np.float64)
        for x in X:
            self._insert(x - mean)
        self._insert(np.sqrt(n * m / (n + m)) * (mean - self.mean))
        self.mean = (n * self.mean + m * mean) / (n + m)
        self.n_seen = n + m
        self._map()

    def _insert(self, row: Doubles) -> None:
        if self.used == len(self.B):
            _, s, Vt = np.linalg.svd(self.B, full_matrices=False)
            self.used = len(s) // 2
            s = np.sqrt(np.maximum(s**2 - s[self.used] ** 2, 0))
            self.B = s[:, None] * Vt
        self.B[self.used] = row
        self.used += 1

    def _map(self) -> None:
        Q, R = np.linalg.qr(self.B[: self.used].T)
        U, _, _ = np.linalg.svd(R)
        rotation, _ = np.linalg.qr(self.rng.standard_normal((self.n_bits, self.n_bits)))
        self.W = (Q @ (U[:, : self.n_bits] @ rotation)).astype(np.float32)
