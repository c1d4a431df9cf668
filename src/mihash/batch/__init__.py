"""Batch hashing methods, one paper a file: ``fit(X, y)`` returns a hash mapping (Sec. 4.3.2).

`METHODS` maps the name that experiments use to the class.
"""

from typing import Any

from ..errors import UnknownName
from .base import BatchMethod
from .fasthash import FastHash
from .itq import ITQ
from .mihash import MIHash
from .sdh import SDH
from .shk import SHK

__all__ = ["ITQ", "METHODS", "SDH", "SHK", "BatchMethod", "FastHash", "MIHash", "method_class"]

METHODS: dict[str, type[Any]] = {cls.name: cls for cls in (MIHash, SHK, SDH, FastHash, ITQ)}


def method_class(name: str) -> type[Any]:
    """Return the method of that name.

    Examples
    --------
    >>> method_class("sdh")
    <class 'mihash.batch.sdh.SDH'>
    """
    if name not in METHODS:
        raise UnknownName(f"There is no batch method {name!r}; known: {', '.join(sorted(METHODS))}.")
    return METHODS[name]
