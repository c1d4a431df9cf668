"""MIHash, batch: gradient ascent on mutual information over minibatches (Sec. 3.2 and 4.3.2).

F. Cakir, K. He, S. A. Bargal and S. Sclaroff, "MIHash: Online Hashing with Mutual Information", ICCV 2017.

Every item of a minibatch is an anchor once, with neighbours and others from the same minibatch. A minibatch is
four matrix products and one loop over its pairs (`_slopes`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..kernels import jit_reordering
from ..mapping import HashMapping
from ..neighbors import Labels, label_neighborhood, within_fraction
from .batch_method import ANCHORS, FIRST, ORDER, BatchMethod, Matrix, Progress
from .features import Features, check_map

CHOSEN = {"linear": {"scale": 40.0, "whiten": 2.0}, "rbf": {"scale": 70.0, "whiten": 0.1}}
_SAMPLE = 2000
_GAIN = 1e-3
_TINY = np.float32(1e-12)


class MIHash(BatchMethod):
    """Learn hash functions by gradient ascent on mutual information, minibatch by minibatch.

    Raises the mean over the items of a minibatch of I(D; C): D are the distances of its relaxed code,
    2 sigma(A w.z) - 1, to those of the other items, and C is whether they are neighbours. The gradient flows
    through both codes of a pair. An item without neighbours, or without others, in its minibatch gives none.
    ``history`` is the mean I of each epoch, in bits.

    Works with class labels, multi-labels, or none (neighbours by Euclidean distance: the closest 5 % of pairs).

    Parameters
    ----------
    n_bits
        The code length b.
    batch_size
        How many items a minibatch has. The paper has 100 in Setting 1, and 250 in Setting 2.
    epochs
        How often to go through the data at most. 100 is the paper's.
    learning_rate
        The step size on I in nats.
    decay, decay_every
        The learning rate is multiplied by ``decay`` after every ``decay_every`` epochs. 0.5 and 10 are the
        paper's.
    momentum
        Of the ascent.
    scale
        A of the relaxed hash functions (App. A); the paper chooses from 10 to 50. ``"auto"`` is 40 on the features
        themselves and 70 on a kernel map.
    n_bins
        K of the distance histograms (Eq. 8); None is the paper's default, K = b.
    unit_length
        Keep each w at unit length, so that A alone says how sharp relaxed codes are. False is the paper's method:
        w grows, relaxed codes become hard, and a small training set is overfitted.
    whiten
        Whiten the features with this shrinkage, in units of the mean eigenvalue of their covariance, before they
        are brought to unit length. ``"auto"`` is 2 for the features themselves and 0.1 for a kernel map. None is
        the paper's method: centred and of unit length.
    patience
        Stop when ``patience`` times ``decay_every`` epochs raised the mean I by less than 0.001 bits; None runs
        all epochs.
    kernel
        ``"linear"``, the paper's, or ``"rbf"``, on a Gaussian kernel map with anchors.
    n_anchors
        How many anchors are drawn from the examples.
    width
        The kernel's width, in units of the mean distance between examples and anchors.
    seed
        Seeds the first hyperplanes, the order and the anchors.

    Notes
    -----
    Defaults that are not the paper's were chosen on three divisions of the CIFAR-10 retrieval set (500 a class to
    learn from, 100 a class to query with, 12 to 48 bits) that no test query is part of. On the first of them, 32
    bits on linear features had 0.71 mAP, at best 0.68 without ``unit_length`` and 0.69 without whitening.
    Minibatches of 100 lost 0.02 at 12 bits, 0.003 at 48. From 20 to 60, A matters little if K falls as A rises.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = MIHash(n_bits=16, epochs=20).fit(data.X[:1000], data.y[:1000])
    >>> codes, queries = mapping.encode(data.X[:1000]), mapping.encode(data.X[1000:])
    >>> round(mihash.mean_average_precision(queries, codes, (data.y[1000:], data.y[:1000]), n_bits=16), 1)
    0.9
    """

    name = "mihash"
    needs_labels = False

    def __init__(
        self,
        n_bits: int = 32,
        *,
        batch_size: int = 250,
        epochs: int = 100,
        learning_rate: float = 4.0,
        decay: float = 0.5,
        decay_every: int = 10,
        momentum: float = 0.9,
        scale: float | str = "auto",
        n_bins: int | None = 6,
        unit_length: bool = True,
        whiten: float | str | None = "auto",
        patience: int | None = 1,
        kernel: str = "linear",
        n_anchors: int = 1000,
        width: float = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.batch_size = validation.integer("batch_size", batch_size, minimum=3)
        self.epochs = validation.integer("epochs", epochs, minimum=1)
        self.learning_rate = validation.number("learning_rate", learning_rate, above=0)
        self.decay = validation.number("decay", decay, above=0, maximum=1)
        self.decay_every = validation.integer("decay_every", decay_every, minimum=1)
        self.momentum = validation.number("momentum", momentum, minimum=0, maximum=1)
        self.scale = scale if scale == "auto" else validation.number("scale", scale, above=0)
        self.n_bins = None if n_bins is None else validation.integer("n_bins", n_bins, minimum=1)
        self.unit_length = validation.boolean("unit_length", unit_length)
        self.whiten = whiten if whiten in (None, "auto") else validation.number("whiten", whiten, above=0)
        self.patience = None if patience is None else validation.integer("patience", patience, minimum=1)
        self.kernel, self.n_anchors, self.width = check_map(kernel, n_anchors, width)

    def learn(self, X: Matrix, y: Labels | None, progress: Progress) -> HashMapping:
        """Go through the data until I saturates."""
        scale, shrinkage = (self._chosen(name) for name in ("scale", "whiten"))
        features = Features(X, self.kernel, self.n_anchors, self.width, shrinkage, rng=self.generator(ANCHORS))
        Z = features.Z
        Z /= np.maximum(np.sqrt(np.einsum("ij,ij->i", Z, Z)), _TINY)[:, None]
        rng = self.generator(ORDER)
        rule = within_fraction(X[rng.permutation(len(X))[:_SAMPLE]]) if y is None else label_neighborhood(y)
        W = self.generator(FIRST).standard_normal((Z.shape[1], self.n_bits), dtype=np.float32)
        W /= np.linalg.norm(W, axis=0)
        step = np.zeros_like(W)
        n_batches = -(-len(Z) // self.batch_size)
        for epoch in range(self.epochs):
            rate = np.float32(self.learning_rate * self.decay ** (epoch // self.decay_every))
            total = 0.0
            for rows in np.array_split(rng.permutation(len(Z)), n_batches):
                part = Z[rows]
                given = (X[rows], None) if y is None else (part, y[rows])
                value, gradient = minibatch_gradient(part @ W, rule.between(*given, *given), scale, self.n_bins)
                total += value * len(rows)
                step *= np.float32(self.momentum)
                step += part.T @ gradient
                W += rate * step
                if self.unit_length:
                    W /= np.maximum(np.sqrt(np.einsum("ij,ij->j", W, W)), _TINY)
            self.history.append(total / len(Z) / math.log(2))
            progress(epoch + 1, self.epochs)
            if self._saturated():
                break
        return features.mapping(W)

    def _chosen(self, name: str) -> Any:
        value = getattr(self, name)
        return CHOSEN[self.kernel][name] if value == "auto" else value

    def _saturated(self) -> bool:
        """Return whether the last ``patience`` periods of ``decay_every`` epochs were no better than before."""
        if self.patience is None or len(self.history) % self.decay_every:
            return False
        means = np.reshape(self.history, (-1, self.decay_every)).mean(axis=1)
        before, last = means[: -self.patience], means[-self.patience :]
        return len(before) > 0 and bool(last.max() < before.max() + _GAIN)


def minibatch_gradient(
    projections: Matrix, near: NDArray[np.bool_], scale: float, n_bins: int | None = None
) -> tuple[float, Matrix]:
    """Return the mean over a minibatch of I, and its gradient by the projections W' z (n, b), in nats.

    ``near`` (n, n) says which pairs are neighbours; its diagonal is ignored. With s_ij = dI_i / dd_ij and V
    the relaxed codes, dI / dV = -(s + s') V / 2: a distance depends on two codes, and counts for two (Eq. 11-17).

    Examples
    --------
    >>> projections = np.array([[0.1, 0.1], [0.1, 0.0], [-0.1, -0.1]], dtype=np.float32)
    >>> near = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)
    >>> value, gradient = minibatch_gradient(projections, near, scale=10.0)
    >>> print(round(value, 3), gradient.round(1).ravel())
    0.062 [ 0.3  0.1  0.3  0.4 -0.2 -0.1]
    """
    n, n_bits = projections.shape
    half = np.float32(scale / 2)
    V = np.tanh(half * projections)
    slope = np.empty((n, n), dtype=np.float32)
    total = _slopes(V @ V.T, near.view(np.uint8), n_bits, n_bits if n_bins is None else n_bins, slope)
    gradient = (slope + slope.T) @ V
    gradient *= 1 - V * V
    gradient *= np.float32(-0.5 / n) * half
    return total / n, gradient


@jit_reordering
def _slopes(dots: Matrix, near: NDArray[np.uint8], n_bits: int, n_bins: int, slope: Matrix) -> float:
    """Write s_ij = dI_i / dd_ij (n, n) from inner products of relaxed codes (Eq. 8-15); return the sum of I_i."""
    n = len(dots)
    per_bin = np.float32(n_bins / n_bits)
    mass = np.empty((2, n_bins + 1), dtype=np.float32)
    ratio = np.empty((2, n_bins + 1), dtype=np.float32)
    lower = np.empty(n, dtype=np.int32)
    factor = per_bin / np.float32(n - 1)
    total = 0.0
    for i in range(n):
        n_pos = 0
        for j in range(n):
            n_pos += near[i, j]
        n_pos -= near[i, i]
        n_neg = n - 1 - n_pos
        if n_pos == 0 or n_neg == 0:
            slope[i] = 0
            continue
        mass[:] = 0
        for j in range(n):
            position = (np.float32(n_bits) - dots[i, j]) * np.float32(0.5) * per_bin
            low = min(max(np.int32(position), np.int32(0)), np.int32(n_bins - 1))
            lower[j] = low
            if j != i:
                share = position - np.float32(low)
                mass[near[i, j], low] += np.float32(1) - share
                mass[near[i, j], low + 1] += share
        for k in range(n_bins + 1):
            both = (mass[0, k] + mass[1, k]) / np.float32(n - 1)
            for side in range(2):
                p = mass[side, k] / np.float32(n_pos if side else n_neg)
                ratio[side, k] = np.log(p / both) if p > 0 else np.float32(0)
                total += mass[side, k] * ratio[side, k] / np.float32(n - 1)
        for j in range(n):
            side, low = near[i, j], lower[j]
            slope[i, j] = (ratio[side, low + 1] - ratio[side, low]) * factor
        slope[i, i] = 0
    return total
