"""Centring and scaling, learned from the first examples and kept as part of the hash mapping.

The paper's features are centred and of unit length (Sec. 4.1). On a stream the centre must be estimated; it is
taken from the first examples and stays, so that what is learned later is learned in one space. Both normalisations
keep the order of distances of their metric: for ``"euclidean"`` vectors are moved and scaled as a whole, for
``"cosine"`` they are brought to unit length first.

Outliers do not count: examples far from the others are left out of the estimate, and a later outlier is shortened
before it is learned from. Its code is made of the vector as it is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mapping import HashMapping, NormalizedMapping, normalize
from ..mapping import ordered_sums as sums

N_EXAMPLES = 256
_FAR = 10.0  # times the usual distance from the centre: farther away, an example is an outlier


@dataclass(frozen=True)
class Normalization:
    """How features are normalised.

    Attributes
    ----------
    mean
        What is subtracted (d,).
    gain
        What the rest is multiplied by.
    unit
        Whether vectors are brought to unit length first.
    """

    mean: NDArray[np.float32]
    gain: float
    unit: bool

    def wrap(self, mapping: HashMapping) -> NormalizedMapping:
        """Return the mapping of normalised features as one of features."""
        return NormalizedMapping(mapping, self.mean, self.gain, self.unit)

    def apply(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return normalised examples to learn from (n, d), outliers shortened to 10 times the usual length."""
        Z = normalize(X, self.mean, self.gain, self.unit)
        sizes = sums.lengths(Z)
        far = sizes > _FAR
        Z[far] *= (_FAR / sizes[far]).astype(np.float32)[:, None]
        return Z


def fit_normalization(X: NDArray[np.float32], metric: str) -> Normalization:
    """Return the normalisation that centres examples (n, d) and gives them a mean square length of 1.

    Examples that are more than 10 times as far from the median as half of them are left out.

    Examples
    --------
    >>> X = np.array([[1, 0], [3, 0], [2, 1], [2, -1], [9e9, 0]], dtype=np.float32)
    >>> found = fit_normalization(X, "euclidean")
    >>> found.mean.tolist(), found.gain
    ([2.0, 0.0], 1.0)
    """
    unit = metric == "cosine"
    wide = (sums.to_unit_length(X) if unit else X).astype(np.float64)
    distances = np.sqrt(((wide - np.median(wide, axis=0)) ** 2).sum(axis=1))
    wide = wide[distances <= _FAR * np.median(distances)]  # at least half of them
    mean = wide.mean(axis=0)
    spread = float(np.sqrt(((wide - mean) ** 2).sum(axis=1).mean()))
    tiny = 1e-6 * max(1e-30, float(np.sqrt((mean**2).sum())))
    return Normalization(mean.astype(np.float32), float(np.float32(1 / spread)) if spread > tiny else 1.0, unit)


def wrapped(mapping: HashMapping, normalization: Normalization | None, metric: str | None) -> HashMapping:
    """Return a mapping of normalised features as one of features; without a metric, nothing is normalised."""
    if metric is None:
        return mapping
    if normalization is None:
        return NormalizedMapping(mapping, np.zeros(mapping.n_features), 1.0, metric == "cosine")
    return normalization.wrap(mapping)
