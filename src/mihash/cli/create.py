"""Commands that create an index and add files to it."""

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import (
    OPTIONS,
    STDIN,
    Bits,
    Folder,
    Format,
    KeyColumn,
    NewFolder,
    NoHeader,
    Ray,
    Seed,
    VectorColumn,
    open_index,
    open_vectors,
)
from .output import counted, duration, note, rows_progress, say
from .program import command

if TYPE_CHECKING:
    from ..io.ingest import Added
    from ..store.window import Keep

_PANEL = "An index"
_MEMORY_MB = 256


@command(_PANEL, "mihash create photos --bits 64 --metric cosine")
def create(
    path: NewFolder,
    bits: Bits = 64,
    learner: Annotated[
        str, typer.Option(help="adapthash, hcoh, hmoh, lsh, mihash, momenthash, okh, osh, refit or sketchhash.")
    ] = "momenthash",
    metric: Annotated[str, typer.Option(help="The distance of vectors: euclidean or cosine.")] = "euclidean",
    theta: Annotated[
        float | None,
        typer.Option(
            help="Instead of a price, the gain in bits of mutual information that a rehash must bring; 'inf' for "
            "no rehash.",
            show_default="a price",
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(help="What a rehash costs, in perfectly answered queries.", show_default="20"),
    ] = None,
    interval: Annotated[int, typer.Option(help="Rows between two decisions.")] = 100,
    reservoir_size: Annotated[int, typer.Option(help="Rows in the sample that quality is measured on.")] = 2000,
    dtype: Annotated[
        str, typer.Option(help="How vectors are stored: float32, or float16 for half the space.")
    ] = "float32",
    keep: Annotated[
        str | None,
        typer.Option(
            help="Which items to keep: a number, or a span such as 30d of the field 'time', or FIELD=30d.",
            show_default="all",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--drift/--no-drift", help="Look for changes of the stream, and follow them.")
    ] = True,
    raw: Annotated[bool, typer.Option("--no-normalize", help="Do not centre and scale the features.")] = False,
    seed: Seed = 0,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter of the learner; may be repeated.")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Create an index on Ray with this many shards.", show_default="an index in PATH"),
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
    """Create an empty index: a folder, or with --shards the coordinator of an index on Ray (docs/scale.md)."""
    from ..errors import InvalidInput
    from ..index.online_index import OnlineIndex
    from ..index.options import Options
    from ..store.cluster_options import Cluster
    from ..trigger import PriceUpdate, TriggerUpdate

    if theta is not None and price is not None:
        raise InvalidInput("Give --theta or --price, not both: they belong to different triggers.")
    rule = PriceUpdate(20 if price is None else price, interval)
    if shards is None and (node or ray is not None):
        raise InvalidInput("--ray and --node are for an index on Ray: give its number of shards with --shards.")
    window = None if keep is None else _parse_keep(keep)
    made = Options(n_bits=bits, learner=learner, seed=seed, parameters=_parse_parameters(parameter or []))
    index = OnlineIndex.create(
        path,
        learner=made.make_learner(),
        trigger=rule if theta is None else TriggerUpdate(theta, interval),
        drift=watch,
        metric=metric,
        normalize=not raw,
        reservoir_size=reservoir_size,
        dtype=dtype,
        seed=seed,
        cluster=None if shards is None else Cluster(shards, _parse_nodes(node or []), ray),
    )
    with index:
        if window is not None:
            index.set_window(window)
    say(f"Made an index of {bits} bits with {learner} in {path}. Next: mihash add {path} FILE")


def _parse_keep(text: str) -> "Keep":
    """Return which items to keep from a number, a span, or FIELD=SPAN; raise where it is none of them."""
    from ..store.window import Window

    field, equals, span = text.partition("=")
    keep: Keep = {field: span} if equals else int(text) if text.isdecimal() else text
    Window.of(keep)
    return keep


def _parse_parameters(texts: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a learner from texts of the form NAME=VALUE."""
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


def _parse_nodes(texts: Sequence[str]) -> list[str] | dict[str, str] | None:
    """Return nodes, with folders if texts have the form NAME=FOLDER."""
    from ..errors import InvalidInput

    pairs = [text.partition("=") for text in texts]
    if len({equals for _, equals, _ in pairs}) > 1:
        raise InvalidInput("Give all --node a folder, as NAME=FOLDER, or none of them.")
    if any(equals for _, equals, _ in pairs):
        return {name: folder for name, _, folder in pairs}
    return list(texts) or None


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
    vector: VectorColumn = None,
    key: KeyColumn = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The class; rows of one class are neighbours."),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="A field to filter by and to return; may be repeated; 'all' for all others."
        ),
    ] = None,
    file_format: Format = None,
    unchecked: Annotated[
        bool,
        typer.Option(
            "--no-check",
            help="Do not check the files before the first row is added; rows before a bad one stay in the index.",
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
            help="Memory limit for one row of a .npy or .npz file, or for a Fortran-ordered array in a .npz file.",
        ),
    ] = _MEMORY_MB,
    headless: NoHeader = False,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The name under which the position in the file is stored; needed to resume a stream.",
            show_default="the path of the file",
        ),
    ] = None,
    ray: Ray = None,
) -> None:
    """Add files of vectors: .npy, .npz, Parquet, CSV, JSON lines or .mat.

    The command checks all files before it adds the first row: if one is wrong, nothing is added. It may be
    interrupted at any time, even by a kill; the same command resumes where it stopped. A file that has grown is
    added from its first new row on; a file that was added before is not added again.

    A file is refused, even with --no-check, if the vectors, keys, labels or metadata of rows that were added have
    changed: because the file has changed, or because other columns are named. It is also refused if rows of it
    were deleted from the index: choose with --deleted what to do with them. An updated item counts as added.
    Earlier versions of mihash stored only the vectors of a file; then labels and metadata are not compared the
    first time, and a note says so.

    The standard input is read once, so rows before a bad one stay. With --source it can be resumed: send the same
    rows again.

    In a .npz file, columns are arrays by name; for a .npy file, they are further .npy files, named by their paths.
    In CSV, a field that looks like a number is a number, and an empty field is null. In JSON lines, a row may lack
    metadata; on the standard input, a field that --metadata names must occur in the first 100 rows. A class that
    is a string is hashed to a number.
    """
    from ..io.ingest import ingest
    from ..io.readers import Columns

    begin = time.perf_counter()
    columns = Columns(vector, key, label, tuple(metadata or ()), header=not headless, called=OPTIONS)
    names = _names(files, source)
    with open_index(path, ray=ray) as index:
        n_before = len(index)
        opened = [open_vectors(file, columns, file_format, memory * 1_000_000) for file in files]
        for each in opened:
            if index.stats()["labels"] and not each.has_labels:
                note(f"{each.name}: without --label its rows are stored and found, but not learned from")
        try:
            with rows_progress() as progress:
                sources = list(zip(opened, names, strict=True))
                added = ingest(
                    index, sources, check=not unchecked, again=again, deleted=deleted, progress=progress
                )
                index.wait()
        except KeyboardInterrupt:
            raise _interrupted(len(index) - n_before, names, again) from None
        n_items, version = len(index), index.version
    for done in added:
        if done.note:
            note(done.note)
        say(_summary(done))
    took = time.perf_counter() - begin
    n_added = sum(each.added + each.restored for each in added)
    if n_added:
        rate = f"{duration(took)}, {n_added / took:,.0f} rows/s"
        say(f"{path} has {counted(n_items, 'item')}, version {version}; that took {rate}.")


def _names(files: list[str], source: str | None) -> list[str | None]:
    """Return the name under which the position in each file is stored; None for a stream without a name."""
    from ..errors import InvalidInput
    from ..io.ingest import name_of

    names = [None if file == STDIN else name_of(file) for file in files]
    for place, name in enumerate(names):
        if name in names[:place]:
            what = "The standard input" if name is None else files[place]
            raise InvalidInput(f"{what} comes twice; name each file once.")
    if source is None:
        return names
    if len(files) > 1:
        raise InvalidInput(f"--source names one file; got {len(files)} files.")
    return [f"source:{source}"]


def _summary(added: "Added") -> str:
    n_skipped = added.deleted - added.restored
    skipped = f" {counted(n_skipped, 'row')} deleted since, skipped." if n_skipped else ""
    if added.before and not added.added and not added.restored:
        every = f"{added.before:,} rows are in already" if skipped else f"all {added.before:,} rows are in already"
        return f"{added.source}: {every}; nothing was added (--again adds them).{skipped}"
    before = f", after {added.before:,} that were in already" if added.before else ""
    restored = f", {added.restored:,} of which had been deleted" if added.restored else ""
    return f"{added.source}: added {counted(added.added + added.restored, 'row')}{restored}{before}.{skipped}"


def _interrupted(n_added: int, names: list[str | None], again: bool) -> typer.Exit:
    how = "Run it without --again" if again else "Run the same command"
    resume = f"{how} to go on from there."
    if None in names:
        resume = "The standard input cannot be resumed: it was added without --source NAME."
    note(f"Stopped: this run added {counted(n_added, 'row')}. {resume}")
    return typer.Exit(130)
