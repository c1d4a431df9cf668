"""Packed binary codes and their Hamming distance (Sec. 3, Eq. 1).

A code of b bits is ceil(b / 8) bytes, bit 0 first (NumPy's ``packbits(..., bitorder="little")``); spare bits
at the end are zero. Inside the package codes are rows of 64-bit words (`as_words`): a processor counts the ones of
a word with one instruction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .errors import InvalidInput
from .kernels import jit, popcount


def pack(bits: ArrayLike) -> NDArray[np.uint8]:
    """Pack bits (n, b), given as booleans, 0/1 or -1/+1, into codes (n, ceil(b / 8)).

    Examples
    --------
    >>> import mihash
    >>> mihash.pack([[1, 0, 0, 0, 0, 0, 0, 0, 1], [-1, 1, -1, -1, -1, -1, -1, -1, -1]])
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `bits` must be booleans, all 0/1 or all -1/+1; got values -1, 0, 1.
    >>> mihash.pack([[1, 0, 0, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0, 0, 0]])
    array([[1, 1],
           [2, 0]], dtype=uint8)
    """
    raw = validation.array("bits", bits)
    if raw.ndim != 2 or raw.shape[1] == 0:
        raise InvalidInput(f"`bits` must have shape (n, b) with b at least 1; got {raw.shape}.")
    if raw.dtype.kind != "b":
        if raw.dtype.kind not in "iuf":
            raise InvalidInput(f"`bits` must be booleans, all 0/1 or all -1/+1; got an array of {raw.dtype}.")
        ones = raw == 1
        others = raw[~ones]
        if others.size and not ((others == 0).all() or (others == -1).all()):
            values = ", ".join(f"{value:g}" for value in np.unique(raw)[:5])
            raise InvalidInput(f"`bits` must be booleans, all 0/1 or all -1/+1; got values {values}.")
        raw = ones
    return np.packbits(raw, axis=1, bitorder="little")


def unpack(codes: ArrayLike, n_bits: int) -> NDArray[np.bool_]:
    """Return the bits (n, n_bits) of packed codes as booleans.

    Examples
    --------
    >>> import mihash
    >>> mihash.unpack(mihash.pack([[1, -1, 1]]), n_bits=3)
    array([[ True, False,  True]])
    """
    checked = validation.packed("codes", codes, n_bits)
    return np.unpackbits(checked, axis=1, count=n_bits, bitorder="little").astype(np.bool_)


def hamming(A: ArrayLike, B: ArrayLike) -> NDArray[np.int32]:
    """Return the Hamming distances (n, m) between packed codes (n, bytes) and (m, bytes).

    Equals Eq. 1, d = (b - Phi(x) . Phi(x')) / 2, on codes written as -1/+1.

    Examples
    --------
    >>> import mihash
    >>> mihash.hamming(mihash.pack([[1, 1, 1]]), mihash.pack([[1, 1, 1], [0, 1, 0]]))
    array([[0, 2]], dtype=int32)
    """
    left, right = validation.packed("A", A), validation.packed("B", B)
    if left.shape[1] != right.shape[1]:
        raise InvalidInput(f"Codes must have the same length; got {left.shape[1]} and {right.shape[1]} bytes.")
    distances: NDArray[np.int32] = _hamming(as_words(left), as_words(right))
    return distances


def as_words(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return packed codes as rows of 64-bit words, padded with zero bytes."""
    n, n_bytes = codes.shape
    n_words = -(-n_bytes // 8)
    if n_bytes % 8:
        padded = np.zeros((n, 8 * n_words), dtype=np.uint8)
        padded[:, :n_bytes] = codes
        codes = padded
    return np.ascontiguousarray(codes).view(np.uint64).reshape(n, n_words)


@jit
def _hamming(A: NDArray[np.uint64], B: NDArray[np.uint64]) -> NDArray[np.int32]:
    n, m, n_words = A.shape[0], B.shape[0], A.shape[1]
    distances = np.zeros((n, m), dtype=np.int32)
    for i in range(n):
        for w in range(n_words):
            word = A[i, w]
            for j in range(m):
                distances[i, j] += np.int32(popcount(word ^ B[j, w]))
    return distances


def bit_entropy(codes: NDArray[np.uint8], n_bits: int) -> float:
    """Return the mean entropy of the bits of packed codes: 1 where each halves the items, 0 where all are alike.

    Examples
    --------
    >>> bit_entropy(pack([[0, 1], [1, 1]]), n_bits=2)
    0.5
    """
    share = np.unpackbits(codes, axis=1, count=n_bits, bitorder="little").mean(axis=0)
    sides = np.stack([share, 1 - share])
    surprise = -np.log2(sides, where=sides > 0, out=np.zeros_like(sides))
    return float((sides * surprise).sum(axis=0).mean())
