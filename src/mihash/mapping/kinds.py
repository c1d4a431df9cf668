"""The kinds of hash mappings by name, for saved states."""

from collections.abc import Callable

from ..errors import CorruptStore
from ..state import State
from .forest import ForestMapping
from .hash_mapping import HashMapping
from .kernel import KernelMapping
from .linear import LinearMapping
from .module import module_mapping
from .network import NetworkMapping
from .normalized import NormalizedMapping

KINDS: dict[str, Callable[..., HashMapping]] = {
    cls.kind: cls for cls in (LinearMapping, KernelMapping, ForestMapping)
}
KINDS |= {NetworkMapping.kind: NetworkMapping.from_arrays, "module": module_mapping}


def mapping_from_state(state: State) -> HashMapping:
    """Return the mapping that `HashMapping.state` described."""
    kind = state.get("kind")
    if kind == NormalizedMapping.kind:
        inner = mapping_from_state(state["inner"])
        return NormalizedMapping(inner, state["mean"], float(state["gain"][0]), state["unit"])
    if kind not in KINDS:
        raise CorruptStore(f"A saved mapping has the unknown kind {kind!r}; known: {', '.join(KINDS)}.")
    return KINDS[kind](**state["arrays"])
