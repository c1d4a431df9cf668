"""Reservoir sampling: a sample of a stream of unknown length (Sec. 3.1; Vitter 1985).

The sample represents p(x) in the Monte-Carlo estimate of quality (Eq. 6). It is uniform over the whole stream, or
with ``memory`` weighted towards its newest part (Aggarwal 2006, biased reservoir sampling). The random number for
the t-th example is a function of the seed and t alone, so the sample does not depend on the chunks of the stream,
and resuming needs no state of a generator.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .errors import InvalidInput, NotReady
from .kernels import one_thread
from .label_names import LabelNames
from .mapping import HashMapping
from .neighbors import (
    FRACTION,
    Neighborhood,
    as_neighborhood,
    label_neighborhood,
    neighborhood_from_state,
    neighborhood_state,
    within_fraction,
)
from .state import State


class Reservoir:
    """A sample of at most ``size`` examples of a stream, and the rule for which of them are neighbours.

    Examples come with class labels, with multi-labels, or without: the first ones decide. Without labels,
    neighbours are closer than the 5 % quantile of the sample's pair distances. The quantile is computed again each
    time that the stream has grown by a tenth.

    Parameters
    ----------
    size
        How many examples are kept, at least 2.
    seed
        Seeds the sampling; the same seed and stream give the same sample, however the stream is chunked.
    memory
        How many of the last examples the sample stands for, at least ``size``. The sample is uniform over the
        first ``memory`` examples; from then on, an example that is ``a`` examples old is kept with a probability
        proportional to (1 - 1 / memory)^a. None: uniform over the whole stream.
    neighbors
        A rule to use in place of these: a neighbourhood of `mihash.neighbors`, or a Euclidean threshold.

    Attributes
    ----------
    measures
        Whether the 5 % quantile is kept up to date. A loop whose learner and triggers do not use it turns that
        off; it is then computed on request, from the sample at that moment.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(size=3, seed=1)
    >>> reservoir.add(np.arange(10.0)[:, None])
    >>> reservoir.X.ravel(), reservoir.seen
    (array([3., 5., 7.], dtype=float32), 10)
    """

    def __init__(
        self,
        size: int,
        seed: int = 0,
        memory: int | None = None,
        *,
        neighbors: Neighborhood | float | None = None,
    ) -> None:
        self.size = validation.integer("size", size, minimum=2)
        self.seed = validation.integer("seed", seed, minimum=0)
        self.memory = None if memory is None else validation.integer("memory", memory, minimum=self.size)
        self.seen = 0
        self._forgotten = 0  # examples that no longer count for the acceptance of new ones
        self._fixed = as_neighborhood(neighbors)
        self._neighborhood = self._fixed
        self._class_names = LabelNames()
        self._measured_at = 0
        self._asked: tuple[int, Neighborhood] | None = None  # the threshold at an example count
        self.measures = True
        self._X: NDArray[np.float32] | None = None
        self._y: NDArray[Any] | None = None
        self._origin = np.zeros(self.size, dtype=np.int64)
        self._projected: tuple[HashMapping, int, NDArray[np.float32]] | None = None

    def __len__(self) -> int:
        """Return how many examples are kept now."""
        return min(self.seen, self.size)

    @property
    def age(self) -> int:
        """How many examples count for the acceptance of new ones: all, or those since `restart` and the kept."""
        return self.seen - self._forgotten

    @property
    def X(self) -> NDArray[np.float32]:
        """The kept feature vectors (n, d), by slot; a read-only view that later examples overwrite."""
        if self._X is None:
            raise NotReady("The reservoir is empty: add examples first.")
        view = self._X[: len(self)]
        view.flags.writeable = False
        return view

    @property
    def y(self) -> NDArray[Any] | None:
        """The labels of the kept examples, or None for a stream without labels."""
        return None if self._y is None else self._y[: len(self)]

    @property
    def origin(self) -> NDArray[np.int64]:
        """Which example of the stream, counted from 0, is in each slot (n,)."""
        return self._origin[: len(self)]

    @property
    def neighborhood(self) -> Neighborhood | None:
        """The rule for which examples are neighbours; None until two examples without labels were seen."""
        if self.measures or self._neighborhood is not None or len(self) < 2:
            return self._neighborhood
        if self._asked is None or self._asked[0] != self.seen:
            self._asked = self.seen, within_fraction(self.X, FRACTION)
        return self._asked[1]

    @property
    def given_neighborhood(self) -> Neighborhood | None:
        """The rule that was passed as ``neighbors``; None if none was."""
        return self._fixed

    def projected(self, mapping: HashMapping) -> NDArray[np.float32]:
        """Return the mapping's projections (n, b) of the kept examples.

        The last result is cached: the trigger and the learner ask for the projections of the same mapping.
        """
        if self._projected is None or self._projected[0] is not mapping or self._projected[1] != self.seen:
            with one_thread():  # a learner continues from these values: their last bits must be repeatable
                self._projected = (mapping, self.seen, mapping.project(self.X))
        return self._projected[2]

    def neighborhood_for(self, X: NDArray[np.float32], y: NDArray[Any] | None) -> Neighborhood | None:
        """Return the neighbourhood for a block of examples; the first block is measured on itself."""
        if self._neighborhood is None and y is not None:
            return label_neighborhood(y)
        if self._neighborhood is None and len(X) >= 2:
            return within_fraction(X, FRACTION)
        return self._neighborhood

    def plan(self, n: int) -> NDArray[np.int64]:
        """Return the slot of each of the next ``n`` examples, -1 if it is not kept; changes nothing.

        Vitter's Algorithm R: the first ``size`` examples fill the slots; example t (from 0) after them takes
        slot j drawn uniformly from 0..t if j < size. With a memory, j is drawn from at most ``memory`` numbers;
        after `restart`, t is counted from there.
        """
        t = np.arange(self.seen, self.seen + n)
        seeds = np.random.SeedSequence(self.seed, spawn_key=(1,))  # other numbers than a learner of the same seed
        generator = np.random.Generator(np.random.PCG64(seeds).advance(self.seen))
        last = t - self._forgotten
        if self.memory is not None:
            last = np.minimum(last, self.memory - 1)
        slots = np.minimum((generator.random(n) * (last + 1)).astype(np.int64), last)
        slots[slots >= self.size] = -1
        filling = t < self.size
        slots[filling] = t[filling]
        return slots

    def restart(self) -> None:
        """Let new examples enter as if the stream had only as many as are kept: the sample follows a change.

        The kept examples stay until new ones replace them, and ``seen`` counts on.

        Examples
        --------
        >>> import mihash
        >>> reservoir = mihash.Reservoir(size=50)
        >>> reservoir.add(np.zeros((5000, 1)))
        >>> reservoir.restart()
        >>> reservoir.add(np.ones((50, 1)))
        >>> reservoir.seen, int(reservoir.X.sum())  # about half of the sample is new
        (5050, 25)
        """
        self._forgotten = self.seen - len(self)

    def sample_after(self, X: NDArray[np.float32], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of the sample as they will be once examples have taken their slots."""
        sample = np.zeros((min(self.seen + len(X), self.size), X.shape[1]), dtype=np.float32)
        if len(self):
            sample[: len(self)] = self.X
        kept = slots >= 0
        sample[slots[kept]] = X[kept]
        return sample

    def apply(self, X: NDArray[np.float32], y: NDArray[Any] | None, slots: NDArray[np.int64]) -> None:
        """Put examples into the slots that `plan` gave them; later ones overwrite earlier ones."""
        if self._X is None:
            self._X = np.empty((self.size, X.shape[1]), dtype=np.float32)
            self._y = None if y is None else np.zeros((self.size, *y.shape[1:]), dtype=y.dtype)
        kept = slots >= 0
        self._X[slots[kept]] = X[kept]
        if self._y is not None and y is not None:
            self._y[slots[kept]] = y[kept]
        self._origin[slots[kept]] = np.flatnonzero(kept) + self.seen
        self.seen += len(X)
        self._measure()

    def add(self, X: ArrayLike, y: ArrayLike | None = None) -> None:
        """Offer examples to the sample, with labels of any kind or none; strings become numbers."""
        vectors, targets = self.check(X, self._class_names.codes(y))
        self._class_names.keep()
        self.apply(vectors, targets, self.plan(len(vectors)))

    def check(
        self, X: ArrayLike, y: ArrayLike | None, n_features: int | None = None
    ) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        """Return examples in the form that is kept, or raise; nothing changes."""
        vectors = validation.features("X", X, n_features if self._X is None else self._X.shape[1])
        targets = None if y is None else validation.labels("y", y, len(vectors))
        if self._X is not None:
            same_kind("y", targets, self._y)
        return vectors, targets

    def _measure(self) -> None:
        if self._fixed is not None:
            return
        if self._y is not None:
            self._neighborhood = label_neighborhood(self._y)
        elif self.measures and len(self) >= 2 and 10 * self.seen >= 11 * self._measured_at:
            self._neighborhood = within_fraction(self.X, FRACTION)
            self._measured_at = self.seen

    def copy(self) -> Self:
        """Return an independent reservoir in the same state."""
        twin = copy.copy(self)
        twin._X = None if self._X is None else self._X.copy()
        twin._y = None if self._y is None else self._y.copy()
        twin._origin = self._origin.copy()
        twin._class_names = LabelNames()
        twin._class_names.restore(self._class_names.state())
        return twin

    def state(self) -> State:
        """Return all that `restore` needs, the sample included."""
        rule = None if self._neighborhood is None else neighborhood_state(self._neighborhood)
        return {
            "size": self.size,
            "seed": self.seed,
            "seen": self.seen,
            "memory": self.memory,
            "forgotten": self._forgotten,
            "measured_at": self._measured_at,
            "neighborhood": rule,
            "fixed": self._fixed is not None,
            "X": None if self._X is None else self.X,
            "y": self.y,
            "origin": self.origin,
            "class_names": self._class_names.state(),
        }

    def restore(self, state: State) -> None:
        """Take the state that `state` returned."""
        self.size, self.seed, self.seen = state["size"], state["seed"], state["seen"]
        self.memory, self._forgotten = state.get("memory"), state.get("forgotten", 0)  # not in files of mihash 0.1
        self._measured_at = state["measured_at"]
        self._X = _grown(state["X"], self.size)
        self._y = _grown(state["y"], self.size)
        self._origin = np.zeros(self.size, dtype=np.int64)
        self._origin[: len(state["origin"])] = state["origin"]
        if state["neighborhood"] is not None:
            self._neighborhood = neighborhood_from_state(state["neighborhood"])
        if state["fixed"]:
            self._fixed = self._neighborhood
        numbered = None if self._y is None else False  # in files of earlier versions, which took no names
        self._class_names.restore(state.get("class_names", {"names": [], "are_names": numbered}))


def same_kind(name: str, y: NDArray[Any] | None, before: NDArray[Any] | None) -> None:
    """Raise if labels are of another kind than those before them."""
    if (y is None) != (before is None):
        begun = "without" if before is None else "with"
        raise InvalidInput(f"The stream began {begun} labels `{name}`; continue in the same way.")
    if y is not None and before is not None and y.shape[1:] != before.shape[1:]:
        kinds = [
            f"a 0/1 matrix of {part.shape[1]} classes" if part.ndim == 2 else "integers" for part in (before, y)
        ]
        raise InvalidInput(
            f"The stream began with labels `{name}` as {kinds[0]}; got {kinds[1]}. Give every class a column from "
            "the start, zeros if it has not appeared."
        )


def _grown(rows: NDArray[Any] | None, size: int) -> NDArray[Any] | None:
    if rows is None:
        return None
    grown = np.zeros((size, *rows.shape[1:]), dtype=rows.dtype)
    grown[: len(rows)] = rows
    return grown
