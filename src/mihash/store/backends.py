"""Creates and opens a table on the disk: in one SQLite file, or on a Ray cluster."""

from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from .cluster_options import Cluster
from .generations import Moved, RowsElsewhere, as_generation, generation_folder
from .rescoring import PRODUCT
from .sqlite.database import DATABASE
from .sqlite.sqlite_table import SQLiteTable
from .table import Table


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
        raise InvalidInput(f"The index in {folder} is not on Ray: leave `cluster` out.")
    return table
