"""A table of items as a plain dictionary with brute-force search: what the durable one is compared with."""

import math

import numpy as np


class PlainTable:
    """Items by their sequence number, in the order of addition."""

    def __init__(self, dtype="float32", metric="euclidean"):
        self.dtype, self.metric = dtype, metric
        self.rows = {}
        self.next = 0

    def add(self, X, keys=None, labels=None, metadata=None):
        X = np.asarray(X, dtype=np.float32).astype(self.dtype).astype(np.float32)
        for i, vector in enumerate(X):
            key = self.next if keys is None else keys[i]
            assert key not in self.keys()
            label = None if labels is None else labels[i]
            self.rows[self.next] = (key, vector, label, None if metadata is None else metadata[i])
            self.next += 1

    def update(self, keys, X, labels=None, metadata=None):
        if metadata is None:
            metadata = [self.get(key)[3] for key in keys]
        self.delete(keys)
        self.add(X, keys, labels, metadata)

    def delete(self, keys):
        for key in keys:
            del self.rows[self._number(key)]

    def keys(self):
        return [row[0] for row in self.rows.values()]

    def get(self, key):
        return self.rows[self._number(key)]

    def _number(self, key):
        (number,) = (n for n, row in self.rows.items() if row[0] == key and type(row[0]) is type(key))
        return number

    def search(self, query, mapping, k=10, accepts=lambda _: True, rescore=0, radius=None, margins=None):
        """Return (distance, number, key) of what a search for one query finds, nearest first."""
        if not self.rows:
            return []
        code, *codes = map(_whole, mapping.encode(np.stack([query, *(row[1] for row in self.rows.values())])))
        found, differing = [], {}
        for (number, row), other in zip(self.rows.items(), codes, strict=True):
            if accepts(row[3]):
                differing[number] = code ^ other
                found.append((differing[number].bit_count(), number))
        found.sort()
        if margins is not False and radius is None and mapping.has_margins:
            own = mapping.margins(np.asarray(query, dtype=np.float32)[None])[0]
            found = found[: max(1000, 10 * max(k, rescore))]
            found = sorted((margin_sum(own, differing[number]), number) for _, number in found)
        found = found[: max(k, rescore)] if radius is None else [each for each in found if each[0] <= radius]
        if rescore:
            found = sorted((self._distance(query, self.rows[number][1]), number) for _, number in found)
        if radius is None:
            found = found[:k]
        return [(distance, number, self.rows[number][0]) for distance, number in found]

    def _distance(self, a, b):
        a, b = a.astype(np.float64), b.astype(np.float64)
        if self.metric == "euclidean":
            return math.dist(a, b)
        lengths = math.hypot(*a) * math.hypot(*b)
        return 1 - (math.fsum(a * b) / lengths if lengths else 0)


def margin_sum(margins, differing):
    """Add the margins of the bits that differ (a whole number) in float32: each byte from bit 0 on, then bytes."""
    total = np.float32(0)
    for start in range(0, len(margins), 8):
        part = np.float32(0)
        for bit in range(start, min(start + 8, len(margins))):
            if differing >> bit & 1:
                part += margins[bit]
        total += part
    return total


def plain_margins(mapping, x):
    """Return |w . x + offset| / |w| of a linear mapping for each bit, in plain loops."""
    found = []
    for bit in range(mapping.n_bits):
        value = np.float32(0)
        for k in range(mapping.n_features):
            value += np.float32(x[k] * mapping.weights[k, bit])
        length = 0.0
        for k in range(mapping.n_features):
            length += float(mapping.weights[k, bit]) ** 2
        inverse = np.float32(1 / math.sqrt(length)) if length else np.float32(0)
        found.append(abs(value + mapping.offset[bit]) * inverse)
    return np.array(found, dtype=np.float32)


def _whole(code):
    return int.from_bytes(code.tobytes(), "little")


def assert_answers(hits, expected, rescored=False):
    """Compare a search's keys and distances with `PlainTable.search` of each query, ties of rounding apart."""
    assert len(hits.keys) == len(hits.distances) == len(expected)
    for keys, distances, wanted in zip(hits.keys, hits.distances, expected, strict=True):
        plain = keys.tolist()
        assert len(plain) == len(wanted)
        if not rescored:
            assert distances.tolist() == [distance for distance, _, _ in wanted]
            assert [(type(key), key) for key in plain] == [(type(key), key) for _, _, key in wanted]
            continue
        values = np.array([distance for distance, _, _ in wanted])
        assert np.allclose(distances, values, rtol=1e-4, atol=1e-6)
        clear = np.diff(values, prepend=-np.inf, append=np.inf) > 1e-4 * (1 + np.append(values, 0))
        for place, (_, _, key) in enumerate(wanted):
            if clear[place] and clear[place + 1]:
                assert plain[place] == key
