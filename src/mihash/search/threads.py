"""Queries shared out to threads: kernels release the interpreter's lock."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

__all__ = ["TILE", "in_threads", "tiles"]

TILE = 16
"""How many queries take turns on a block of codes."""


def tiles(n: int, n_threads: int) -> list[slice]:
    """Return parts of the queries that are few enough to take turns on a block of codes."""
    size = min(TILE, -(-n // n_threads)) or 1
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def in_threads(work: Callable[[slice], object], parts: Iterable[slice], n_threads: int) -> None:
    """Do some work for each part, in several threads or in this one."""
    if n_threads == 1:
        for part in parts:
            work(part)
    else:
        for _ in _pool(n_threads).map(work, parts):
            pass


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="mihash-search")
