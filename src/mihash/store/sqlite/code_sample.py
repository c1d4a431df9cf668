"""How much the codes of an edition tell, on a sample of its rows."""

from typing import Any

import numpy as np

from ...codes import bit_entropy
from ...search import as_codes
from ..edition import Edition

_COUNTED = 2048


def code_sample(edition: Edition) -> dict[str, Any]:
    """Return how many codes were looked at, how many are distinct, and the mean entropy of a bit."""
    n_bits = edition.mapping.n_bits
    rows = np.linspace(0, edition.n - 1, min(edition.n, _COUNTED)).astype(np.int64)
    codes = as_codes(edition.columns[rows], n_bits)
    return {
        "codes_sampled": len(codes),
        "codes_distinct": len(np.unique(codes, axis=0)),
        "bit_entropy": bit_entropy(codes, n_bits),
    }
