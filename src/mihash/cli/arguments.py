"""Arguments and options that several commands share, and how their values are read."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..index.online_index import OnlineIndex
    from ..io.readers import Columns, Source
    from ..store.keys import Key

STDIN = "-"

Folder = Annotated[Path, typer.Argument(metavar="PATH", help="The folder of the index.", show_default=False)]
NewFolder = Annotated[Path, typer.Argument(metavar="PATH", help="A new or empty folder.", show_default=False)]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line, instead of a table.")]
Bits = Annotated[int, typer.Option(help="Code length.")]
Seed = Annotated[int, typer.Option(help="Seeds everything random.")]
VectorColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The vector: a column of lists, or columns of numbers as 'PREFIX*' or FIRST:LAST.",
        show_default="guessed, and printed",
    ),
]
KeyColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The key; 'none' numbers the rows.",
        show_default="key or id, if there is such a column",
    ),
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="The first line of a CSV file is a row; columns are 1, 2, 3 and so on.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="npy, npz, parquet, csv, jsonl or mat.", show_default="by the name of the file"),
]

OPTIONS = {  # what messages about the columns of a file call its parameters
    "vector": "--vector",
    "key": "--key",
    "label": "--label",
    "metadata": "--metadata",
    "header": "--no-header",
    "file_format": "--format",
    "held_bytes": "--memory",
}

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="For an index on Ray, the cluster: its address, or auto.",
        show_default="RAY_ADDRESS, or the cluster on this machine",
    ),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="For an index on Ray, answer without missing shards, and name them."),
]


def open_index(
    path: Path, read_only: bool = False, ray: str | None = None, partial: bool | None = None
) -> "OnlineIndex":
    """Open an index; where there is none, say how to create one.

    An index on Ray that no process has open is opened for writing, which starts its shards.
    """
    from ..errors import InvalidInput, NotReady
    from ..index.online_index import OnlineIndex
    from ..store.cluster_options import Cluster

    check_index(path)
    cluster = None if ray is None and partial is None else Cluster(address=ray, allow_partial=partial)
    try:
        return OnlineIndex.open(path, read_only, cluster=cluster)
    except InvalidInput as error:
        if "is not on Ray" in str(error):
            raise InvalidInput(f"{path} is not an index on Ray: leave --ray and --partial out.") from error
        raise
    except NotReady:
        if not read_only:
            raise
        return OnlineIndex.open(path, cluster=cluster)


def check_index(path: Path) -> None:
    """Say how to create an index, where there is none."""
    from ..errors import InvalidInput
    from ..store.sqlite.database import DATABASE

    if not (path / DATABASE).exists():
        raise InvalidInput(f"There is no index in {path}; make one with: mihash create {path}")


def open_vectors(
    file: str, columns: "Columns", file_format: str | None, held_bytes: int | None = None
) -> "Source":
    """Open a file of vectors, or the standard input, and print what was guessed about its columns."""
    from ..io.readers import open_source, open_stream

    if file == STDIN:
        source = open_stream(sys.stdin.buffer, columns, file_format)
    else:
        source = open_source(file, columns, file_format, *([] if held_bytes is None else [held_bytes]))
    if source.note:
        note(f"{source.name}: {source.note}")
    return source


def find_keys(index: "OnlineIndex", texts: "Sequence[str]") -> "list[Key]":
    """Return the stored keys that texts stand for: a number if the index has it, otherwise the string.

    A text in double quotes is always a string.
    """
    return [_find_key(index, text) for text in texts]


def _find_key(index: "OnlineIndex", text: str) -> "Key":
    from ..errors import UnknownName
    from ..store.keys import readings

    for key in readings(text):
        try:
            return index.get(key).key
        except UnknownName:
            continue
    raise UnknownName(f"The key {text!r} is not stored.")
