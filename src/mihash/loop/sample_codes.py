"""The codes of the reservoir under one mapping; only replaced examples are encoded again."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..mapping import HashMapping
from ..reservoir import Reservoir

_NOTHING = np.empty(0, dtype=np.int64)


@dataclass
class SampleCodes:
    """The codes of a reservoir under a mapping, and which examples of the stream they are of.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(3)
    >>> reservoir.add([[1.0], [-1.0]])
    >>> found = SampleCodes.under(mihash.mapping.LinearMapping([[1.0]]))
    >>> found.follow(reservoir), found.codes.ravel()
    (array([0, 1]), array([1, 0], dtype=uint8))
    >>> found.follow(reservoir)
    array([], dtype=int64)
    """

    mapping: HashMapping
    codes: NDArray[np.uint8]
    coded: NDArray[np.int64] = field(default_factory=lambda: _NOTHING)
    seen: int = -1

    @classmethod
    def under(cls, mapping: HashMapping) -> "SampleCodes":
        """Return the codes of an empty sample."""
        return cls(mapping, np.empty((0, -(-mapping.n_bits // 8)), dtype=np.uint8))

    def follow(self, reservoir: Reservoir) -> NDArray[np.int64]:
        """Update the codes to the examples of the reservoir; return the slots that were encoded.

        Earlier codes are not changed in place.
        """
        if self.seen == reservoir.seen:
            return _NOTHING
        origin = reservoir.origin.copy()
        n = len(origin)
        if len(self.codes) != n:
            self.codes, self.coded = np.zeros((n, self.codes.shape[1]), dtype=np.uint8), origin
            stale = np.arange(n)
        else:
            stale = np.flatnonzero(self.coded != origin)
        if len(stale) == n:
            self.codes = self.mapping.signs(reservoir.X, reservoir.projected(self.mapping))
        elif len(stale):
            self.codes = self.codes.copy()
            self.codes[stale] = self.mapping.encode_rows(reservoir.X[stale])
        self.coded, self.seen = origin, reservoir.seen
        return stale
