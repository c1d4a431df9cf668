"""Commands that look after an index."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .arguments import AsJSON, Folder, Ray, open_index
from .output import counted, duration, json_line, note, say, size, table
from .program import command

_PANEL = "Care"


@command(_PANEL, "mihash stats photos --json")
def stats(path: Folder, as_json: AsJSON = False, ray: Ray = None) -> None:
    """Show what is in an index, and how it was made."""
    with open_index(path, True, ray) as index:
        found = dict(index.stats())
    if as_json:
        json_line(found)
    else:
        shards = found.pop("shards", None)
        rows = [(name.removeprefix("n_").replace("_", " "), _shown(name, value)) for name, value in found.items()]
        table({str(path): "left", "": "left"}, rows)
        if shards:
            names = ("shard", "node", "state", "version", "items", "lag", "restarts")
            sides = {name: "left" if name in ("node", "state") else "right" for name in (*names, "disk")}
            lines = [
                [*(_shown(name, each[name]) for name in names), size(each["bytes_on_disk"] or 0)]
                for each in shards
            ]
            table(sides, lines)


@command(_PANEL, "mihash history photos --last 5")
def history(
    path: Folder,
    everything: Annotated[
        bool, typer.Option("--all", help="Every decision, not only those that led to a version.")
    ] = False,
    last: Annotated[int, typer.Option(help="How many to show, the newest; 0 for all.")] = 20,
    as_json: AsJSON = False,
    ray: Ray = None,
) -> None:
    """Show when the trigger decided to rehash, why, and what that cost."""
    from .. import validation

    validation.integer("last", last, minimum=0)
    with open_index(path, True, ray) as index:
        found = [dict(each) for each in index.history() if everything or each["accepted"]]
    shown = found[-last:] if last else found
    if as_json:
        for each in shown:
            json_line(each)
    elif not found:
        note("There are no decisions yet: add rows first.")
    else:
        columns = ("version", "rows seen", "quality", "gain", "status", "items", "took")
        title = f"{len(shown)} of {len(found)}" if len(shown) < len(found) else None
        table(
            {name: "left" if name == "status" else "right" for name in columns},
            [_row(each) for each in shown],
            title,
        )


@command(_PANEL, "mihash verify photos")
def verify(path: Folder, ray: Ray = None) -> None:
    """Read everything in an index, test every checksum, and encode a sample again."""
    with open_index(path, True, ray) as index:
        found = index.verify()
    say(f"{path} is sound. Checked: " + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in found.items()))


@command(_PANEL, "mihash compact photos")
def compact(path: Folder, ray: Ray = None) -> None:
    """Remove the vectors of deleted items from the disk."""
    with open_index(path, ray=ray) as index:
        before = index.stats()
        index.compact()
        after = index.stats()["bytes_on_disk"]
    removed = counted(before["deleted"], "deleted item")
    say(f"Removed {removed}: {size(before['bytes_on_disk'])} before, {size(after)} now.")


@command(_PANEL, "mihash backup photos /mnt/backup/photos-monday")
def backup(
    path: Folder,
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="A folder that is new or empty.", show_default=False)
    ],
    ray: Ray = None,
) -> None:
    """Write a copy of one moment to another folder, while the index goes on.

    Of an index on Ray, each shard writes its copy into that folder on its own node.
    """
    with open_index(path, True, ray) as index:
        index.backup(destination)
        say(f"{destination} is an index of {counted(len(index), 'item')}, as {path} is now.")


@command(_PANEL, "mihash export photos codes.parquet --metadata")
def export(
    path: Folder,
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="The file; one that is there is replaced.", show_default=False)
    ],
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="parquet or faiss.", show_default="by the name of the file"),
    ] = None,
    metadata: Annotated[bool, typer.Option("--metadata", help="With the metadata (Parquet).")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="With the vectors (Parquet).")] = False,
    ids: Annotated[
        str, typer.Option(help="What FAISS calls items: 'keys', which must be numbers, or 'rows', their places.")
    ] = "keys",
) -> None:
    """Write keys, codes and the mapping to a Parquet file, or the codes to a FAISS index.

    What is in them is told in docs/export.md.
    """
    from .. import validation
    from ..errors import InvalidInput
    from ..io.export import to_parquet, write_faiss

    chosen = file_format or destination.suffix.removeprefix(".").lower()
    validation.choice("format", chosen, ("parquet", "faiss"))
    if chosen == "faiss" and (metadata or vectors):
        raise InvalidInput("A FAISS index holds codes only: leave --metadata and --vectors out, or write Parquet.")
    with open_index(path, read_only=True) as index:
        if chosen == "parquet":
            n = to_parquet(index, destination, metadata=metadata, vectors=vectors)
        else:
            n = write_faiss(index, destination, ids=ids)
    say(f"{destination} holds the codes of {counted(n, 'item')} ({size(destination.stat().st_size)}).")


def _shown(name: str, value: Any) -> str:
    if name == "theta" and value is None:
        return "2 % of the quality"
    if name == "bytes_on_disk":
        return f"{value:,} ({size(value)})"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _row(decision: dict[str, Any]) -> tuple[str, ...]:
    measured = decision["kind"] == "trigger"
    seconds, items = decision["seconds"], decision["items"]
    return (
        str(decision["number"]),
        f"{decision['seen']:,}",
        f"{decision['current']:.4f}" if measured and decision["current"] is not None else decision["kind"],
        f"{decision['gain']:+.4f}" if measured and decision["gain"] is not None else "",
        decision["status"] or "refused",
        "" if items is None else f"{items:,}",
        "" if seconds is None else duration(seconds),
    )
