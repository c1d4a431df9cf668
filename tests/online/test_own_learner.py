"""A learner of one's own that relies on what the base class does: first mapping, parameters and saved state."""

import numpy as np

import mihash
from mihash import state
from mihash.mapping import LinearMapping
from mihash.online.online_learner import hyperplanes


class Following(mihash.online.OnlineLearner):
    name = "following"
    learned_names = ("W", "n_blocks")

    def __init__(self, n_bits=8, *, rate=0.1, seed=0):
        super().__init__(n_bits, seed)
        self.rate = rate

    def begin(self, n_features):
        super().begin(n_features)
        self._n_blocks = 0

    def learn(self, X, y, reservoir, slots):  # noqa: ARG002
        self._W = self._W + np.float32(self.rate) * X.mean(axis=0)[:, None]
        self._n_blocks += 1


def test_it_starts_from_random_hyperplanes():
    learner = Following(seed=3)
    learner.start(5)
    assert learner.mapping == LinearMapping(hyperplanes(5, 8, seed=3))


def test_parameters_are_the_constructor_s():
    assert Following(rate=0.5, seed=2).parameters() == {"n_bits": 8, "rate": 0.5, "seed": 2}
    assert repr(Following(4)) == "Following(n_bits=4, rate=0.1, seed=0)"


def test_what_is_named_is_saved_and_restored():
    X = np.random.default_rng(0).standard_normal((500, 5)).astype(np.float32)
    system = mihash.OnlineHashing(Following(), reservoir_size=50)
    system.feed(X)
    saved = state.load(state.dump(system.learner.state()))
    assert sorted(saved["learned"]) == ["W", "n_blocks"]
    again = Following()
    again.restore(saved)
    assert again._n_blocks == 5
    assert again.mapping == system.current
