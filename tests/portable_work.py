"""What is done on another machine (machines.py): ``python portable_work.py codes N | make | open FOLDER KIND``."""

import hashlib
import json
import os
import sys

import numpy as np
import threadpoolctl

import mihash
from mihash.mapping import LinearMapping, NormalizedMapping

N_SEEN = 1500


def digest(array):
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


def rows_of_every_kind(n, d, rng):
    """Rows of every kind, made by elementwise arithmetic on random bits: the same numbers on every machine."""
    X = ((rng.integers(0, 2**24, (n, d)) - 2**23) / 2**22).astype(np.float32)
    return {
        "plain": X,
        "far": X + np.float32(1000),
        "subnormal": (X * 2.0**-140).astype(np.float32),
        "huge": X * np.float32(1e30),
        "sparse": X * (rng.integers(0, 10, (n, d)) == 0),
        "next to 0": np.concatenate([X[:, :-1], -X[:, :-1].sum(axis=1, keepdims=True, dtype=np.float64)], axis=1)
        .astype(np.float32),
    }  # fmt: skip


def codes(n):
    """Print a digest of the codes of each kind of rows, having found them the same in any order and number."""
    found = {}
    for d in (16, 128, 700, 4096, 16_384):
        rng = np.random.default_rng(d)
        count = max(50, min(n, n * 128 // d))
        W = ((rng.integers(0, 2**24, (d, 64)) - 2**23) / 2**23).astype(np.float32)
        for kind, X in rows_of_every_kind(count, d, rng).items():
            for unit in (False, True):
                mean = np.full(d, 1000.0) if kind == "far" and not unit else W[:, 0] / 16
                mapping = NormalizedMapping(LinearMapping(W, W[0]), mean, 1.0, unit)
                whole = mapping.encode(X)
                order = rng.permutation(count)
                assert np.array_equal(mapping.encode(X[order]), whole[order]), (d, kind, unit)
                some = order[:40]
                assert all(np.array_equal(mapping.encode(X[i : i + 1])[0], whole[i]) for i in some)
                for n_threads in (1, 2):
                    with threadpoolctl.threadpool_limits(n_threads):
                        assert np.array_equal(mapping.signs(X), whole), (d, kind, unit, n_threads)
                found[f"{d} {kind} {unit}"] = digest(whole)
    print(json.dumps(found))


OPTIONS = {  # of the indexes that are moved: whether rows have labels, how many features, and what `create` takes
    "labels": (True, 24, lambda: {"n_bits": 32, "reservoir_size": 300, "trigger": mihash.TriggerUpdate(0.0)}),
    "no labels": (False, 24, lambda: {"n_bits": 32, "reservoir_size": 300, "trigger": mihash.TriggerUpdate(0.0)}),
    "defaults": (False, 72, dict),
    "replay": (True, 24, lambda: {"learner": mihash.online.MomentHash(32, replay=5), "reservoir_size": 300}),
}


def rows(n, kind):
    labels, d, _ = OPTIONS[kind]
    rng = np.random.default_rng(5)
    y = rng.integers(0, 5, N_SEEN + 500)
    X = rng.standard_normal((5, d))[y] + 0.8 * rng.standard_normal((len(y), d))
    return X[:n].astype(np.float32), y[:n] if labels else None


def part(X, y, start, stop=None):
    return X[start:stop], None if y is None else y[start:stop]


def make(folder, kind):
    """Make an index, and die without a checkpoint of what it has learned."""
    index = mihash.OnlineIndex.create(folder, **OPTIONS[kind][2]())
    X, y = rows(N_SEEN, kind)
    index.add(*part(X, y, 0, 600))
    index.add(*part(X, y, 600))
    index.rehash()
    index.wait()
    say(index, X)
    os._exit(0)


def say(index, X):
    hits = index.search(X[:50], k=5)
    assert index.verify()["rows"] == len(index)
    decisions = [(row["number"], row["kind"], row["seen"], row["accepted"]) for row in index.history()]
    about = {"keys": hits.keys.tolist(), "distances": hits.distances.tolist(), "decisions": decisions}
    about |= {"version": hits.version, "mapping": index.snapshot.fingerprint}
    about |= {"options": index.options.to_text(), "factors": index._table.edition.has_factors}
    print(json.dumps(about), flush=True)


def go_on(folder, kind):
    """Open an index that another machine made; say what it answers, then learn, rehash and close it."""
    with mihash.OnlineIndex.open(folder) as index:
        X, y = rows(N_SEEN + 500, kind)
        say(index, X)
        before = len(index.history())
        index.add(*part(X, y, N_SEEN))
        index.rehash()
        index.wait()
        assert len(index) == len(X)
        assert [row["number"] for row in index.history()] == list(range(len(index.history())))
        assert len(index.history()) >= before + 500 // index.options.interval
        assert index.stats()["learning_error"] is None
        index.verify()
        hits = index.search(X[:20], k=1, rescore=20)
        assert hits.keys.ravel().tolist() == list(range(20))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "codes":
        codes(int(arguments[0]))
    else:
        {"make": make, "open": go_on}[command](*arguments)
