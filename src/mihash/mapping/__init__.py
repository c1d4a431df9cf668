"""The hash mapping Phi: feature vectors to binary codes, as frozen values (Sec. 3).

Learners produce mappings; only mappings encode. A mapping never changes, so the snapshot of Sec. 3.1 is a
reference to one. `load_mapping` reads one from a file. One kind, one file; all kinds are named in `KINDS`.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from .. import state as saved
from ..errors import CorruptStore, UnknownName
from ..state import State
from .forest import ForestMapping
from .hash_mapping import HashMapping
from .kernel import GaussianKernel, KernelMapping
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


def _module_mapping(**arrays: NDArray[Any]) -> HashMapping:
    """Return the saved `mihash.deep.ModuleMapping`. PyTorch is imported here, and only for this kind."""
    deep = importlib.import_module("mihash.deep")  # a higher layer: known here by its name only
    mapping: HashMapping = deep.ModuleMapping.from_arrays(**arrays)
    return mapping


KINDS: dict[str, Callable[..., HashMapping]] = {
    LinearMapping.kind: LinearMapping,
    KernelMapping.kind: KernelMapping,
    ForestMapping.kind: ForestMapping,
    NetworkMapping.kind: NetworkMapping.from_arrays,
    "module": _module_mapping,
}


def mapping_from_state(state: State) -> HashMapping:
    """Return the mapping that `HashMapping.state` described."""
    kind = state.get("kind")
    if kind == NormalizedMapping.kind:
        inner = mapping_from_state(state["inner"])
        return NormalizedMapping(inner, state["mean"], float(state["gain"][0]), state["unit"])
    if kind not in KINDS:
        raise CorruptStore(f"A saved mapping has the unknown kind {kind!r}; known: {', '.join(KINDS)}.")
    return KINDS[kind](**state["arrays"])


def load_mapping(path: str | os.PathLike[str]) -> HashMapping:
    """Return the hash mapping that `HashMapping.save` wrote to a file.

    A damaged file, or one that is not a saved mapping, raises `CorruptStore`; an unreadable one, `StoreError`.
    A mapping made of a torch module needs PyTorch, and its architecture must be registered.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "hyperplanes"
    ...     LinearMapping([[1.0, -1.0], [0.0, 2.0]]).save(path)
    ...     load_mapping(path).encode([1.0, 2.0])
    array([3], dtype=uint8)
    """
    state = saved.read(path)
    try:
        mapping = mapping_from_state(state["mapping"])
        same = mapping.fingerprint == state["fingerprint"]
    except UnknownName:  # a network that is not registered here
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, CorruptStore) as error:
        raise CorruptStore(f"{path} is not a saved hash mapping: {error!r}.") from error
    if not same:
        raise CorruptStore(f"{path} is not a saved hash mapping: its arrays do not have its fingerprint.")
    return mapping
