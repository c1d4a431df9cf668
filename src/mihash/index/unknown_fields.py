"""Warnings for filters that match nothing and name a field that no item has, which is often misspelt."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import UnknownField
from ..store.filters import Condition
from ..store.table import Table

_local = threading.local()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress `UnknownField` in this thread; the service returns these fields instead."""
    _local.silent = True
    try:
        yield
    finally:
        _local.silent = False


def warn_of_unknown_fields(table: Table, where: Condition) -> None:
    """Warn the caller of the caller if a filter that matched nothing names fields that no item has."""
    if getattr(_local, "silent", False) or not where.fields or not len(table):
        return
    names = table.unknown_fields(where)
    if names:
        text = f"No item has the field {', '.join(map(repr, names))}, which `where` asks for."
        warnings.warn(text, UnknownField, stacklevel=3)
