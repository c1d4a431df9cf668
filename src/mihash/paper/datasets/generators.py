"""Seeded data with the shapes of the paper's three data sets (Sec. 4.1), for where the real ones are not.

An example of class c is ``offset + (mean_c + noise) Q``. Class means lie in a low-dimensional subspace, the
noise is Gaussian with a power-law spectrum that is the same for all classes, the leading noise directions
contain the subspace of the means, and Q is a random rotation. So classes overlap, distances are dominated by
directions that say little about the class, and no coordinate is special: as in network features.

The decays and shares below were set so that measures come out as on real features (centred, unit length):
32 random hyperplanes give mAP 0.2 and a linear probe 80 % on ``cifar10_like``, a linear probe 33 % on
``places205_like``, and random hyperplanes 0.25 on ``labelme_like`` with the nearest 5 % as neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import InvalidInput
from .dataset import Dataset

CHUNK_ROWS = 4096

Chunk = tuple[NDArray[np.float32], NDArray[np.int64] | None]


@dataclass(frozen=True)
class Synthetic:
    """Labelled or unlabelled vectors that are made when asked for, chunk by chunk.

    A chunk depends on the seed and its number alone: chunks can be made in any order, on any machine, and a
    smaller ``n`` gives the beginning of a larger one.

    Parameters
    ----------
    name
        The name of the data set.
    n, n_features, n_classes
        How many examples, of how many dimensions, of how many (equally likely) classes.
    n_mean_dims
        The dimension of the subspace that holds the class means.
    mean_share
        The part of the total variance that lies between the classes, in expectation.
    mean_decay, noise_decay
        The i-th direction of the means (of the noise) has a variance proportional to ``i ** -decay``.
    labelled
        Whether the classes are handed out as labels.
    seed
        The seed of everything.

    Examples
    --------
    >>> source = cifar10_like(n=10_000, n_features=32)
    >>> source.n_chunks, sum(len(X) for X, y in source.chunks())
    (3, 10000)
    >>> X, y = source.chunk(2)
    >>> bool((X == source.rows(8192, 10_000)[0]).all()), len(X)
    (True, 1808)
    """

    name: str
    n: int
    n_features: int
    n_classes: int
    n_mean_dims: int = 16
    mean_share: float = 0.2
    mean_decay: float = 0.5
    noise_decay: float = 1.0
    labelled: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse sizes and shares that describe no data."""
        validation.integer("n", self.n, minimum=1)
        validation.integer("n_features", self.n_features, minimum=1)
        validation.integer("n_classes", self.n_classes, minimum=1)
        validation.integer("n_mean_dims", self.n_mean_dims, minimum=1)
        if validation.number("mean_share", self.mean_share, minimum=0) >= 1:
            raise InvalidInput(f"`mean_share` must leave noise: a number below 1; got {self.mean_share!r}.")
        validation.number("mean_decay", self.mean_decay, minimum=0)
        validation.number("noise_decay", self.noise_decay, minimum=0)
        validation.integer("seed", self.seed, minimum=0)

    def __len__(self) -> int:
        return self.n

    @property
    def n_chunks(self) -> int:
        """The number of chunks; every chunk but the last has 4,096 rows."""
        return -(-self.n // CHUNK_ROWS)

    def chunk(self, number: int) -> Chunk:
        """Return the features and labels of one chunk."""
        validation.integer("number", number, minimum=0, maximum=self.n_chunks - 1)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(1, number)))
        classes = rng.integers(self.n_classes, size=CHUNK_ROWS)
        X = rng.standard_normal((CHUNK_ROWS, self.n_features), dtype=np.float32)
        offset, means, scales, rotation = self._parts
        X *= scales
        X += means[classes]
        # The whole chunk is multiplied even where fewer rows are wanted: BLAS rounds other shapes otherwise.
        X = X @ rotation + offset
        n = min(CHUNK_ROWS, self.n - number * CHUNK_ROWS)
        return X[:n], classes[:n] if self.labelled else None

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks in order; only one is in memory at a time."""
        return (self.chunk(number) for number in range(self.n_chunks))

    def rows(self, start: int, stop: int) -> Chunk:
        """Return the features and labels of the rows from ``start`` up to, not including, ``stop``."""
        validation.integer("stop", stop, minimum=1, maximum=self.n)
        validation.integer("start", start, minimum=0, maximum=stop - 1)
        X = np.empty((stop - start, self.n_features), dtype=np.float32)
        y = np.empty(stop - start, dtype=np.int64)
        for number in range(start // CHUNK_ROWS, -(-stop // CHUNK_ROWS)):
            chunk, classes = self.chunk(number)
            first = number * CHUNK_ROWS
            inside = slice(max(start - first, 0), stop - first)
            there = slice(first + inside.start - start, first + min(len(chunk), inside.stop) - start)
            X[there] = chunk[inside]
            if classes is not None:
                y[there] = classes[inside]
        return X, y if self.labelled else None

    def dataset(self) -> Dataset:
        """Return all rows as a data set in memory."""
        return Dataset(self.name, *self.rows(0, self.n))

    @cached_property
    def _parts(self) -> tuple[NDArray[np.float32], ...]:
        """The offset, the class means, the scale of each noise direction, and the rotation."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0,)))
        d, k = self.n_features, min(self.n_mean_dims, self.n_features)
        rotation = _rotation(d, rng)
        offset = rng.exponential(np.sqrt(1 / d), size=d)
        means = np.zeros((self.n_classes, d))
        means[:, :k] = rng.standard_normal((self.n_classes, k)) * _scales(k, self.mean_decay, self.mean_share)
        means -= means.mean(axis=0)
        scales = _scales(d, self.noise_decay, 1 - self.mean_share)
        return tuple(part.astype(np.float32) for part in (offset, means, scales, rotation))


