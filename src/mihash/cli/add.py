"""Commands that add files of vectors to an index, or upsert them."""

from typing import TYPE_CHECKING, Annotated

import typer

from ..stopwatch import Stopwatch
from .arguments import (
    OPTIONS,
    STDIN,
    Folder,
    Format,
    KeyColumn,
    NoHeader,
    Ray,
    UpsertKeyColumn,
    VectorColumn,
    open_index,
    open_vectors,
)
from .output import counted, duration, note, rows_progress, say
from .program import command

if TYPE_CHECKING:
    from ..index.online_index import OnlineIndex
    from ..io.ingest import Added
    from ..io.readers import Columns, Source

_PANEL = "An index"
_MEMORY_MB = 256

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Files of vectors; - for the standard input.", show_default=False),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The class; rows of one class are neighbours. May be empty."),
]
MetadataColumns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="A field to filter by and to return; may be repeated; 'all' for all others."
    ),
]
LeftOut = Annotated[
    list[str] | None,
    typer.Option("--except", metavar="COLUMN", help="A column that --metadata all leaves out; may be repeated."),
]
Unchecked = Annotated[
    bool,
    typer.Option(
        "--no-check",
        help="Do not check the files before the first row is stored; rows before a bad one stay in the index.",
    ),
]
Memory = Annotated[
    int,
    typer.Option(
        metavar="MB",
        min=1,
        help="Memory limit for one row of a .npy or .npz file, or for a Fortran-ordered array in a .npz file.",
    ),
]


@command(
    _PANEL,
    "mihash add photos photos.parquet --vector embedding --metadata year --metadata colour",
)
def add(
    path: Folder,
    files: Files,
    vector: VectorColumn = None,
    key: KeyColumn = None,
    label: LabelColumn = None,
    metadata: MetadataColumns = None,
    left_out: LeftOut = None,
    file_format: Format = None,
    unchecked: Unchecked = False,
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
    memory: Memory = _MEMORY_MB,
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

    The command refuses a file, even with --no-check, if the vectors, keys, labels or metadata of rows that were
    added have changed, because the file has changed or other columns are named. It also refuses a file if rows of
    it were deleted from the index: choose with --deleted what to do with them. An item that was updated later
    still counts as added. An index that an earlier mihash made may have checksums of the vectors only: then labels
    and metadata are not compared the first time, and a note says so.

    The standard input can be read only once, so blocks of rows before a bad row stay in the index. With --source
    it can be resumed: send the same rows again.

    In a .npz file, columns are arrays by name; for a .npy file, they are further .npy files, named by their paths.
    In CSV, a field that looks like a number is a number, true and false are booleans (--where flag=true), and an
    empty field is null. In JSON lines, a row may lack
    metadata; on the standard input, a field that --metadata names must occur in the first 100 rows. In JSON
    lines and Parquet, camera.lens names the field lens of an object camera; fields of an object named metadata
    become fields of the item. Times are stored as ISO 8601 text; a time with a time zone is converted to UTC.

    A class is a whole number or a name. If the first rows of an index (up to 1,024) have numbers, later names are
    stored as numbers (hashes); earlier versions of mihash did that with all names.
    """
    from ..io.ingest import ingest
    from ..io.readers import Columns

    watch = Stopwatch()
    fields, aside = tuple(metadata or ()), tuple(left_out or ())
    columns = Columns(vector, key, label, fields, aside, header=not headless, called=OPTIONS)
    names = _names(files, source)
    with open_index(path, ray=ray) as index:
        n_before = len(index)
        opened = _opened(index, files, columns, file_format, memory)
        try:
            with rows_progress() as progress:
                sources = list(zip(opened, names, strict=True))
                added = ingest(
                    index, sources, check=not unchecked, again=again, deleted=deleted, progress=progress
                )
                index.wait(recall=False)
                took = watch.seconds
                index.wait()
        except KeyboardInterrupt:
            raise _interrupted(len(index) - n_before, names, again) from None
        n_items, version = len(index), index.version
    for done in added:
        if done.note:
            note(done.note)
        say(_summary(done))
    n_added = sum(each.added + each.restored for each in added)
    if n_added:
        rate = f"{duration(took)}, {counted(round(n_added / took), 'row')}/s"
        say(f"{path} has {counted(n_items, 'item')}, version {version}; that took {rate}.")


def _opened(
    index: "OnlineIndex", files: list[str], columns: "Columns", file_format: str | None, memory: int
) -> "list[Source]":
    """Open files, and say which of them have no labels where others had."""
    opened = [open_vectors(file, columns, file_format, memory * 1_000_000) for file in files]
    for each in opened:
        if index.stats()["labels"] and not each.has_labels:
            note(f"{each.name}: without --label its rows are stored and found, but not learned from")
    return opened


@command(_PANEL, "mihash upsert photos changed.parquet --key id --metadata all --except caption")
def upsert(
    path: Folder,
    files: Files,
    vector: VectorColumn = None,
    key: UpsertKeyColumn = None,
    label: LabelColumn = None,
    metadata: MetadataColumns = None,
    left_out: LeftOut = None,
    file_format: Format = None,
    unchecked: Unchecked = False,
    memory: Memory = _MEMORY_MB,
    headless: NoHeader = False,
    ray: Ray = None,
) -> None:
    """Store files of vectors under their keys; items with these keys are replaced.

    The command checks all files before it stores the first row. A key may occur once. Without --metadata, stored
    items keep theirs. The position in the files is not stored: the same command stores every row again.

    Files and columns are those of mihash add.
    """
    from ..io.ingest import upsert as upsert_sources
    from ..io.readers import Columns

    watch = Stopwatch()
    fields, aside = tuple(metadata or ()), tuple(left_out or ())
    columns = Columns(vector, key, label, fields, aside, header=not headless, called=OPTIONS)
    _names(files, None)
    with open_index(path, ray=ray) as index:
        opened = _opened(index, files, columns, file_format, memory)
        with rows_progress() as progress:
            stored = upsert_sources(index, opened, check=not unchecked, progress=progress)
            index.wait(recall=False)
            took = watch.seconds
            index.wait()
        n_items, version = len(index), index.version
    for each in stored:
        say(f"{each.source}: replaced {counted(each.replaced, 'item')}, added {counted(each.added, 'item')}.")
    say(f"{path} has {counted(n_items, 'item')}, version {version}; that took {duration(took)}.")


def _names(files: list[str], source: str | None) -> list[str | None]:
    """Return the name under which the position in each file is stored; None for a stream without a name."""
    from ..errors import InvalidInput
    from ..io.ingest import name_of

    names = [None if file == STDIN else name_of(file) for file in files]
    for place, name in enumerate(names):
        if name in names[:place]:
            what = "The standard input" if name is None else files[place]
            raise InvalidInput(f"{what} is given twice; name each file once.")
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
    resume = f"{how} to continue from there."
    if None in names:
        resume = "The standard input cannot be resumed: it was added without --source NAME."
    note(f"Stopped: this run added {counted(n_added, 'row')}. {resume}")
    return typer.Exit(130)
