"""What a process on a host does (hosts.py): it keeps two indexes of the same rows, one on Ray and one in a file.

It reads one step a line, such as ``["add", [0, 300], {}]``, and answers with one line: what the step returned, or
its error.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import mihash

rng = np.random.default_rng(3)
CENTRES = 3 * rng.standard_normal((4, 8))
Y = rng.integers(0, 4, size=1000)
X = (CENTRES[Y] + rng.standard_normal((1000, 8))).astype(np.float32)
OPTIONS = {"n_bits": 16, "reservoir_size": 200, "trigger": mihash.TriggerUpdate(0.02, 50, relative=True)}


class Work:
    """The steps; the folders of the indexes are ``many`` and ``one`` in a folder of this host."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def create(self, **cluster):
        """Make both indexes."""
        self.folder.mkdir()
        self.many = mihash.OnlineIndex.create(
            self.folder / "many", **OPTIONS, cluster=mihash.Cluster(**cluster, timeout_s=4)
        )
        self.one = mihash.OnlineIndex.create(self.folder / "one", **OPTIONS)

    def open(self, **cluster):
        """Open both indexes, the one on Ray with a patience of 4 seconds."""
        self.many = mihash.OnlineIndex.open(self.folder / "many", cluster=mihash.Cluster(**cluster, timeout_s=4))
        self.one = mihash.OnlineIndex.open(self.folder / "one")

    def add(self, start, stop):
        """Add rows with sequential numbers to both."""
        for index in (self.many, self.one):
            index.add(X[start:stop], Y[start:stop])

    def change(self, key):
        """Give 20 keys from this one on new vectors, delete the 20 keys after them, and rehash: both."""
        for index in (self.many, self.one):
            index.wait()
            self.upsert(key, index)
            index.delete(range(key + 20, key + 40))
            index.rehash()
            index.wait()

    def upsert(self, key, index=None):
        """Give 20 keys from this one on new vectors, in the index on Ray by default."""
        (index or self.many).upsert(X[-20:], list(range(key, key + 20)), Y[-20:])

    def told(self):
        """Return what both have decided and answer; the one on Ray first."""
        return [_told(index) for index in (self.many, self.one)]

    def search(self):
        """Return what the index on Ray answers, which shards it missed, and how long it took."""
        begin = time.monotonic()
        hits = self.many.search(X[:3], k=5)
        return {"keys": hits.keys.tolist(), "missing": hits.missing, "took_s": time.monotonic() - begin}

    def shards(self):
        """Return where each shard is, and its state."""
        return [(each["node"], each["path"], each["state"], each["lag"]) for each in self.many.stats().shards]

    def wait_for_shards(self, within_s=120.0):
        """Wait until every shard is up with every entry; return how long that took."""
        begin = time.monotonic()
        while any(state != "up" or lag for *_, state, lag in self.shards()):
            assert time.monotonic() - begin < within_s, self.shards()
            time.sleep(0.1)
        return time.monotonic() - begin

    def backup(self, folder):
        """Write a copy of the index on Ray."""
        self.many.backup(folder)

    def verify(self):
        """Check every byte on every host; return how many items there are."""
        return self.many.verify()["items"]

    def close(self):
        """Close both."""
        self.many.close()
        self.one.close()


def _told(index):
    names = ("number", "kind", "seen", "accepted", "gain", "current", "snapshot", "reason")
    decisions = [[each[name] for name in names] for each in index.history()]
    hits, wide = index.search(X[:5], k=20, rescore=40), index.search(X[:5], radius=2)
    found = [(keys.tolist(), far.tolist()) for each in (hits, wide) for keys, far in zip(*each[:2], strict=True)]
    return decisions, found, hits.version, index.stats().items, list(index.evaluate(k=5, n_queries=20))


def main():
    """Take steps until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    work = Work(sys.argv[1])
    for line in sys.stdin:
        name, arguments, options = json.loads(line)
        try:
            answer = {"returned": getattr(work, name)(*arguments, **options)}
        except Exception as error:  # for the test to judge
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