def cifar10_like(n: int = 60_000, n_features: int = 512, n_classes: int = 10, seed: int = 0) -> Synthetic:
    """Return a generator with the shape of CIFAR-10's features: 60,000 x 512, 10 classes.

    Examples
    --------
    >>> cifar10_like(n=1000).dataset()
    Dataset('cifar10-like', 1000 x 512, 10 classes)
    """
    return Synthetic(
        "cifar10-like", n, n_features, n_classes,
        n_mean_dims=14, mean_share=0.22, mean_decay=0.75, noise_decay=1.2, seed=seed,
    )  # fmt: skip


def places205_like(n: int = 2_500_000, n_features: int = 128, n_classes: int = 205, seed: int = 0) -> Synthetic:
    """Return a generator with the shape of Places205's features: 2.5 million x 128, 205 classes.

    Examples
    --------
    >>> source = places205_like()
    >>> len(source), source.n_chunks, source.chunk(600)[0].shape
    (2500000, 611, (4096, 128))
    """
    return Synthetic(
        "places205-like", n, n_features, n_classes,
        n_mean_dims=12, mean_share=0.25, mean_decay=0.5, noise_decay=0.8, seed=seed,
    )  # fmt: skip


def labelme_like(n: int = 22_019, n_features: int = 512, seed: int = 0) -> Synthetic:
    """Return a generator with the shape of LabelMe's GIST features: 22,019 x 512, without labels.

    Examples
    --------
    >>> labelme_like(n=1000).dataset()
    Dataset('labelme-like', 1000 x 512, no labels)
    """
    return Synthetic(
        "labelme-like", n, n_features, n_classes=100,
        n_mean_dims=16, mean_share=0.2, mean_decay=1.0, noise_decay=1.15, labelled=False, seed=seed,
    )  # fmt: skip


def _rotation(d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a random orthogonal matrix: cosines (DCT-II), shuffled and with random signs on both sides.

    Made without a factorisation, whose last bits and time depend on the machine's threads.
    """
    frequencies = rng.permutation(d)[:, None]
    cosines = np.cos(np.pi / d * frequencies * (np.arange(d) + 0.5))
    cosines *= np.where(frequencies == 0, np.sqrt(1 / d), np.sqrt(2 / d))
    rotation: NDArray[np.float64] = cosines * rng.choice([-1, 1], (d, 1)) * rng.choice([-1, 1], d)
    return rotation


def _scales(n: int, decay: float, share: float) -> NDArray[np.float64]:
    """Return standard deviations of n directions whose variances fall as a power law and sum to ``share``."""
    variances = np.arange(1, n + 1, dtype=np.float64) ** -decay
    scales: NDArray[np.float64] = np.sqrt(share * variances / variances.sum())
    return scales
