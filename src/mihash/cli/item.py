"""Commands for single items of an index."""

from typing import Annotated, Any

import typer

from .arguments import AsJSON, Folder, Ray, find_keys, open_index
from .output import counted, json_line, json_text, say, table
from .program import command

_PANEL = "An index"

Keys = Annotated[list[str], typer.Argument(metavar="KEY", help="Keys of stored items.", show_default=False)]


@command(_PANEL, "mihash get photos 17 --json")
def get(
    path: Folder,
    keys: Keys,
    as_json: AsJSON = False,
    ray: Ray = None,
) -> None:
    """Show stored items: vector, label and metadata.

    A key that looks like a number is the number, where the index has it, and otherwise the text; in double quotes,
    '"17"', it is always the text. A key that begins with a dash comes after --.
    """
    with open_index(path, True, ray) as index:
        items = [index.get(key) for key in find_keys(index, keys)]
    found = [
        {"key": item.key, "label": _plain(item.label), "metadata": item.metadata, "vector": item.vector.tolist()}
        for item in items
    ]
    if as_json:
        for each in found:
            json_line(each)
    else:
        table({"": "left", "item": "left"}, [row for each in found for row in _cells(each)])


@command(_PANEL, "mihash delete photos 17 18 holiday.jpg")
def delete(
    path: Folder,
    keys: Keys,
    ray: Ray = None,
) -> None:
    """Remove items by their keys: all of them, or with an unknown key none.

    A key that looks like a number is the number, where the index has it, and otherwise the text; in double quotes,
    '"17"', it is always the text. A key that begins with a dash comes after --.
    """
    with open_index(path, ray=ray) as index:
        n = index.delete(find_keys(index, keys))
        deleted = counted(n, "item")
        say(f"Deleted {deleted}; {len(index):,} are left. mihash compact {path} gives their space back.")


def _cells(item: dict[str, Any]) -> list[tuple[str, str]]:
    vector = item["vector"]
    shown = ", ".join(f"{number:.4g}" for number in vector[:5]) + (", ..." if len(vector) > 5 else "")
    return [
        ("key", str(item["key"])),
        *([("label", str(item["label"]))] if item["label"] is not None else []),
        *([("metadata", json_text(item["metadata"]))] if item["metadata"] is not None else []),
        ("vector", f"{len(vector)} numbers: {shown}"),
    ]


def _plain(label: Any) -> Any:
    return label.tolist() if hasattr(label, "tolist") else label
