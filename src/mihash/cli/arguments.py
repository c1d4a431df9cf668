"""What commands take, and how it is read: indexes, keys, filters, vectors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..index.online_index import OnlineIndex
    from ..store.keys import Key

Folder = Annotated[Path, typer.Argument(metavar="PATH", help="The folder of the index.", show_default=False)]
AsJSON = Annotated[bool, typer.Option("--json", help="JSON, one object a line, in place of a table.")]
NoHeader = Annotated[
    bool, typer.Option("--no-header", help="The first line of a CSV file is a row; columns are 1, 2, 3 and so on.")
]


Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Of an index on Ray, the cluster: its address, or auto.",
        show_default="RAY_ADDRESS, or the one on this machine",
    ),
]


def open_index(
    path: Path, read_only: bool = False, ray: str | None = None, partial: bool | None = None
) -> "OnlineIndex":
    """Open an index; where there is none, say how to make one.

    One on Ray that nobody has open is opened to be written to, which starts its shards.
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


def as_nodes(texts: "Sequence[str]") -> "list[str] | dict[str, str] | None":
    """Return nodes, with folders where texts have the form NAME=FOLDER."""
    from ..errors import InvalidInput

    pairs = [text.partition("=") for text in texts]
    if len({equals for _, equals, _ in pairs}) > 1:
        raise InvalidInput("Give all --node a folder, as NAME=FOLDER, or none of them.")
    if any(equals for _, equals, _ in pairs):
        return {name: folder for name, _, folder in pairs}
    return list(texts) or None


def check_index(path: Path) -> None:
    """Say how to make an index, where there is none."""
    from ..errors import InvalidInput
    from ..store.sqlite.database import DATABASE

    if not (path / DATABASE).exists():
        raise InvalidInput(f"There is no index in {path}; make one with: mihash create {path}")


def find_keys(index: "OnlineIndex", texts: "Sequence[str]") -> "list[Key]":
    """Return the stored keys that are meant: a number where the index has that, otherwise the text.

    A text in double quotes is always a text.
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


def as_filter(text: str | None) -> "Mapping[str, Any] | None":
    """Return a filter from JSON."""
    from ..errors import InvalidInput

    try:
        found = None if text is None else json.loads(text)
    except ValueError as error:
        raise InvalidInput(
            f'--where must be JSON, such as \'{{"colour": "red"}}\'; got {text!r} ({error}).'
        ) from error
    if not isinstance(found, dict | None):
        raise InvalidInput(f'--where must be a JSON object, such as \'{{"colour": "red"}}\'; got {text!r}.')
    return found


def as_parameters(texts: "Sequence[str]") -> dict[str, Any]:
    """Return the arguments of a learner from texts of the form NAME=VALUE."""
    from ..errors import InvalidInput

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--parameter must be NAME=VALUE; got {text!r}.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
