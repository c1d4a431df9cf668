"""Refit: a batch method that is fitted again to the reservoir at intervals (Sec. 4.3.2 in the loop of Fig. 2)."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..batch import BatchMethod, lacking, method_class
from ..errors import InvalidInput
from ..mapping import HashMapping, LinearMapping, mapping_from_state
from ..reservoir import Reservoir
from ..state import State
from .online_learner import OnlineLearner, hyperplanes

_BLOCK = 100


class Refit(OnlineLearner):
    """Fit a batch method to the reservoir every ``every`` examples; the mapping does not change in between.

    For methods that are not online: trees, networks, kernel maps with anchors from all the stream. A fit uses the
    sample alone, while an online learner learns from every example, and costs a whole training. The trigger
    decides about a rehash as for any learner. It measures the fit on the sample that it was fitted to, which is
    optimistic, so use a theta above 0.

    Before the first fit the mapping is random hyperplanes. If the method cannot learn from a sample, for example
    because it has one class, the mapping does not change and ``refusal`` has the reason.

    Parameters
    ----------
    n_bits
        The code length b.
    method
        A method of `mihash.batch` by name.
    every
        After how many examples it is fitted again; above 100, at the next multiple of 100.
    options
        The method's arguments by name, but for the length and the seed.
    seed
        Seeds the first hyperplanes and every fit.

    Attributes
    ----------
    refusal
        Why the method could not learn from the last sample; None if it could.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> learner = Refit(n_bits=16, method="sdh", every=500, options={"n_anchors": 100})
    >>> system = mihash.OnlineHashing(learner, mihash.TriggerUpdate(theta=0.0), reservoir_size=300)
    >>> system.feed(data.X[:1500], data.y[:1500])
    >>> system.current, system.updates
    (KernelMapping(64 -> 16 bits, ...), 4)
    """

    name = "refit"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        method: str = "mihash",
        every: int = 1000,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.method = method
        self.every = validation.integer("every", every, minimum=1)
        self.options = _plain(options)
        self.block_size = min(self.every, _BLOCK)
        self.needs_labels = self._make().needs_labels
        self.refusal = None

    def begin(self, n_features: int) -> None:
        """Start with random hyperplanes."""
        self._mapping: HashMapping = LinearMapping(hyperplanes(n_features, self.n_bits, self.seed))
        self._seen = 0

    def current(self) -> HashMapping:
        """Return the mapping of the last fit."""
        return self._mapping

    def learn(
        self, X: NDArray[np.float32], y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Count a block, and fit to the sample after it when a fit is due."""
        before, self._seen = self._seen, self._seen + len(X)
        if len(X) < self.block_size or before // self.every == self._seen // self.every:
            return  # a copy in mid-block has the last fit
        sample = reservoir.copy()
        sample.apply(X, y, slots)
        method = self._make()
        self.refusal = method.refusal(sample.X, sample.y)
        if self.refusal is None:
            self._mapping = method.fit(sample.X, sample.y)

    def learned(self) -> State:
        """Return the mapping, the count, and why the last sample was refused."""
        return {"mapping": self._mapping.state(), "seen": self._seen, "refusal": self.refusal}

    def relearn(self, learned: State) -> None:
        """Continue from what `learned` returned."""
        self._mapping, self._seen = mapping_from_state(learned["mapping"]), learned["seen"]
        self.refusal = learned["refusal"]

    def _make(self) -> BatchMethod:
        """Return a new instance of the method; raise if it does not take the options."""
        missing = lacking(self.method)
        if missing:
            raise InvalidInput(f"`method` {self.method!r} needs {missing}.")
        cls: Any = method_class(self.method)
        known = [name for name in cls().parameters() if name not in ("n_bits", "seed")]
        unknown = sorted(set(self.options) - set(known))
        if unknown:
            raise InvalidInput(
                f"`options` of {self.method} must be among {', '.join(known)}; got {', '.join(unknown)}."
            )
        made: BatchMethod = cls(self.n_bits, seed=self.seed, **self.options)
        return made


def _plain(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return arguments that can be saved with the learner."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise InvalidInput(f"`options` must be a dictionary of the method's arguments; got {options!r:.80}.")
    try:
        json.dumps(dict(options))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"`options` must be plain numbers and strings; {error}.") from error
    return dict(options)
