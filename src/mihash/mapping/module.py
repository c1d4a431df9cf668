"""The door to mappings made of torch modules: torch is imported when such a mapping is loaded, not before."""

import importlib
from typing import Any

from numpy.typing import NDArray

from .hash_mapping import HashMapping


def module_mapping(**arrays: NDArray[Any]) -> HashMapping:
    """Return the `mihash.deep.ModuleMapping` that was saved as these arrays."""
    deep = importlib.import_module("mihash.deep")  # mappings stand below it, and know it by name only
    mapping: HashMapping = deep.ModuleMapping.from_arrays(**arrays)
    return mapping
