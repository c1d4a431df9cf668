"""What a block of a stream says about a change, compared with the sample: the evidence of a drift watch.

With labels it is how much the codes say about the new examples and about those of the sample; without labels,
where the projections of both lie.
"""

from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .kernels import one_thread

Floats = NDArray[np.float64]

ANCHORS = 200  # examples of the sample whose own information is measured
_TINY = 1e-12
_CUT = 2.5  # scales from the median at which projections are cut off
_FEW = 500  # rows of the sample that tell quantiles and correlations
_MOST_FEATURES = 128  # of which correlations are computed
_STEADY = 0.5  # a score that varies by chance by no more than this is taken as it is
_NAMED = 3  # classes or bits that an alarm names
_FALL = 0.1  # of the largest fall: what a class must miss to be named


class Spread(NamedTuple):
    """Where projections p lie, bit by bit: means and variances of two features that outliers hardly move.

    The features are u = (p - centre) / scale, cut off at 2.5, and (u - mean of u)^2.

    Attributes
    ----------
    n
        Of how many examples.
    centres, scales
        The median (b,), and half the distance between the 16 % and the 84 % quantile (b,).
    means, variances
        Of the features (2 b,).
    by_chance
        The standard deviation that chance gives the mean of squared t values: more where bits are correlated.
    """

    n: int
    centres: Floats
    scales: Floats
    means: Floats
    variances: Floats
    by_chance: float

    @classmethod
    def of(cls, projections: NDArray[np.floating[Any]]) -> Self:
        """Return where projections (n, b) lie.

        Examples
        --------
        >>> P = np.random.default_rng(0).standard_normal((1000, 8))
        >>> P[0] = 1e6  # one outlier
        >>> spread = Spread.of(P)
        >>> float(np.abs(spread.centres).max()) < 0.2, spread.scales.round().tolist()
        (True, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        """
        few = np.sort(np.ascontiguousarray(projections[:_FEW].T), axis=1)  # rows of it lie together: sorts faster
        places = [min(few.shape[1] - 1, int(share * few.shape[1])) for share in (0.16, 0.5, 0.84)]
        low, centres, high = few[:, places].T.astype(np.float64)
        deviations = np.abs(few - centres[:, None]).mean(axis=1, dtype=np.float64)
        scales = np.where(high - low > 1e-9 * deviations, (high - low) / 2, 1.25 * deviations)  # a rare value
        scales = np.where(scales > 0, scales, 1.0)
        features = _features(projections, centres, scales, None)
        means = features.mean(axis=0, dtype=np.float64)
        features -= means.astype(np.float32)
        variances = np.square(features).mean(axis=0, dtype=np.float64)
        return cls(len(features), centres, scales, means, variances, 2 * _chance(features, variances))

    def features(self, projections: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Return the features of other projections."""
        return _features(projections, self.centres, self.scales, self.means)


def _features(
    projections: NDArray[np.floating[Any]], centres: Floats, scales: Floats, means: Floats | None
) -> NDArray[np.float32]:
    """Return u, cut off, and (u - mean of u)^2, whose means are taken from u if they are not given."""
    n, b = projections.shape
    found = np.empty((n, 2 * b), dtype=np.float32)
    u, squares = found[:, :b], found[:, b:]
    with np.errstate(over="ignore"):  # an infinite distance is cut off like a large one
        np.subtract(projections, centres.astype(projections.dtype), out=u, casting="same_kind")
        u /= np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)
    np.clip(u, -_CUT, _CUT, out=u)
    mean = u.mean(axis=0, dtype=np.float64) if means is None else means[:b]
    np.square(u - mean.astype(np.float32), out=squares)
    return found


def _chance(centred: NDArray[np.floating[Any]], variances: Floats) -> float:
    """Return the standard deviation of the mean over features (n, k) of a squared t, sqrt(2 tr(C^2)) / k.

    C is the correlation of the features, from at most 500 rows and about 128 features; the part of tr(C^2) that is
    due to so few rows is subtracted.
    """
    few = slice(None, None, max(1, centred.shape[1] // _MOST_FEATURES))
    rows = centred[:_FEW, few] / np.sqrt(variances[few] + _TINY)
    n, k = rows.shape
    with one_thread():
        correlation = rows.T @ rows / n
    return float(np.sqrt(2 * max(np.square(correlation).sum() - k * k / n, k)) / k)


class Evidence(NamedTuple):
    """What a block says about the stream, compared with the sample.

    Attributes
    ----------
    score
        How unlike the sample the block is, in standard errors: negative where it is worse, about 0 at rest.
    arrivals, sample
        The mean information of the block's examples with the sample, and of the sample's own, in bits; NaN
        without labels.
    moved
        The classes, or without labels the bits, that differ most; of classes, those that lose information.
    text
        The same in words.
    """

    score: float
    arrivals: float
    sample: float
    moved: tuple[int, ...]
    text: str


def anchor_rows(n_sample: int, seen: int) -> NDArray[np.int64]:
    """Return which examples of a sample are measured at an example count: at most 200, others each time."""
    return (np.arange(min(ANCHORS, n_sample), dtype=np.int64) + seen) % n_sample


def information_evidence(arriving: Floats, own: Floats, y: NDArray[Any], sample_y: NDArray[Any]) -> Evidence:
    """Compare the information (n,) of new examples, with labels ``y``, with that of the sample's own (m,).

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1])
    >>> found = information_evidence(np.array([0.1, 0.3, 0.6, 0.6]), np.array([0.5, 0.6, 0.7, 0.6]), y, y)
    >>> round(found.score, 2), found.moved, found.text
    (-1.79, (0,), 'the codes give 0.400 bits about new examples, and 0.600 about the sample')
    """
    arrivals, sample = float(arriving.mean()), float(own.mean())
    error = sqrt(float(arriving.var()) / len(arriving) + float(own.var()) / len(own) + _TINY)
    missing = sample - arriving  # of each new example
    if y.ndim == 1:
        classes, place = np.unique(y, return_inverse=True)
        falls = np.bincount(place, weights=missing)
        n_new = int((~np.isin(y, sample_y)).sum())
    else:
        classes, falls = np.arange(y.shape[1]), missing @ y
        n_new = int(((y != 0) & ~(sample_y != 0).any(axis=0)).any(axis=1).sum())
    order = np.argsort(-falls, kind="stable")[:_NAMED]
    moved = tuple(int(classes[i]) for i in order if falls[i] > max(0.0, _FALL * falls[order[0]]))
    text = f"the codes give {arrivals:.3f} bits about new examples, and {sample:.3f} about the sample"
    if n_new:
        text += f"; {n_new} of {len(y)} have a class that the sample lacks"
    return Evidence((arrivals - sample) / error, arrivals, sample, moved, text)


def projection_evidence(
    projections: NDArray[np.floating[Any]],
    sample: NDArray[np.floating[Any]] | Spread,
    binary: bool = False,
    each: int = 1,
) -> Evidence:
    """Compare projections (n, b) of new examples with those of the sample (m, b), bit by bit.

    The sample may be given by where its projections lie, and both may be those of every ``each``-th bit of a code.
    Of binary values, only the means are compared, with the variance that the rate in both gives: the variance
    follows from the mean. If few or correlated bits make the score vary more by chance than half a standard error,
    it is divided by how much more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> new, old = rng.standard_normal((100, 8)), rng.standard_normal((1000, 8))
    >>> new[:, 5] += 2
    >>> found = projection_evidence(new, old)
    >>> found.score < -20, found.moved[0]
    (True, 5)
    """
    if binary and not isinstance(sample, Spread):
        n, m = len(projections), len(sample)
        rates = (projections.sum(axis=0) + sample.sum(axis=0) + 1.0) / (n + m + 2)
        variances, means = rates * (1 - rates), sample.mean(axis=0)
        moved = (projections.mean(axis=0) - means) ** 2 / (variances * (1 / n + 1 / m))
        expected, by_chance = 1.0, _chance(sample.astype(np.float64) - means, variances)
    else:
        old = sample if isinstance(sample, Spread) else Spread.of(sample)
        n, m = len(projections), old.n
        t = (old.features(projections).mean(axis=0) - old.means) ** 2 / ((old.variances + _TINY) * (1 / n + 1 / m))
        moved = t[: len(old.centres)] + t[len(old.centres) :]
        expected, by_chance = 2.0, old.by_chance
    total = float(moved.mean())
    most = tuple(each * int(place) for place in np.argsort(-moved, kind="stable")[:_NAMED])
    text = f"projections have moved {total / expected:.1f} times as much as by chance, most in bit {most[0]}"
    score = (expected - total) / max(1.0, by_chance / _STEADY)
    return Evidence(score, float("nan"), float("nan"), most, text)
