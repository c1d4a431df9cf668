"""The options of an index on a Ray cluster (docs/scale.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import validation


@dataclass(frozen=True)
class Cluster:
    """Where the shards of an index on Ray are, and how long a shard may be silent.

    Parameters
    ----------
    shards
        Over how many shards the rows are spread, 2 by default; fixed when the index is created.
    nodes
        The nodes of the shards, in turn: addresses, or names of Ray resources; as a dictionary with a folder for
        each. By default all nodes, and the path of the index on each. Fixed when the index is created.
    address
        The cluster, as `ray.init` takes it; not needed where this process has joined one.
    timeout_s
        How long a shard may be silent before it counts as missing, 30 by default.
    allow_partial
        Whether a search may answer without missing shards; ``hits.missing`` names them.

    Examples
    --------
    >>> Cluster(shards=4).given()
    {'shards': 4}
    """

    shards: int | None = None
    nodes: Sequence[str] | Mapping[str, str] | None = None
    address: str | None = None
    timeout_s: float | None = None
    allow_partial: bool | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if self.shards is not None:
            validation.integer("shards", self.shards, minimum=1, maximum=4096)
        if self.timeout_s is not None:
            validation.number("timeout_s", self.timeout_s, above=0)
        if self.allow_partial is not None:
            validation.boolean("allow_partial", self.allow_partial)

    def given(self) -> dict[str, Any]:
        """Return the options that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}
