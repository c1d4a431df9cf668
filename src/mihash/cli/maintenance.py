"""Commands that inspect an index, keep it in order, and copy or encode data with it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import OPTIONS, AsJSON, Folder, KeyColumn, Ray, check_index, open_index
from .output import counted, duration, json_line, note, rows_progress, say, size, table
from .program import command

if TYPE_CHECKING:
    from ..loop.hindsight import Hindsight

_PANEL = "Maintenance"
_SHARD_COLUMNS = ("shard", "node", "state", "version", "items", "lag", "restarts")
_CHECK_COLUMNS = ("version", "rows seen", "quality", "gain", "status", "items", "took")


@command(_PANEL, "mihash stats photos --json")
def stats(path: Folder, as_json: AsJSON = False, ray: Ray = None) -> None:
    """Show what is in an index, and its options."""
    with open_index(path, True, ray) as index:
        found, options = dict(index.stats()), index.options
    if as_json:
        json_line(found | {"options": json.loads(options.to_text())})
        return
    shards = found.pop("shards", None)
    found |= {"trigger": options.trigger, "drift watch": options.drift, "reservoir size": options.reservoir_size}
    settings = ", ".join(f"{name}={value}" for name, value in options.parameters.items())
    found |= {"seed": options.seed} | ({f"{options.learner} with": settings} if settings else {})
    rows = [(name.removeprefix("n_").replace("_", " "), _cell(name, value)) for name, value in found.items()]
    table({str(path): "left", "": "left"}, rows)
    if shards:
        lines = [
            [*(_cell(name, each[name]) for name in _SHARD_COLUMNS), size(each["bytes_on_disk"] or 0)]
            for each in shards
        ]
        table(
            {name: "left" if name in ("node", "state") else "right" for name in (*_SHARD_COLUMNS, "disk")}, lines
        )


@command(_PANEL, "mihash history photos --last 5")
def history(
    path: Folder,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every decision; by default accepted ones, alarms and prices.")
    ] = False,
    last: Annotated[int, typer.Option(min=0, help="How many of the newest to show; 0 for all.")] = 20,
    hindsight: Annotated[
        bool,
        typer.Option("--hindsight", help="Compare the rehashes with the best schedule in hindsight."),
    ] = False,
    as_json: AsJSON = False,
    ray: Ray = None,
) -> None:
    """Show when the trigger decided to rehash, why, what that cost, and when the stream has changed."""
    from ..loop.decisions import EVENTS

    with open_index(path, True, ray) as index:
        checks = index.history()
        if hindsight:
            _show_hindsight(index.hindsight(), as_json)
            return
    found = [dict(each) for each in checks if everything or each.accepted or each.kind in EVENTS]
    shown = found[-last:] if last else found
    if as_json:
        for each in shown:
            json_line(each)
    elif not found:
        note("There are no decisions yet: add rows first.")
    else:
        title = f"{len(shown)} of {len(found)}" if len(shown) < len(found) else None
        sides = {name: "left" if name == "status" else "right" for name in _CHECK_COLUMNS}
        table(sides, [_check_row(each) for each in shown], title)
        for each in shown:
            if each["kind"] == "alarm":
                say(f"{each['seen']:,}: {each['reason']}.")


@command(_PANEL, "mihash verify photos")
def verify(path: Folder, ray: Ray = None) -> None:
    """Read everything in an index, check every checksum, and encode a sample again."""
    with open_index(path, True, ray) as index:
        found = index.verify()
    checked = (counted(n, name.replace("_", " ").removesuffix("s")) for name, n in found.items())
    say(f"{path} is sound. Checked: {', '.join(checked)}")


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
        Path, typer.Argument(metavar="DEST", help="A new or empty folder.", show_default=False)
    ],
    ray: Ray = None,
) -> None:
    """Write a consistent copy to another folder, while the index stays in use.

    Each shard of an index on Ray writes its copy to that folder on its own node.
    """
    with open_index(path, True, ray) as index:
        index.backup(destination)
        say(f"{destination} is an index of {counted(len(index), 'item')}, a copy of {path}.")


@command(_PANEL, "mihash export photos codes.parquet --metadata")
def export(
    path: Folder,
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="The file; an existing one is replaced.", show_default=False)
    ],
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="parquet or faiss.", show_default="by the name of the file"),
    ] = None,
    metadata: Annotated[bool, typer.Option("--metadata", help="With the metadata (Parquet).")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="With the vectors (Parquet).")] = False,
    ids: Annotated[
        str,
        typer.Option(help="The ids of a FAISS index: 'keys', which must be numbers, or 'rows', numbered from 0."),
    ] = "keys",
    ray: Ray = None,
) -> None:
    """Write keys, codes and the mapping to a Parquet file, or the codes to a FAISS index (docs/export.md)."""
    from .. import validation
    from ..errors import InvalidInput
    from ..io.export import to_parquet, write_faiss

    chosen = file_format or destination.suffix.removeprefix(".").lower()
    validation.choice("file_format", chosen, ("parquet", "faiss"))
    if chosen == "faiss" and (metadata or vectors):
        raise InvalidInput("A FAISS index holds codes only: leave --metadata and --vectors out, or write Parquet.")
    with open_index(path, True, ray) as index:
        if chosen == "parquet":
            n = to_parquet(index, destination, metadata=metadata, vectors=vectors)
        else:
            n = write_faiss(index, destination, ids=ids)
    say(f"{destination} holds the codes of {counted(n, 'item')} ({size(destination.stat().st_size)}).")


@command(_PANEL, "mihash encode photos embeddings/ codes/ --ray auto")
def encode(
    path: Folder,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A folder of Parquet files.", show_default=False)
    ],
    target: Annotated[Path, typer.Argument(metavar="DEST", help="The folder for the codes.", show_default=False)],
    vector: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The vector.", show_default="guessed")
    ] = None,
    key: KeyColumn = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --ray, a node to use, by its address or a resource; may be repeated.",
            show_default="all nodes",
        ),
    ] = None,
    ray: Ray = None,
) -> None:
    """Encode a folder of Parquet files with the mapping of an index; each file becomes a file of keys and codes.

    With --ray the nodes of a cluster share the work: each node has both folders, and encodes the files that it
    has. After an interruption, run the same command: files that are done, with the same mapping and columns, are
    skipped. The format is that of mihash export (docs/export.md).
    """
    from ..errors import InvalidInput
    from ..io.encode import encode_folder, mapping_in
    from ..io.readers import Columns

    if node and ray is None:
        raise InvalidInput("--node is for the nodes of a Ray cluster: name the cluster with --ray.")
    check_index(path)
    done = encode_folder(
        source, target, mapping_in(path), Columns(vector, key, called=OPTIONS), ray=ray is not None, address=ray,
        nodes=node or None, progress=lambda name: note(f"Encoded {name}"),
    )  # fmt: skip
    were = "was" if done.skipped == 1 else "were"
    before = f"; {counted(done.skipped, 'file')} {were} there already" if done.skipped else ""
    say(f"Encoded {counted(done.rows, 'row')} of {counted(done.files, 'file')}{before}.")


@command(_PANEL, "mihash features photos/ photos.npz && mihash add index photos.npz")
def features(
    images: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES", help="A folder of images, or a .npz with an array `images`.", show_default=False
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The .npz file to write.", show_default=False)],
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="gist, onnx, torchvision:NAME or timm:NAME.")
    ] = "gist",
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The network, or its weights. Nothing is downloaded.", show_default=False
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(metavar="PIXELS", help="Width and height.", show_default="128 for gist, else 224"),
    ] = None,
    components: Annotated[
        int | None, typer.Option(metavar="N", help="Keep N principal components.", show_default="all features")
    ] = None,
    basis: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of the principal directions: read if it exists, otherwise written.",
            show_default=False,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where features are kept for the next run.", show_default="OUT.cache"),
    ] = None,
    skip_unreadable: Annotated[bool, typer.Option(help="Skip files that are not images.")] = False,
) -> None:
    """Turn images into vectors: a file that mihash add and mihash reproduce --dataset read.

    Keys are the paths of the images. If every image is in a subfolder of IMAGES, the name of the subfolder is its
    label (mihash add --label labels). After an interruption, run the same command: only what is new is computed.
    """  # fmt: skip
    from ..io.images import extract_features

    kept = Path(f"{target}.cache") if cache is None else cache
    with rows_progress() as progress:
        made = extract_features(
            images, target, model=model, weights=weights, size=size, n_components=components, basis=basis,
            cache=kept, skip_unreadable=skip_unreadable,
            progress=lambda done, total: progress("computing", str(images), done, total),
        )  # fmt: skip
    known = f"; {made.n_known:,} of them were computed before" if made.n_known else ""
    say(f"{target} holds {counted(made.n_images, 'image')} of {made.n_features:,} features{known}.")
    if made.left_out:
        say(f"Left out, because they are not images: {', '.join(made.left_out)}")


def _cell(name: str, value: Any) -> str:
    if name == "theta" and value is None:
        return "-"
    if name == "bytes_on_disk":
        return f"{value:,} ({size(value)})"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _show_hindsight(found: "Hindsight | None", as_json: bool) -> None:
    if as_json:
        json_line({} if found is None else dict(found))
    elif found is None:
        note("No decision has measured a gain yet: this needs more rows, and a learner that changes its mapping.")
    elif found.cost <= 0:
        say(
            f"The tables missed nothing: over {counted(found.checks, 'check')}, newer mappings gave no more "
            "information about the new rows. Other rehashes would have gained nothing."
        )
    else:
        say(
            f"The index made {counted(found.rehashes, 'rehash')} ({found.cost - found.missed:,.0f} queries) and "
            f"missed {found.missed:,.0f} queries: cost {found.cost:,.0f}. In hindsight the best schedule makes "
            f"{counted(found.best_rehashes, 'rehash')} and costs {found.best_cost:,.0f}: {found.sentence}"
        )


def _check_row(check: dict[str, Any]) -> tuple[str, ...]:
    measured = check["kind"] == "trigger"
    seconds, items = check["seconds"], check["items"]
    return (
        str(check["number"]),
        f"{check['seen']:,}",
        f"{check['current']:.4f}"
        if measured and check["current"] is not None
        else ""
        if measured
        else check["kind"],
        f"{check['gain']:+.4f}" if measured and check["gain"] is not None else "",
        check["status"] or (check["kind"] if check["kind"] in ("alarm", "price") else "refused"),
        "" if items is None else f"{items:,}",
        "" if seconds is None else duration(seconds),
    )
