"""Opens a hash table on the disk as what it was made: in one file, or on a Ray cluster."""

from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from .sqlite.sqlite_table import RowsElsewhere, SQLiteTable
from .table import DurableTable

TABLES = ("sqlite", "ray")


def create_table(folder: Path, kind: str, cluster: dict[str, Any], **settings: Any) -> DurableTable:
    """Make an empty table; ``cluster`` is what only a table on Ray takes."""
    if kind == "ray":
        from .ray import RayTable

        return RayTable.create(folder, **cluster, **settings)
    _refuse(cluster)
    return SQLiteTable.create(folder, **settings)


def open_table(folder: Path, read_only: bool, cluster: dict[str, Any]) -> DurableTable:
    """Open a table; ``cluster`` is what only a table on Ray takes."""
    try:
        table = SQLiteTable(folder, read_only)
    except RowsElsewhere:
        from .ray import RayTable

        return RayTable(folder, read_only, **cluster)
    try:
        _refuse(cluster)
    except InvalidInput:
        table.close()
        raise
    return table


def _refuse(cluster: dict[str, Any]) -> None:
    if cluster:
        raise InvalidInput(f'Only an index on Ray takes `{next(iter(cluster))}`: make it with table="ray".')
