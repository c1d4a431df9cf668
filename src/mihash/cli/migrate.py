"""The command that replaces the vectors of an index by those of another embedding model."""

from typing import TYPE_CHECKING, Annotated

import typer

from .arguments import OPTIONS, AsJSON, Folder, Format, KeyColumn, NoHeader, VectorColumn, open_index, open_vectors
from .output import counted, json_line, rows_progress, say
from .program import command, with_options

if TYPE_CHECKING:
    from ..index.migration import Migration
    from ..index.online_index import OnlineIndex
    from ..io.readers import Source


@command("Maintenance", "mihash migrate photos new-embeddings.parquet --cut-over")
def migrate(
    path: Folder,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]", help="Files of the new vectors, with the keys of the index."),
    ] = None,
    vector: VectorColumn = None,
    key: KeyColumn = None,
    file_format: Format = None,
    headless: NoHeader = False,
    bits: Annotated[
        int | None, typer.Option(help="Code length of the new vectors.", show_default="that of the index")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Distance of new vectors: euclidean, cosine or ip.", show_default="that of the index"),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare the old and the new vectors on a sample.")
    ] = False,
    cut_over: Annotated[bool, typer.Option("--cut-over", help="Answer with the new vectors from now on.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --cut-over, leave out the items that have no new vector.")
    ] = False,
    roll_back: Annotated[
        bool, typer.Option("--roll-back", help="Return to the old vectors, as they were at the cut-over.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="After the cut-over, remove the old vectors from the disk.")
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Before the cut-over, remove the new vectors.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Replace the vectors of an index by those of another embedding model while the old ones answer.

    The new vectors, which may have another dimension, are stored beside the old ones by key. The command may be
    interrupted: run it again, and rows that are stored are skipped. Without files or options it shows the
    progress. The old vectors stay on the disk until --finish (docs/migrating.md).
    """
    from ..errors import InvalidInput
    from ..io.readers import Columns

    steps = [name for name, flag in [("--cut-over", cut_over), ("--roll-back", roll_back), ("--finish", finish),
                                      ("--cancel", cancel)] if flag]  # fmt: skip
    if len(steps) > 1:
        raise InvalidInput(f"Give only one of {' and '.join(steps)}.")
    if files and steps and not cut_over:
        raise InvalidInput(f"Leave the files out with {steps[0]}: it stores no vectors.")
    with open_index(path) as index:
        if files:
            migration = index.migrate(n_bits=bits, **({} if metric is None else {"metric": metric}))
            columns = Columns(vector, key, header=not headless, called=OPTIONS)
            for source in [open_vectors(file, columns, file_format) for file in files]:
                say(_fill(index, migration, source))
        found = index.migration
        if found is None:
            raise InvalidInput(f"{path} has no migration in progress: give a file of new vectors to begin one.")
        if compare:
            json_line(dict(found.evaluate()))
        if cut_over:
            found.cut_over(force)
        elif roll_back:
            found.roll_back()
        elif finish:
            found.finish()
        elif cancel:
            found.cancel()
        found = index.migration
        if found is None:
            kept = f"{counted(len(index), 'item')} of {index.n_features} features"
            say(f"{path} has {kept}; no migration is under way.")
        elif as_json:
            json_line(dict(found.progress()))
        else:
            say(with_options(found.progress().advice, ["migrate"]))


def _fill(index: "OnlineIndex", migration: "Migration", source: "Source") -> str:
    """Store the new vectors of a file that are not stored yet, and return what was done."""
    missing, n_stored, n_unknown = set(migration.missing()), 0, 0
    with rows_progress() as progress:
        for rows in source.rows():
            keys = [*range(rows.first, rows.first + len(rows.X))] if rows.keys is None else rows.keys
            wanted = [place for place, key in enumerate(keys) if key in missing]
            if len(wanted) < len(keys):
                n_unknown += int((~index.contains(keys)).sum())
            if wanted:
                n_stored += migration.add(rows.X[wanted], [keys[place] for place in wanted])
            progress("migrating", source.name, rows.first + len(rows.X), source.n_rows)
    unknown = f" {counted(n_unknown, 'row')} with keys that the index does not have: skipped." if n_unknown else ""
    return f"{source.name}: stored {counted(n_stored, 'new vector')}.{unknown}"
