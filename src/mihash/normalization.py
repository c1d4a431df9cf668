"""Centring and scaling, learned from the first examples and kept as part of the hash mapping.

The paper's features are centred and of unit length (Sec. 4.1). On a stream the centre must be estimated; it is
taken from the first examples and stays, so that what is learned later is learned in one space. Both normalisations
keep the order of distances of their metric: for ``"euclidean"`` vectors are moved and scaled as a whole, for
``"cosine"`` they are brought to unit length first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .mapping import HashMapping, NormalizedMapping
from .state import State

__all__ = ["N_EXAMPLES", "Normalization", "fit_normalization"]

N_EXAMPLES = 256


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

    def state(self) -> State:
        """Return the values by name."""
        return {"mean": self.mean, "gain": self.gain, "unit": self.unit}


def fit_normalization(X: NDArray[np.float32], metric: str) -> Normalization:
    """Return the normalisation that centres examples (n, d) and gives them a mean square length of 1.

    Examples
    --------
    >>> found = fit_normalization(np.array([[1.0, 0.0], [3.0, 0.0]], dtype=np.float32), "euclidean")
    >>> found.mean.tolist(), found.gain
    ([2.0, 0.0], 1.0)
    """
    unit = metric == "cosine"
    wide = X.astype(np.float64)
    if unit:
        lengths = np.sqrt((wide**2).sum(axis=1, keepdims=True))
        wide = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    mean = wide.mean(axis=0)
    spread = float(np.sqrt(((wide - mean) ** 2).sum(axis=1).mean()))
    tiny = 1e-6 * max(1e-30, float(np.sqrt((mean**2).sum())))
    return Normalization(mean.astype(np.float32), float(np.float32(1 / spread)) if spread > tiny else 1.0, unit)
