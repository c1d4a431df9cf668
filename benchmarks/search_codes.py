"""The codes that are searched: random, clustered, and learned by MIHash.

*Clustered*: a random centre for every hundred codes; each bit of a code is its centre's, flipped with probability
1/16. *Learned*: MIHash after 50,000 labelled rows, applied to the rows of Tiny-ImageNet (AlexNet features, 128),
to 2.5 million points between two random rows of one class, and to the project's own generator in the shape of
Places205. Queries are made as the codes are, and are not among them.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mihash
from mihash.mapping import HashMapping
from mihash.paper.datasets import Dataset, open_dataset, places205_like

from .report import console

LENGTHS = (32, 64, 128, 256)
N_QUERIES = 1024
N_LEARNED = 2_500_000
_N_EXAMPLES = 50_000
_PER_CENTRE = 100
_CHUNK = 65_536

Codes = NDArray[np.uint8]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CodeSet:
    """Packed codes, and the codes of queries for them."""

    name: str
    n_bits: int
    codes: Codes
    queries: Codes

    @property
    def is_learned(self) -> bool:
        """Whether a mapping made the codes."""
        return self.name.startswith("learned")


def code_sets(largest: int) -> Iterator[Iterator[CodeSet]]:
    """Yield, for each kind and number of codes, a set of each length, made when it is asked for."""
    for n in (largest // 10, largest):
        yield (random(n, n_bits) for n_bits in LENGTHS)
        yield (clustered(n, n_bits) for n_bits in LENGTHS)
    n = min(N_LEARNED, largest)
    if os.environ.get("MIHASH_DATA"):
        dataset = open_dataset("places205")
        mappings = _learned(dataset.X, dataset.y, LENGTHS)
        yield _real(dataset, mappings)
        yield _encoded("learned, between real rows", mappings, _between(dataset), n)
    else:
        console.print("[dim]MIHASH_DATA is not set: no codes learned from real features.[/dim]")
    source = places205_like(n=n + N_QUERIES)
    first, labels = source.rows(0, min(_N_EXAMPLES, n))
    mappings = _learned(first, labels, LENGTHS[:2])
    yield _encoded("learned, places205-like", mappings, (X for X, _ in source.chunks()), n)


def random(n: int, n_bits: int, n_queries: int = N_QUERIES) -> CodeSet:
    """Return codes whose bits are all equally likely."""
    rng = np.random.default_rng(n_bits)
    codes, queries = (rng.integers(0, 256, (rows, n_bits // 8), dtype=np.uint8) for rows in (n, n_queries))
    return CodeSet("random", n_bits, codes, queries)


def clustered(n: int, n_bits: int, n_queries: int = N_QUERIES) -> CodeSet:
    """Return codes around centres, queries around the same centres."""
    rng = np.random.default_rng(n_bits + 1)
    centres = rng.integers(0, 256, (n // _PER_CENTRE, n_bits // 8), dtype=np.uint8)

    def around(rows: int) -> Codes:
        flips = np.bitwise_and.reduce(rng.integers(0, 256, (4, rows, n_bits // 8), dtype=np.uint8))
        flips ^= centres[rng.integers(0, len(centres), rows)]
        return flips

    codes = np.empty((n, n_bits // 8), dtype=np.uint8)
    for start in range(0, n, _CHUNK):
        part = codes[start : start + _CHUNK]
        part[:] = around(len(part))
    return CodeSet("clustered", n_bits, codes, around(n_queries))


def _learned(X: Vectors, y: NDArray[np.int64], lengths: Iterable[int]) -> dict[int, HashMapping]:
    """Return the mappings that MIHash learns from rows in random order, one for each length."""
    rows = np.random.default_rng(0).permutation(len(X))[:_N_EXAMPLES]
    mappings = {}
    for n_bits in lengths:
        never = mihash.TriggerUpdate(interval=len(X) + 1)
        system = mihash.OnlineHashing(mihash.online.MIHash(n_bits), trigger=never, reservoir_size=1000)
        system.feed(X[rows], y[rows])
        mappings[n_bits] = system.current
    return mappings


def _real(dataset: Dataset, mappings: dict[int, HashMapping]) -> Iterator[CodeSet]:
    """Yield codes of all rows but some of the test set, which are the queries."""
    asked = np.zeros(len(dataset), dtype=np.bool_)
    asked[np.random.default_rng(1).permutation(np.flatnonzero(dataset.is_test))[:N_QUERIES]] = True
    for n_bits, mapping in mappings.items():
        codes = mapping.encode(dataset.X)
        yield CodeSet("learned, real rows", n_bits, codes[~asked], codes[asked])


def _between(dataset: Dataset) -> Iterator[Vectors]:
    """Yield chunks of points x_a + t (x_b - x_a), where a and b are of one class and t is uniform."""
    rng = np.random.default_rng(2)
    order = np.argsort(dataset.y, kind="stable")
    X, y = dataset.X[order], dataset.y[order]
    first, count = np.searchsorted(y, y), np.bincount(y)[y]
    while True:
        a = rng.integers(0, len(X), _CHUNK)
        b = first[a] + rng.integers(0, count[a])
        t = rng.random((_CHUNK, 1), dtype=np.float32)
        yield X[a] + t * (X[b] - X[a])


def _encoded(name: str, mappings: dict[int, HashMapping], chunks: Iterator[Vectors], n: int) -> Iterator[CodeSet]:
    """Yield n codes of each length; the vectors that come after them are the queries."""
    rows = n + N_QUERIES
    whole = {n_bits: np.empty((rows, n_bits // 8), dtype=np.uint8) for n_bits in mappings}
    start = 0
    while start < rows:
        X = next(chunks)[: rows - start]
        for n_bits, mapping in mappings.items():
            whole[n_bits][start : start + len(X)] = mapping.encode(X)
        start += len(X)
    for n_bits, codes in whole.items():
        yield CodeSet(name, n_bits, codes[:n], codes[n:])
