"""Arguments and options that several commands share, and how their values are read."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..index.online_index import OnlineIndex
    from ..io.readers import Columns, Source
    from ..store.keys import Key

STDIN = "-"


def refuse(context: typer.Context, parameters: "Collection[str]", why: str) -> None:
    """Raise if one of these parameters of a command was given: it would have no effect."""
    from ..errors import InvalidInput

    for each in context.command.params:
        source = context.get_parameter_source(str(each.name))
        if each.name in parameters and source is not None and source.name == "COMMANDLINE":
            name = each.opts[0] if each.param_type_name == "option" else str(each.metavar)
            raise InvalidInput(f"{name} {why}")


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
UpsertKeyColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The key; each row must have one.",
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
    "left_out": "--except",
    "header": "--no-header",
    "file_format": "--format",
    "held_bytes": "--memory",
}

Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILTER",
        help="Only items whose metadata matches: NAME=VALUE, also with != < <= > >=, or JSON (docs/index.md); "
        "may be repeated, then all must match.",
        show_default=False,
    ),
]
Keys = Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Keys of stored items.", show_default=False)]
KeysFrom = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Read keys from a file, one per line; - for the standard input."),
]

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
    typer.Option(
        "--partial", help="For an index on Ray, answer even if shards are missing, and list the missing ones."
    ),
]


def open_index(
    path: Path, read_only: bool = False, ray: str | None = None, partial: bool | None = None
) -> "OnlineIndex":
    """Open an index; where there is none, say how to create one.

    An index on Ray that no process has open is opened for writing, which starts its shards.
    """
    from ..errors import NotReady

    check_index(path)
    try:
        return _opened(path, read_only, ray, partial)
    except NotReady:
        if not read_only:
            raise
        return _opened(path, False, ray, partial)


def open_reader(path: Path, ray: str | None = None, partial: bool | None = None) -> "OnlineIndex":
    """Open an index for reading, and never for writing."""
    return _opened(path, True, ray, partial)


def _opened(path: Path, read_only: bool, ray: str | None, partial: bool | None) -> "OnlineIndex":
    from ..errors import InvalidInput
    from ..index.online_index import OnlineIndex
    from ..store.backends import Cluster, NotOnRay

    cluster = None if ray is None and partial is None else Cluster(address=ray, allow_partial=partial)
    try:
        return OnlineIndex.open(path, read_only, cluster=cluster)
    except NotOnRay as error:
        raise InvalidInput(f"{path} is not an index on Ray: leave --ray and --partial out.") from error


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
    """Return the stored keys that texts stand for."""
    from ..store.keys import stored_keys

    return stored_keys(texts, index.contains)


def parse_where(texts: "Sequence[str] | None") -> dict[str, Any] | None:
    """Return the filter that several ``--where`` stand for; None without any.

    A value is read as JSON where it is some: a number, true, false, null, a string in double quotes or a list.

    Examples
    --------
    >>> parse_where(["colour=red", "year>=2000"])
    {'$and': [{'colour': 'red'}, {'year': {'>=': 2000}}]}
    >>> parse_where(['{"year": {"$in": [1999, 2000]}}'])
    {'year': {'$in': [1999, 2000]}}
    """
    if not texts:
        return None
    found = [_parse_one(text) for text in texts]
    return found[0] if len(found) == 1 else {"$and": found}


def _parse_one(text: str) -> dict[str, Any]:
    from ..errors import InvalidInput

    example = '\'{"colour": "red"}\', or NAME=VALUE, such as colour=red or "year>=2000"'
    if text.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"--where must be JSON, such as {example}; got {text!r} ({error}).") from error
        return found
    parts = re.fullmatch(r"(?s)\s*([^=<>!]+?)\s*(==|!=|<=|>=|=|<(?![<>=])|>(?![<>=]))\s*(.*)", text)
    if parts is None:
        raise InvalidInput(f"--where must be a JSON object, such as {example}; got {text!r}.")
    name, sign, value = parts.groups()
    name = f"${name}" if name.startswith("$") else name
    operand = _parse_value(value)
    return {name: operand} if sign in ("=", "==") else {name: {sign: operand}}


def _parse_value(text: str) -> Any:
    try:
        found = json.loads(text, parse_constant=lambda _: text)  # NaN and Infinity are no JSON
    except ValueError:
        return text
    return text if isinstance(found, dict) else found


def given_keys(texts: "Sequence[str] | None", file: str | None) -> list[str]:
    """Return keys of the command line and of a file with one in each line, as texts."""
    found = list(texts or [])
    if file is None:
        return found
    from ..errors import InvalidInput

    try:
        text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"--keys-from: {file} cannot be read: {why}.") from error
    return found + [line for line in text.splitlines() if line]
