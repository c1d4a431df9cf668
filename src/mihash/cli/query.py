"""The command that asks an index."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import AsJSON, Folder, NoHeader, Ray, as_filter, find_keys, open_index
from .output import json_line, json_text, note, table
from .program import command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..index.online_index import OnlineIndex
    from ..io.readers import Columns, Source
    from ..store.keys import Key

_PANEL = "An index"
_STDIN = "-"

Queries = Iterator[tuple[list[Any], "NDArray[np.float32]"]]


@command(_PANEL, "mihash search photos --key 17 -k 5 --rescore 100 --metadata")
def search(
    path: Folder,
    query: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A file of vectors; - for the standard input.")
    ] = None,
    vector: Annotated[str | None, typer.Option(metavar="NUMBERS", help="One vector, as '0.1, 0.2, ...'.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="A stored item, whose neighbours are found.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many neighbours.")] = 10,
    where: Annotated[
        str | None, typer.Option(metavar="JSON", help="Only items whose metadata matches (docs/index.md).")
    ] = None,
    rescore: Annotated[
        int, typer.Option(help="Nearest codes to order by the distance of their vectors; 0 for none.")
    ] = 0,
    radius: Annotated[
        int | None, typer.Option(help="In place of -k, all items at most so many bits away.", show_default=False)
    ] = None,
    metadata: Annotated[bool, typer.Option("--metadata", help="Show the metadata of what was found.")] = False,
    as_json: AsJSON = False,
    column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The vector in FILE.", show_default="guessed, and told")
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="npy, npz, parquet, csv or jsonl.", show_default="by FILE's name; csv for -"
        ),
    ] = None,
    headless: NoHeader = False,
    ray: Ray = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Of an index on Ray, answer without shards that are away, and say so."),
    ] = False,
) -> None:
    """Find the nearest items to vectors from a file, to one vector or to a stored item.

    The distance is the number of bits in which codes differ; with --rescore, that of the vectors themselves.
    Queries from a file are called by its keys, or by their numbers from 0.
    """
    from .. import validation
    from ..io.readers import Columns

    validation.integer("k", k, minimum=1)
    columns = Columns(column, option="--column", header=not headless)
    with open_index(path, True, ray, partial or None) as index:
        own = None if key is None else find_keys(index, [key])[0]
        queries = _queries(index, query, vector, own, columns, file_format)
        answers = _answers(index, queries, own, k, as_filter(where), rescore, radius, metadata)
        if as_json:
            for answer in answers:
                json_line(answer)
        else:
            _table(list(answers), metadata)


def _queries(
    index: "OnlineIndex",
    query: str | None,
    vector: str | None,
    own: "Key | None",
    columns: "Columns",
    file_format: str | None,
) -> Queries:
    """Yield queries with what they are called, a chunk at a time: their keys in a file, or their numbers."""
    import numpy as np

    from ..errors import InvalidInput
    from ..io.readers.csv_files import parse_vector

    if sum(given is not None for given in (query, vector, own)) != 1:
        raise InvalidInput("Ask with one of these: a FILE of vectors, --vector NUMBERS, or --key KEY.")
    if own is not None:
        yield [own], index.get(own).vector[None]
    elif vector is not None:
        try:
            numbers = parse_vector(vector)
        except ValueError as error:
            raise InvalidInput(f"--vector must be numbers with commas between them; {error}.") from error
        yield [0], _fitting(index, "--vector", np.array([numbers], dtype=np.float32))
    else:
        source = _source(str(query), columns, file_format)
        for rows in source.rows():
            names = [*range(rows.first, rows.first + len(rows.X))] if rows.keys is None else rows.keys
            yield names, _fitting(index, source.name, rows.X)


def _source(query: str, columns: "Columns", file_format: str | None) -> "Source":
    from ..io.readers import open_source, open_stream

    if query == _STDIN:
        return open_stream(sys.stdin.buffer, columns, file_format or "csv")
    source = open_source(query, columns, file_format)
    if source.note:
        note(f"{source.name}: {source.note}")
    return source


def _fitting(index: "OnlineIndex", name: str, X: "NDArray[np.float32]") -> "NDArray[np.float32]":
    from ..errors import InvalidInput

    width = index.n_features
    if width is not None and X.shape[1] != width:
        raise InvalidInput(
            f"{name} has a vector of {X.shape[1]} numbers, and the index has vectors of {width}. In a file, say "
            "with --column which columns are the vector."
        )
    return X


def _answers(
    index: "OnlineIndex",
    queries: Queries,
    own: "Key | None",
    k: int,
    where: Any,
    rescore: int,
    radius: int | None,
    metadata: bool,
) -> Iterator[dict[str, Any]]:
    """Yield an answer for each query; a stored item is not its own neighbour."""
    for names, Q in queries:
        hits = index.search(Q, k if own is None else k + 1, where=where, rescore=rescore, radius=radius)
        for name, keys, distances in zip(names, hits.keys, hits.distances, strict=True):
            found = [pair for pair in zip(keys.tolist(), distances.tolist(), strict=True) if pair[0] != own]
            found = found[: k if radius is None else None]
            answer = {
                "query": name,
                "keys": [key for key, _ in found],
                "distances": [distance for _, distance in found],
                "version": hits.version,
            } | ({"missing_shards": list(hits.missing)} if hits.missing else {})
            yield answer | ({"metadata": [index.get(key).metadata for key, _ in found]} if metadata else {})


def _table(answers: list[dict[str, Any]], metadata: bool) -> None:
    several = len(answers) > 1
    columns = ["query"] * several + ["key", "distance"] + ["metadata"] * metadata
    rows = []
    for answer in answers:
        for place, key in enumerate(answer["keys"]):
            row = [str(answer["query"])] * several + [str(key), f"{answer['distances'][place]:.4g}"]
            rows.append(row + ([json_text(answer["metadata"][place])] if metadata else []))
    missing = sorted({shard for answer in answers for shard in answer.get("missing_shards", ())})
    if missing:
        note(f"This is not all: shards {', '.join(map(str, missing))} are away.")
    if rows:
        justified = {name: "right" if name == "distance" else "left" for name in columns}
        table(justified, rows, f"version {answers[0]['version']}")
    else:
        note("Nothing was found.")
