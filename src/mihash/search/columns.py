"""Codes laid out for a scan: one column of machine words for each part of a code.

Codes of up to 32 bits are one column of 32-bit words, longer ones ceil(b / 64) columns of 64-bit words. A column
lies in memory as one piece, so that a processor compares many codes at once. Which codes may be found is a bitmap:
bit j of its words stands for code j.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, popcount

Columns = NDArray[Any]
"""Codes (n, n_words) of uint32 or uint64, column by column in memory."""

Contiguous = tuple[NDArray[Any], ...]
"""The columns one by one, each contiguous, as kernels take them."""

Queries = NDArray[Any]
"""Codes (n, n_words) of the same words, row by row in memory."""

Bitmap = NDArray[np.uint64]

_FEW_WORDS = 64

EVERY: Bitmap = np.empty(0, dtype=np.uint64)
"""What kernels take for a bitmap where every code may be found."""


def empty_columns(n: int, n_bits: int) -> Columns:
    """Return room for n codes."""
    n_words, kind = (1, np.uint32) if n_bits <= 32 else (-(-n_bits // 64), np.uint64)
    return np.empty((n, n_words), dtype=kind, order="F")


def as_columns(codes: NDArray[np.uint8]) -> Columns:
    """Return packed codes (n, bytes) as columns of words, padded with zeros.

    Examples
    --------
    >>> as_columns(np.array([[1, 0, 0, 0, 2], [3, 0, 0, 0, 0]], dtype=np.uint8))
    array([[8589934593],
           [         3]], dtype=uint64)
    """
    n, n_bytes = codes.shape
    columns = empty_columns(n, 8 * n_bytes)
    width = columns.shape[1] * columns.itemsize
    if n_bytes % width:
        padded = np.zeros((n, width), dtype=np.uint8)
        padded[:, :n_bytes] = codes
        codes = padded
    columns[:] = np.ascontiguousarray(codes).view(columns.dtype)
    return columns


def as_codes(columns: Columns, n_bits: int) -> NDArray[np.uint8]:
    """Return columns of words as packed codes (n, ceil(b / 8))."""
    return np.ascontiguousarray(columns).view(np.uint8)[:, : -(-n_bits // 8)]


def as_bitmap(mask: NDArray[np.bool_]) -> Bitmap:
    """Return a mask over codes as words of 64 bits, bit 0 first, padded with zeros.

    Examples
    --------
    >>> as_bitmap(np.array([True, False, True]))
    array([5], dtype=uint64)
    """
    packed = np.packbits(mask, bitorder="little")
    words = np.zeros(-(-len(mask) // 64), dtype=np.uint64)
    words.view(np.uint8)[: len(packed)] = packed
    return words


def as_mask(bits: Bitmap, n: int) -> NDArray[np.bool_]:
    """Return the mask over n codes that a bitmap stands for.

    Examples
    --------
    >>> as_mask(as_bitmap(np.array([True, False, True])), 3)
    array([ True, False,  True])
    """
    return np.unpackbits(bits.view(np.uint8), count=n, bitorder="little").view(np.bool_)


def n_live(live: Bitmap, enough: int | None = None) -> int:
    """Return how many codes a bitmap lets through, counted up to ``enough``.

    Examples
    --------
    >>> bits = as_bitmap(np.arange(200) % 2 == 0)
    >>> n_live(bits), n_live(bits, enough=3)
    (100, 3)
    """
    if enough is not None and len(live):
        few = int(_n_ones(live[: _FEW_WORDS + enough // 8]))
        if few >= enough:
            return enough
    return int(_n_ones(live)) if enough is None else min(int(_n_ones(live)), enough)


@jit
def _n_ones(live: Bitmap) -> np.int64:
    total = np.uint64(0)
    for j in range(len(live)):
        total += popcount(live[j])
    return np.int64(total)


def contiguous(columns: Columns) -> Contiguous:
    """Return the columns one by one, each contiguous."""
    return tuple(np.ascontiguousarray(columns[:, number]) for number in range(columns.shape[1]))
