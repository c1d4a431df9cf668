"""Creates and opens a table on the disk: in one SQLite file, or on a Ray cluster (docs/scale.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import validation
from ..errors import InvalidInput
from .generations import Moved, RowsElsewhere, as_generation, generation_folder
from .rescoring import PRODUCT
from .sqlite.database import DATABASE
from .sqlite.sqlite_table import SQLiteTable
from .table import Table


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
        Whether a search may answer even if shards are missing; ``hits.missing`` lists them.

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


class NotOnRay(InvalidInput):
    """Options of a cluster were given for a table that is not on Ray."""


def holds_table(folder: Path) -> bool:
    """Tell whether there is a table in a folder."""
    return (folder / DATABASE).exists()


def create_table(folder: Path, cluster: Cluster | None = None, **settings: Any) -> Table:
    """Make an empty table; with ``cluster``, one on Ray."""
    if cluster is None:
        return SQLiteTable.create(folder, **settings)
    if settings.get("metric") == PRODUCT:
        raise InvalidInput(f"An index on Ray cannot compare by inner products: `metric` must not be {PRODUCT!r}.")
    from .ray import RayTable

    return RayTable.create(folder, **cluster.given(), **settings)


def open_table(folder: Path, read_only: bool, cluster: Cluster | None = None) -> Table:
    """Open a table, in the generation that answers; ``cluster`` is for one on Ray alone."""
    given = {} if cluster is None else cluster.given()
    try:
        table = SQLiteTable(folder, read_only)
    except Moved as moved:
        return open_table(generation_folder(folder, as_generation(moved.generation)), read_only, cluster)
    except RowsElsewhere:
        from .ray import RayTable

        return RayTable(folder, read_only, **given)
    if cluster is not None:
        table.close()
        raise NotOnRay(f"The index in {folder} is not on Ray: leave `cluster` out.")
    return table
