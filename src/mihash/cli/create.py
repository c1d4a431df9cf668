"""Commands that make an index and fill it."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .arguments import Folder, NoHeader, Ray, as_nodes, as_parameters, open_index
from .output import counted, duration, note, rows_progress, say
from .program import command

if TYPE_CHECKING:
    from ..index.online_index import OnlineIndex
    from ..io.ingest import Added
    from ..io.readers import Columns, Source

_PANEL = "An index"
_STDIN = "-"
_MEMORY_MB = 256


@command(_PANEL, "mihash create photos --bits 64 --metric cosine")
def create(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A folder that is new or empty.", show_default=False)
    ],
    bits: Annotated[int, typer.Option(help="Code length.")] = 64,
    learner: Annotated[
        str, typer.Option(help="adapthash, hcoh, hmoh, lsh, mihash, okh, osh, refit or sketchhash.")
    ] = "mihash",
    metric: Annotated[str, typer.Option(help="Which vectors are near: euclidean or cosine.")] = "euclidean",
    theta: Annotated[
        float | None,
        typer.Option(
            help="Gain in bits of information that a rehash must bring; 'inf' for no rehash.",
            show_default="2 % of the quality that the table has",
        ),
    ] = None,
    interval: Annotated[int, typer.Option(help="Rows between two decisions.")] = 100,
    reservoir_size: Annotated[int, typer.Option(help="Rows that quality is measured on.")] = 2000,
    dtype: Annotated[
        str, typer.Option(help="How vectors are stored: float32, or float16 for half the space.")
    ] = "float32",
    raw: Annotated[
        bool, typer.Option("--no-normalize", help="Take the features as they are, neither centred nor scaled.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seeds everything random.")] = 0,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An argument of the learner; may be repeated.")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="On the nodes of a Ray cluster, in so many shards.", show_default="an index in PATH"),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --shards, a node by its address or a resource, or as NAME=FOLDER; may be repeated.",
            show_default="all nodes, and PATH on each",
        ),
    ] = None,
    ray: Ray = None,
) -> None:
    """Make an empty index: a folder, or with --shards the coordinator of an index on Ray (docs/scale.md)."""
    from ..errors import InvalidInput
    from ..index.online_index import OnlineIndex
    from ..index.options import Options, default_trigger
    from ..store.cluster_options import Cluster
    from ..trigger import TriggerUpdate

    if shards is None and (node or ray is not None):
        raise InvalidInput("--ray and --node are for an index on Ray: say with --shards how many shards it has.")
    made = Options(n_bits=bits, learner=learner, seed=seed, parameters=as_parameters(parameter or []))
    OnlineIndex.create(
        path,
        learner=made.make_learner(),
        trigger=default_trigger(interval) if theta is None else TriggerUpdate(theta, interval),
        metric=metric,
        normalize=not raw,
        reservoir_size=reservoir_size,
        dtype=dtype,
        seed=seed,
        cluster=None if shards is None else Cluster(shards, as_nodes(node or []), ray),
    ).close()
    say(f"Made an index of {bits} bits with {learner} in {path}. Next: mihash add {path} FILE")


@command(
    _PANEL,
    "mihash add photos photos.parquet --vector embedding --metadata year --metadata colour",
)
def add(
    path: Folder,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files of vectors; - for the standard input.", show_default=False),
    ],
    vector: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The vector: a column of lists, or columns of numbers as 'PREFIX*' or FIRST:LAST.",
            show_default="guessed, and told",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The key; 'none' numbers the rows.",
            show_default="key or id, where there is such a column",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The class: rows of one class are neighbours to learn from."),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="To filter by and to get back; may be repeated; 'all' for all others."
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="npy, npz, parquet, csv or jsonl.", show_default="by the name of the file"),
    ] = None,
    unchecked: Annotated[
        bool,
        typer.Option(
            "--no-check",
            help="Do not read the files through before the first row is added; rows before a bad one will be in.",
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Add from the first row on, even if these files were added before.")
    ] = False,
    deleted: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="Rows of these files that were deleted from the index: 'add' them again, or 'skip' them.",
            show_default="refuse the file",
        ),
    ] = None,
    memory: Annotated[
        int,
        typer.Option(
            metavar="MB",
            min=1,
            help="How much one row of a .npy or .npz file may take, or an array in Fortran order in a .npz file.",
        ),
    ] = _MEMORY_MB,
    headless: NoHeader = False,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Remember under this name how far the file was read; lets a stream be resumed.",
            show_default="the path of the file",
        ),
    ] = None,
    ray: Ray = None,
) -> None:
    """Add files of vectors: .npy, .npz, Parquet, CSV or JSON lines.

    Files are read through before the first row is added: all of them are right, or nothing is added. It may be
    interrupted at any time, even by a kill; the same command goes on where it stopped. A file that has grown is
    added from its first new row on; one that is in already is not added again.

    A file is refused, even with --no-check, if its rows that are in have other vectors, keys, labels or metadata
    now: the file has changed, or other columns are named. It is refused too if rows of it were deleted from the
    index: say with --deleted what to do with them. An updated item counts as in. An earlier mihash remembered
    only the vectors of a file; then labels and metadata are not compared the first time, and a note says so.

    The standard input is read once, so rows before a bad one stay; it is resumed if it has a --source, by sending
    the same rows again.

    In a .npz file columns are arrays by name; beside a .npy file they are further .npy files, named by their
    paths. In CSV a number is a number and an empty field nothing. In JSON lines a row may lack metadata; on
    the standard input a field that --metadata names must be among those of the first 100 rows. A class that is a
    name gets a number made of it.
    """
    from ..io.ingest import ingest
    from ..io.readers import Columns

    begin = time.perf_counter()
    columns = Columns(vector, key, label, tuple(metadata or ()), header=not headless)
    _check_once(files)
    with open_index(path, ray=ray) as index:
        n_before = len(index)
        sources = [
            (_opened(file, columns, file_format, memory * 1_000_000), _name(file, files, source)) for file in files
        ]
        _tell_notes(index, [each for each, _ in sources])
        try:
            with rows_progress() as progress:
                added = ingest(
                    index, sources, check=not unchecked, again=again, deleted=deleted, progress=progress
                )
                index.wait()
        except KeyboardInterrupt:
            raise _stopped(len(index) - n_before, [name for _, name in sources], again) from None
        n_items, version = len(index), index.version
    for each in added:
        if each.note:
            note(each.note)
        say(_told(each))
    took = time.perf_counter() - begin
    n_added = sum(each.added + each.restored for each in added)
    if n_added:
        rate = f"{duration(took)}, {n_added / took:,.0f} rows/s"
        say(f"{path} has {counted(n_items, 'item')}, version {version}; that took {rate}.")


def _opened(file: str, columns: "Columns", file_format: str | None, held_bytes: int) -> "Source":
    from ..io.readers import open_source, open_stream

    return (
        open_stream(sys.stdin.buffer, columns, file_format)
        if file == _STDIN
        else open_source(file, columns, file_format, held_bytes)
    )


def _check_once(files: list[str]) -> None:
    from ..errors import InvalidInput
    from ..io.ingest import name_of

    names = [file if file == _STDIN else name_of(file) for file in files]
    for place, name in enumerate(names):
        if name in names[:place]:
            what = "The standard input" if name == _STDIN else files[place]
            raise InvalidInput(f"{what} comes twice; name each file once.")


def _name(file: str, files: list[str], source: str | None) -> str | None:
    """Return under which name the position in a file is kept; a stream that has no name has no position."""
    from ..errors import InvalidInput
    from ..io.ingest import name_of

    if source is None:
        return None if file == _STDIN else name_of(file)
    if len(files) > 1:
        raise InvalidInput(f"--source names one file; got {len(files)} files.")
    return f"source:{source}"


def _tell_notes(index: "OnlineIndex", sources: "list[Source]") -> None:
    for source in sources:
        if source.note:
            note(f"{source.name}: {source.note}")
        if index.stats()["labels"] and not source.has_labels:
            note(f"{source.name}: without --label its rows are stored and found, but not learned from")


def _told(added: "Added") -> str:
    n_skipped = added.deleted - added.restored
    skipped = f" {counted(n_skipped, 'row')} deleted since, skipped." if n_skipped else ""
    if added.before and not added.added and not added.restored:
        every = f"{added.before:,} rows are in already" if skipped else f"all {added.before:,} rows are in already"
        return f"{added.source}: {every}; nothing was added (--again adds them).{skipped}"
    went_on = f", after {added.before:,} that were in already" if added.before else ""
    restored = f", {added.restored:,} of which had been deleted" if added.restored else ""
    return f"{added.source}: added {counted(added.added + added.restored, 'row')}{restored}{went_on}.{skipped}"


def _stopped(n_added: int, names: list[str | None], again: bool) -> typer.Exit:
    how = "Run it without --again" if again else "Run the same command"
    go_on = f"{how} to go on from there."
    if None in names:
        go_on = "The standard input cannot be resumed: it was added without --source NAME."
    note(f"Stopped: this run added {counted(n_added, 'row')}. {go_on}")
    return typer.Exit(130)
