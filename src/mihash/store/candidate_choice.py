"""How many candidates a search looks up, and which of two numbers is the better one."""

from typing import NamedTuple

from .held_vectors import EVERY

LOOKUP = 64
"""How many codes are ranked by margins in the time that one vector is looked up."""


class Choice(NamedTuple):
    """How many candidates are looked up, and the recall that was measured with them; None if it was not.

    ``n_ranked`` is how many of the nearest codes are ranked by margins; None: as many as for any search.
    """

    rescore: int
    recall: float | None
    n_ranked: int | None = None

    def for_filters(self) -> "Choice":
        """Return twice the numbers: a filter may leave items that are far, which codes tell apart less well."""
        if self.rescore == EVERY:
            return self
        return self._replace(rescore=2 * self.rescore, n_ranked=self.n_ranked and 2 * self.n_ranked)


class Trial(NamedTuple):
    """A choice, the recall that was measured with it, the standard error, and whether that reaches the target."""

    choice: Choice
    recall: float
    error: float
    is_enough: bool

    @property
    def cost(self) -> int:
        """What a search takes, in ranked codes."""
        return (self.choice.n_ranked or 0) + LOOKUP * self.choice.rescore

    def is_better(self, other: "Trial") -> bool:
        """Tell whether it reaches the target and costs less, or finds more where neither does."""
        if self.is_enough and other.is_enough:
            return self.cost < other.cost
        return self.is_enough or (not other.is_enough and self.recall - self.error > other.recall)
