"""The base class of online hashing methods (Fig. 2), and the random hyperplanes that they start from.

A learner gets one block of the stream at a time, the reservoir as it was before the block, and the slots that the
block's examples take in it afterwards. It returns frozen mappings. It does not encode, and it does not use tables
or triggers.
"""

import copy
import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import InvalidInput, NotReady
from ..kernels import one_thread
from ..mapping import HashMapping, LinearMapping
from ..reservoir import Reservoir
from ..state import State


def hyperplanes(n_features: int, n_bits: int, seed: int) -> NDArray[np.float32]:
    """Return random hyperplanes through the origin: Gaussian columns of unit length (d, b).

    Every method starts from them.

    Examples
    --------
    >>> np.linalg.norm(hyperplanes(5, 2, seed=0), axis=0).round(6).tolist()
    [1.0, 1.0]
    """
    W = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))).standard_normal((n_features, n_bits))
    unit: NDArray[np.float32] = (W / np.linalg.norm(W, axis=0)).astype(np.float32)
    return unit


class OnlineLearner(ABC):
    """An online hashing method.

    A subclass sets ``name``, keeps its parameters as attributes of the same names, and implements `learn`. By
    default it starts from random hyperplanes ``_W`` and its mapping is linear; other methods override `begin` and
    `current`. ``learned_names`` names the attributes that are its state, without their underscore: arrays,
    numbers, or objects with ``state()`` and ``restore()``.

    Blocks end at multiples of ``block_size`` examples of the stream, however `feed` was chunked, so that the same
    stream gives the same bits.
    """

    name: ClassVar[str]
    needs_labels: bool = False
    block_size: int = 100
    forced_until: int = 0  # for this many examples, the table is updated after every block (App. D.2)
    uses_threshold: bool = True  # whether it learns from pairs below a distance, where there are no labels
    refusal: str | None = None  # why a method that is fitted to the sample could not learn from the last one
    learned_names: ClassVar[tuple[str, ...]] = ("W",)
    changes_arrays: ClassVar[bool] = True  # in place, so that a copy needs arrays of its own

    def __init__(self, n_bits: int, seed: int) -> None:
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1, maximum=4096)
        self.seed = validation.integer("seed", seed, minimum=0)
        self._n_features: int | None = None
        self._belongs = False

    @property
    def is_fixed(self) -> bool:
        """Whether nothing is learned, so that the mapping never moves."""
        return not self.learned_names

    @property
    def n_features(self) -> int | None:
        """The dimension of the stream, None until it is known."""
        return self._n_features

    def start(self, n_features: int) -> None:
        """Set the dimension and make the first mapping; raise if a later call gives another dimension."""
        if self._n_features is None:
            self.begin(validation.integer("n_features", n_features, minimum=1))
            self._n_features = n_features
        elif self._n_features != n_features:
            raise InvalidInput(
                f"This learner works with {self._n_features} features; got {n_features}. Use another learner."
            )

    def belong(self) -> None:
        """Bind the learner to one stream; raise `InvalidInput` if it is bound already."""
        if self._belongs:
            raise InvalidInput("`learner` is in use for another stream: make a new one, or give `learner.copy()`.")
        self._belongs = True

    def check(self, y: NDArray[Any] | None) -> None:
        """Raise `InvalidInput` if the method needs labels and there are none."""
        if self.needs_labels and y is None:
            raise InvalidInput(f"{type(self).__name__} learns from class labels: give `y` with the examples.")

    def give(self, mapping: HashMapping) -> None:  # noqa: ARG002 -- `ExternalMapping` takes it
        """Take a mapping that was learned elsewhere; raise if the method learns its own."""
        raise InvalidInput(
            f"This index learns its mapping with {self.name}. Only an index that was created with a mapping as "
            "its `learner` takes others."
        )

    @property
    def mapping(self) -> HashMapping:
        """The current mapping Phi_t, frozen."""
        if self._n_features is None:
            raise NotReady("The dimension of the stream is not known yet: feed or store examples first.")
        try:
            with one_thread():
                return self.current()
        except InvalidInput as error:
            raise NotReady(
                f"{self!r} has diverged: {error} Start again with smaller steps, or with features that are "
                "centred and of unit length (mihash.datasets.normalize)."
            ) from error

    def begin(self, n_features: int) -> None:
        """Make the first parameters for vectors of this dimension."""
        self._W: NDArray[np.float32] = hyperplanes(n_features, self.n_bits, self.seed)

    def current(self) -> HashMapping:
        """Return the mapping of the current parameters."""
        return LinearMapping(self._W)

    @abstractmethod
    def learn(
        self, X: NDArray[np.float32], y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Learn from a block of examples, which take these slots of the reservoir afterwards."""

    def refresh(self, keep: int) -> None:  # noqa: B027 -- a method that has nothing to forget does nothing
        """Follow a change of the stream; ``keep`` is how many examples' weight to keep of what was summed up.

        The drift watch of a loop calls it at an alarm. By default nothing is done: the sample forgets, and most
        methods follow it.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def learned(self) -> State:
        """Return everything learned so far."""
        parts = {name: getattr(self, f"_{name}") for name in self.learned_names}
        return {name: part.state() if hasattr(part, "state") else part for name, part in parts.items()}

    def relearn(self, learned: State) -> None:
        """Continue from what `learned` returned."""
        for name in self.learned_names:
            part = getattr(self, f"_{name}")
            if hasattr(part, "restore"):
                part.restore(learned[name])
            else:
                setattr(self, f"_{name}", learned[name])

    def state(self) -> State:
        """Return parameters and everything learned, as plain values."""
        learned = None if self._n_features is None else self.learned()
        fixed = {"name": self.name, "parameters": self.parameters(), "n_features": self._n_features}
        return {**fixed, "learned": learned}

    def restore(self, state: State) -> None:
        """Continue where `state` was taken; the parameters must be the same."""
        known = inspect.signature(type(self)).parameters  # a saved state may be older than a parameter
        defaults = {name: known[name].default for name in known if name not in state["parameters"]}
        if state["name"] != self.name or defaults | state["parameters"] != self.parameters():
            raise InvalidInput(
                f"The state belongs to {state['name']} with {state['parameters']}, "
                f"not to {self.name} with {self.parameters()}."
            )
        if state["n_features"] is not None:
            self.start(state["n_features"])
            self.relearn(state["learned"])

    def copy(self) -> Self:
        """Return an independent learner in the same state."""
        twin = copy.deepcopy(self) if self.changes_arrays else copy.copy(self)
        twin._belongs = False
        return twin

    def __repr__(self) -> str:
        """Show the parameters."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items())
        return f"{type(self).__name__}({arguments})"
