"""Images into vectors: GIST, networks whose weights are at hand, and principal components."""

from .extraction import Extracted, extract_features
from .gist import Gist

__all__ = ["Extracted", "Gist", "extract_features"]
