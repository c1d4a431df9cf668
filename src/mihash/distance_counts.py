"""How many codes are at each Hamming distance from a query, and how many of these are relevant to it.

`mihash.information` and `mihash.ranking` are functions of these counts. A key is a distance, plus the number of
distances where the code is relevant; nothing is sorted, and labels never become a matrix of all pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .codes import as_words
from .errors import InvalidInput
from .kernels import jit, popcount
from .label_names import LabelNames

Counts = NDArray[np.int64]
Words = NDArray[np.uint64]
Relevant = ArrayLike | tuple[ArrayLike, ArrayLike]

BLOCK = 2048  # codes at a time: block and keys stay in cache while all queries pass over them
MOST_BITS = 2**15 - 1  # a key, below 2 (b + 1), is 16 bits wide
_GIVEN, _SAME_LABEL, _SHARED_LABEL = 0, 1, 2  # how relevance is known


class Pairs(NamedTuple):
    """Queries, codes and their relevance as the kernels take them; a row of `codes` is one word of all items."""

    queries: Words  # (n_queries, words)
    codes: Words  # (words, n)
    query_labels: Words  # (n_queries, label words)
    labels: Words  # (label words, n)
    matrix: NDArray[np.uint8]  # (n_queries, n), or empty if labels decide
    rule: int


def checked_pairs(query_codes: ArrayLike, codes: ArrayLike, relevant: Relevant, n_bits: int) -> Pairs:
    """Check the arguments and return them in the form that is counted; raise `InvalidInput` if they are wrong."""
    validation.integer("n_bits", n_bits, minimum=1, maximum=MOST_BITS)
    queries = validation.packed("query_codes", query_codes, n_bits)
    base = validation.packed("codes", codes, n_bits)
    shape = (len(queries), len(base))
    if isinstance(relevant, tuple):
        return make_pairs(queries, base, _label_pair(relevant, *shape))
    return make_pairs(queries, base, validation.boolean_matrix("relevant", relevant, shape))


def _label_pair(pair: tuple[ArrayLike, ...], n_queries: int, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(pair) != 2:
        raise InvalidInput(
            f"`relevant` as a tuple must be (query_labels, labels); got {len(pair)} parts. "
            "Give a matrix as an array."
        )
    if any(np.asarray(part).dtype == np.bool_ and np.ndim(part) == 1 for part in pair):
        raise InvalidInput("`relevant` as a tuple must hold labels; got booleans. Give a matrix as an array.")
    names = LabelNames()  # of both sides, so that strings get the same numbers
    query_labels = validation.labels("query_labels", names.codes(pair[0], "query_labels"), n_queries)
    names.keep()
    labels = validation.labels("labels", names.codes(pair[1], "labels", "`query_labels`"), n)
    if query_labels.shape[1:] != labels.shape[1:]:
        raise InvalidInput(
            "`query_labels` and `labels` must be of one kind, integers or 0/1 matrices of the same classes; "
            f"got shapes {query_labels.shape} and {labels.shape}."
        )
    return query_labels, labels


def make_pairs(
    query_codes: NDArray[np.uint8],
    codes: NDArray[np.uint8],
    relevant: NDArray[np.bool_] | tuple[NDArray[Any], NDArray[Any]],
) -> Pairs:
    """Return checked packed codes, with a relevance matrix or two sets of labels, in the form that is counted."""
    queries, words = as_words(query_codes), np.ascontiguousarray(as_words(codes).T)
    if isinstance(relevant, tuple):
        rule = _SAME_LABEL if relevant[0].ndim == 1 else _SHARED_LABEL
        query_labels, labels = (_label_words(part) for part in relevant)
        nothing = np.zeros((0, 0), dtype=np.uint8)
        return Pairs(queries, words, query_labels, np.ascontiguousarray(labels.T), nothing, rule)
    none = np.zeros((0, 0), dtype=np.uint64)
    return Pairs(queries, words, none, none, relevant.view(np.uint8), _GIVEN)


def count(pairs: Pairs, n_bits: int) -> Counts:
    """Return (n_queries, 2 (b + 1)): how many other codes are at each distance, then how many relevant ones.

    Examples
    --------
    >>> codes, y = np.array([[0], [1], [3]], dtype=np.uint8), np.array([0, 0, 1])
    >>> count(make_pairs(codes[:1], codes, (y[:1], y)), n_bits=2)
    array([[0, 0, 1, 1, 1, 0]])
    """
    counts: Counts = _count(n_bits + 1, pairs)
    return counts


def _label_words(labels: NDArray[Any]) -> Words:
    """Return labels as rows of words: the class itself, or a bit for each of several labels."""
    if labels.ndim == 1:
        return labels.view(np.uint64)[:, None]
    return as_words(np.packbits(labels, axis=1, bitorder="little"))


@jit
def fill_keys(keys: NDArray[np.uint16], i: int, start: int, n_levels: int, pairs: Pairs) -> None:
    """Write the distance of query i to each code of a block, plus ``n_levels`` where the code is relevant."""
    size = len(keys)
    unmarked, marked = np.uint16(0), np.uint16(n_levels)
    word, words = pairs.queries[i, 0], pairs.codes[0, start : start + size]
    first = 1  # the first word is counted in the loop that marks: one pass for codes of up to 64 bits
    if pairs.rule == _GIVEN:
        row = pairs.matrix[i, start : start + size]
        for j in range(size):
            keys[j] = np.uint16(popcount(word ^ words[j])) + (marked if row[j] != 0 else unmarked)
    elif pairs.rule == _SAME_LABEL:
        label, column = pairs.query_labels[i, 0], pairs.labels[0, start : start + size]
        for j in range(size):
            keys[j] = np.uint16(popcount(word ^ words[j])) + (marked if column[j] == label else unmarked)
    else:
        first = 0
        keys[:] = unmarked
        for w in range(pairs.labels.shape[0]):
            label, column = pairs.query_labels[i, w], pairs.labels[w, start : start + size]
            for j in range(size):
                keys[j] = marked if (column[j] & label) != 0 else keys[j]
    for w in range(first, pairs.codes.shape[0]):
        word, words = pairs.queries[i, w], pairs.codes[w, start : start + size]
        for j in range(size):
            keys[j] += np.uint16(popcount(word ^ words[j]))


@jit
def _count(n_levels: int, pairs: Pairs) -> Counts:
    """Count the items for each query and key: (n_queries, 2 n_levels), the relevant ones second."""
    n_queries, n = pairs.queries.shape[0], pairs.codes.shape[1]
    counts = np.zeros((n_queries, 2 * n_levels), dtype=np.int64)
    buffer = np.empty(BLOCK, dtype=np.uint16)
    # Neighbouring items often meet the same counter; four of each let the processor overlap them.
    lanes = np.zeros((4, 2 * n_levels), dtype=np.int32)
    for start in range(0, n, BLOCK):
        keys = buffer[: min(BLOCK, n - start)]
        quads = len(keys) // 4
        for i in range(n_queries):
            fill_keys(keys, i, start, n_levels, pairs)
            for q in range(quads):
                lanes[0, keys[4 * q]] += 1
                lanes[1, keys[4 * q + 1]] += 1
                lanes[2, keys[4 * q + 2]] += 1
                lanes[3, keys[4 * q + 3]] += 1
            for j in range(4 * quads, len(keys)):
                lanes[0, keys[j]] += 1
            for k in range(2 * n_levels):
                counts[i, k] += lanes[0, k] + lanes[1, k] + lanes[2, k] + lanes[3, k]
            lanes[:] = 0
    return counts
