"""A mapping that was learned elsewhere, in the place of a learner: a batch method's, or a network."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, NotReady
from ..mapping import HashMapping, mapping_from_state
from ..reservoir import Reservoir
from ..state import State
from .online_learner import OnlineLearner


class ExternalMapping(OnlineLearner):
    """Learns nothing: its mapping is the one that was given last.

    An index that was created with ``OnlineIndex.create(folder, learner=mapping)`` has it as its learner.

    Parameters
    ----------
    n_bits
        The code length b of the mappings.
    seed
        Not used; there for the sake of the other learners.

    Examples
    --------
    >>> import mihash
    >>> learner = ExternalMapping(n_bits=2)
    >>> learner.give(mihash.mapping.LinearMapping(np.eye(3, 2)))
    >>> system = mihash.OnlineHashing(learner)
    >>> system.feed(np.random.default_rng(0).standard_normal((300, 3)))
    >>> system.updates
    1
    """

    name = "given"
    changes_arrays = False

    def __init__(self, n_bits: int = 32, *, seed: int = 0) -> None:
        super().__init__(n_bits, seed)
        self._mapping: HashMapping | None = None

    def give(self, mapping: HashMapping) -> None:
        """Take a mapping, of the same length and dimension as the one before."""
        if not isinstance(mapping, HashMapping):
            raise InvalidInput(f"`mapping` must be a hash mapping; got {mapping!r:.80}.")
        if mapping.n_bits != self.n_bits:
            raise InvalidInput(f"`mapping` must give {self.n_bits} bits; got {mapping!r}.")
        if self.n_features not in (None, mapping.n_features):
            raise InvalidInput(f"`mapping` must take {self.n_features} features; got {mapping!r}.")
        self._mapping = mapping
        self.start(mapping.n_features)

    def begin(self, n_features: int) -> None:  # noqa: ARG002 -- the mapping knows
        """Raise if no mapping was given yet."""
        if self._mapping is None:
            raise NotReady("There is no mapping yet: call `give(mapping)` first.")

    def current(self) -> HashMapping:
        """Return the mapping that was given last."""
        if self._mapping is None:
            raise NotReady("There is no mapping yet: call `give(mapping)` first.")
        return self._mapping

    def learn(
        self, X: NDArray[np.float32], y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Learn nothing."""

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"n_bits": self.n_bits, "seed": self.seed}

    def learned(self) -> State:
        """Return the mapping."""
        return {"mapping": self.current().state()}

    def restore(self, state: State) -> None:
        """Go on with the mapping of a state."""
        if state["learned"] is not None:
            self._mapping = mapping_from_state(state["learned"]["mapping"])
        super().restore(state)

    def relearn(self, learned: State) -> None:
        """Take over nothing more: the mapping is there."""
