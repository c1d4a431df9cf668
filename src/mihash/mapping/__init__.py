"""The hash mapping Phi: feature vectors to binary codes, as frozen values (Sec. 3).

Learners produce mappings; only mappings encode. A mapping never changes, so the snapshot of Sec. 3.1 is a
reference to one. `load_mapping` reads one from a file. One kind, one file.
"""

from .forest import ForestMapping
from .hash_mapping import HashMapping
from .kernel import GaussianKernel, KernelMapping
from .kinds import load_mapping, mapping_from_state
from .linear import LinearMapping
from .network import NetworkMapping
from .normalized import NormalizedMapping, normalize

__all__ = [
    "ForestMapping",
    "GaussianKernel",
    "HashMapping",
    "KernelMapping",
    "LinearMapping",
    "NetworkMapping",
    "NormalizedMapping",
    "load_mapping",
    "mapping_from_state",
    "normalize",
]
