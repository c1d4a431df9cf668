import numpy as np
import pytest

import mihash
from checks import clusters
from mihash.loop.quality import SampleQuality
from mihash.mapping import LinearMapping

X, y = clusters(n=3000)
KINDS = {"classes": y, "several": np.eye(5, dtype=int)[y] | (np.arange(3000) % 7 == 0)[:, None], "none": None}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_bits", [5, 32, 70])
def test_what_is_counted_little_by_little_is_the_quality(kind, n_bits):
    rng = np.random.default_rng(n_bits)
    labels, reservoir, quality = KINDS[kind], mihash.Reservoir(120), SampleQuality(n_mappings=4)
    snapshots = [LinearMapping(rng.standard_normal((12, n_bits))) for _ in range(2)]
    start = 0
    while start < 2800:
        size = int(rng.integers(1, 120))
        part = slice(start, start + size)
        reservoir.add(X[part], None if labels is None else labels[part])
        start += size
        if len(reservoir) < 2:
            continue
        neighbors = reservoir.neighborhood.between(reservoir.X, reservoir.y, reservoir.X, reservoir.y)
        current = LinearMapping(rng.standard_normal((12, n_bits)))
        for mapping in (current, *snapshots, snapshots[0]):
            expected = mihash.quality(mapping.encode(reservoir.X), neighbors, n_bits)
            assert quality.measure(reservoir, mapping) == expected
        if rng.random() < 0.2:
            snapshots[0] = current  # accepted: its counts are carried on


def test_it_remembers_only_so_many_mappings():
    reservoir, quality = mihash.Reservoir(50), SampleQuality()
    reservoir.add(X[:50], y[:50])
    for seed in range(10):
        quality.measure(reservoir, LinearMapping(np.random.default_rng(seed).standard_normal((12, 8))))
    assert len(quality._measured) == 3


def test_after_a_resume_the_pairs_that_were_decided_stay():
    reservoir, quality, mapping = mihash.Reservoir(60), SampleQuality(), LinearMapping(np.eye(12, 8))
    reservoir.add(X[:100])
    before, saved = quality.measure(reservoir, mapping), quality.state()
    near = np.unpackbits(saved["matrix"], count=3600).reshape(60, 60).astype(bool)
    near[:2, 10:40] ^= True  # as if rounding had decided otherwise
    again = SampleQuality()
    again.restore(saved | {"matrix": np.packbits(near)})
    assert again.measure(reservoir, mapping) == mihash.quality(mapping.encode(reservoir.X), near, 8) != before
