"""mihash: binary codes that learn from a stream, and know when to rehash.

The names below are the public ones. Each is imported when it is first used, so ``import mihash`` itself
loads only the standard library.
"""

import importlib
import os
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
    from .comparison import Quantizer as Quantizer
    from .drift import Alarm as Alarm
    from .drift import DriftWatch as DriftWatch
    from .index.online_index import OnlineIndex as OnlineIndex
    from .information import mutual_information as mutual_information
    from .information import quality as quality
    from .io import export as export
    from .loop.online_hashing import OnlineHashing as OnlineHashing
    from .mapping import load_mapping as load_mapping
    from .paper import datasets as datasets
    from .ranking import average_precision as average_precision
    from .ranking import mean_average_precision as mean_average_precision
    from .reservoir import Reservoir as Reservoir
    from .store.backends import Cluster as Cluster
    from .store.memory import MemoryTable as MemoryTable
    from .trigger import Decision as Decision
    from .trigger import FixedRate as FixedRate
    from .trigger import PriceUpdate as PriceUpdate
    from .trigger import TriggerUpdate as TriggerUpdate

__version__ = "0.2.0"

__all__ = [
    "Alarm",
    "Cluster",
    "Decision",
    "DriftWatch",
    "FixedRate",
    "MemoryTable",
    "OnlineHashing",
    "OnlineIndex",
    "PriceUpdate",
    "Quantizer",
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
    "load_mapping",
    "mapping",
    "mean_average_precision",
    "mutual_information",
    "neighbors",
    "online",
    "open",
    "pack",
    "quality",
    "ranking",
    "unpack",
]

_HOMES = {
    ".codes": ("hamming", "pack", "unpack"),
    ".comparison": ("Quantizer",),
    ".drift": ("Alarm", "DriftWatch"),
    ".index.online_index": ("OnlineIndex",),
    ".information": ("mutual_information", "quality"),
    ".loop.online_hashing": ("OnlineHashing",),
    ".mapping": ("load_mapping",),
    ".ranking": ("average_precision", "mean_average_precision"),
    ".reservoir": ("Reservoir",),
    ".store.backends": ("Cluster",),
    ".store.memory": ("MemoryTable",),
    ".trigger": ("Decision", "FixedRate", "PriceUpdate", "TriggerUpdate"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOM_OF = {"datasets": ".paper.datasets", "export": ".io.export"}


def open(path: "str | os.PathLike[str]", read_only: bool = False, **options: Any) -> "OnlineIndex":
    """Open an index, or create one where there is nothing yet.

    ``options`` are those of `OnlineIndex.create`. An existing index keeps the options that it was created with; an
    option that is given and differs is an error.

    Examples
    --------
    >>> import tempfile, mihash
    >>> folder = tempfile.TemporaryDirectory()
    >>> with mihash.open(folder.name, n_bits=32) as index:
    ...     keys = index.add([0.5, 1.0, -2.0], keys="a", metadata={"year": 2024})
    >>> with mihash.open(folder.name) as index:
    ...     index.get("a").metadata
    {'year': 2024}
    >>> folder.cleanup()
    """
    from .index.online_index import OnlineIndex

    return OnlineIndex.open_or_create(path, read_only, **options)


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name], __name__), name)
    if name in __all__:
        return importlib.import_module(_ROOM_OF.get(name, f".{name}"), __name__)
    raise AttributeError(f"module 'mihash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
