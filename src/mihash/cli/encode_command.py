"""The command that encodes files with a mapping that is there already."""

from pathlib import Path
from typing import Annotated

import typer

from .arguments import Folder, Ray
from .output import counted, note, say
from .program import command


@command("An index", "mihash encode photos embeddings/ codes/ --ray auto")
def encode(
    path: Folder,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A folder of Parquet files.", show_default=False)
    ],
    target: Annotated[
        Path, typer.Argument(metavar="DEST", help="The folder that gets the codes.", show_default=False)
    ],
    vector: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The vector.", show_default="guessed")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The key; 'none' numbers the rows of a file.",
            show_default="key or id, where there is such a column",
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --ray, a node that takes part, by its address or a resource; may be repeated.",
            show_default="all nodes",
        ),
    ] = None,
    ray: Ray = None,
) -> None:
    """Encode a folder of Parquet files with the mapping of an index, each to a file of keys and codes.

    With --ray the nodes of a cluster share the work; both folders are meant as they are on each node, and a file
    is encoded where it is. What was interrupted goes on where it stopped: files that are done, with the same
    mapping and columns, are left alone. The files have the form of mihash export (docs/export.md).
    """
    from ..errors import InvalidInput
    from ..io.encode import encode_folder, mapping_in
    from ..io.readers import Columns
    from .arguments import check_index

    if node and ray is None:
        raise InvalidInput("--node is for the nodes of a Ray cluster: say with --ray which.")
    check_index(path)
    done = encode_folder(
        source, target, mapping_in(path), Columns(vector, key), ray=ray is not None, address=ray,
        nodes=node or None, progress=lambda name: note(f"Encoded {name}"),
    )  # fmt: skip
    before = f"; {counted(done.skipped, 'file')} were there already" if done.skipped else ""
    say(f"Encoded {counted(done.rows, 'row')} of {counted(done.files, 'file')}{before}.")
