"""Batch hashing methods, one paper a file: ``fit(X, y)`` returns a hash mapping (Sec. 4.3.2).

`METHODS` maps the name that experiments use to the class, for what needs NumPy alone. VDSH, DPSH and DTSH live in
`mihash.deep`; they, and torch, are imported on first use.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from ..errors import UnknownName
from .batch_method import BatchMethod
from .batch_mihash import MIHash
from .fasthash import FastHash
from .itq import ITQ
from .sdh import SDH
from .shk import SHK

if TYPE_CHECKING:
    from ..deep.dpsh import DPSH
    from ..deep.dtsh import DTSH
    from ..deep.vdsh import VDSH

__all__ = [
    "DPSH",
    "DTSH",
    "ITQ",
    "METHODS",
    "SDH",
    "SHK",
    "VDSH",
    "BatchMethod",
    "FastHash",
    "MIHash",
    "lacking",
    "method_class",
    "method_names",
]

METHODS: dict[str, type[BatchMethod]] = {cls.name: cls for cls in (MIHash, SHK, SDH, FastHash, ITQ)}
_DEEP = {"vdsh": "VDSH", "dpsh": "DPSH", "dtsh": "DTSH"}


def __getattr__(name: str) -> Any:
    if name in _DEEP.values():
        return getattr(importlib.import_module("..deep", __name__), name)
    raise AttributeError(f"module 'mihash.batch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)


def method_names() -> tuple[str, ...]:
    """Return the names of all methods.

    Examples
    --------
    >>> method_names()
    ('mihash', 'shk', 'sdh', 'fasthash', 'itq', 'vdsh', 'dpsh', 'dtsh')
    """
    return (*METHODS, *_DEEP)


def method_class(name: str) -> type[BatchMethod]:
    """Return the method of that name.

    Examples
    --------
    >>> method_class("sdh")
    <class 'mihash.batch.sdh.SDH'>
    """
    if name in _DEEP:
        found: type[BatchMethod] = __getattr__(_DEEP[name])
        return found
    if name not in METHODS:
        raise UnknownName(f"There is no batch method {name!r}; known: {', '.join(sorted(method_names()))}.")
    return METHODS[name]


def lacking(name: str) -> str | None:
    """Return what must be installed before a method can be used, or None.

    Examples
    --------
    >>> print(lacking("sdh"))
    None
    """
    if name in _DEEP and importlib.util.find_spec("torch") is None:
        return "PyTorch (pip install 'mihash[deep]')"
    return None
