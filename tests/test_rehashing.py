"""What failed for want of shards is built once they are back; other failures wait for the next version."""

import time

import numpy as np
import pytest

import mihash
from mihash.errors import PartialFailure, StoreError

X = np.random.default_rng(0).standard_normal((300, 8))


@pytest.mark.parametrize(("failure", "built"), [(PartialFailure, True), (StoreError, False)])
def test_a_build_that_lacked_shards_is_tried_again(tmp_path, monkeypatch, failure, built):
    monkeypatch.setattr("mihash.rehashing._AGAIN_S", 0.01)
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        index.add(X)
        index.wait()
        before, build = index.version, index._table.build

        def failing(*_):
            monkeypatch.setattr(index._table, "build", build)
            raise failure("Shard 1 is away.")

        monkeypatch.setattr(index._table, "build", failing)
        index.rehash()
        with pytest.raises(failure, match="away"):
            index.wait()
        until = time.monotonic() + (20 if built else 1.5)
        while index.version == before and time.monotonic() < until:
            time.sleep(0.02)
        assert (index.version > before) == built
        assert index.wait()
