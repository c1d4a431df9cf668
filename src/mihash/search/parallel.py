"""Threads that share queries: kernels release the interpreter's lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

TILE = 16
"""How many queries take turns on a block of codes."""


def tiles(n: int, n_threads: int) -> list[slice]:
    """Return parts of the queries that are few enough to take turns on a block of codes."""
    size = min(TILE, -(-n // n_threads)) or 1
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def in_threads(work: Callable[[slice], object], parts: Sequence[slice], n_threads: int) -> None:
    """Do some work for each part, in several threads or in this one."""
    if n_threads == 1 or len(parts) == 1:
        for part in parts:
            work(part)
    else:
        shares = [parts[i::n_threads] for i in range(min(n_threads, len(parts)))]
        for _ in _pool().map(lambda share: [work(part) for part in share], shares):
            pass


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process: one for each core, more would only wait."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="mihash-search")


if hasattr(os, "register_at_fork"):  # a child inherits the pool without its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
