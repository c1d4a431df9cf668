"""mihash: binary codes that learn from a stream, and know when to rehash.

The names below are the public ones. Each is imported when it is first asked for, so ``import mihash`` itself
loads NumPy and nothing heavier.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import batch as batch
    from . import deep as deep
    from . import errors as errors
    from . import information as information
    from . import mapping as mapping
    from . import neighbors as neighbors
    from . import online as online
    from . import ranking as ranking
    from .codes import hamming as hamming
    from .codes import pack as pack
    from .codes import unpack as unpack
    from .index.online_index import OnlineIndex as OnlineIndex
    from .information import mutual_information as mutual_information
    from .information import quality as quality
    from .io import export as export
    from .loop.online_hashing import OnlineHashing as OnlineHashing
    from .paper import datasets as datasets
    from .ranking import average_precision as average_precision
    from .ranking import mean_average_precision as mean_average_precision
    from .reservoir import Reservoir as Reservoir
    from .store.memory import MemoryTable as MemoryTable
    from .trigger import Decision as Decision
    from .trigger import FixedRate as FixedRate
    from .trigger import TriggerUpdate as TriggerUpdate

__version__ = "0.1.0"

__all__ = [
    "Decision",
    "FixedRate",
    "MemoryTable",
    "OnlineHashing",
    "OnlineIndex",
    "Reservoir",
    "TriggerUpdate",
    "__version__",
    "average_precision",
    "batch",
    "datasets",
    "deep",
    "errors",
    "export",
    "hamming",
    "information",
    "mapping",
    "mean_average_precision",
    "mutual_information",
    "neighbors",
    "online",
    "pack",
    "quality",
    "ranking",
    "unpack",
]

_HOMES = {
    ".codes": ("hamming", "pack", "unpack"),
    ".index.online_index": ("OnlineIndex",),
    ".information": ("mutual_information", "quality"),
    ".loop.online_hashing": ("OnlineHashing",),
    ".ranking": ("average_precision", "mean_average_precision"),
    ".reservoir": ("Reservoir",),
    ".store.memory": ("MemoryTable",),
    ".trigger": ("Decision", "FixedRate", "TriggerUpdate"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOM_OF = {"datasets": ".paper.datasets", "export": ".io.export"}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name], __name__), name)
    if name in __all__:
        return importlib.import_module(_ROOM_OF.get(name, f".{name}"), __name__)
    raise AttributeError(f"module 'mihash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
