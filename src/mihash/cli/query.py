"""Commands that search an index, and show, update or delete items."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import (
    OPTIONS,
    STDIN,
    AsJSON,
    Folder,
    Keys,
    KeysFrom,
    NoHeader,
    Partial,
    Ray,
    Where,
    find_keys,
    given_keys,
    open_index,
    open_vectors,
    parse_where,
    refuse,
)
from .output import counted, json_line, json_text, note, say, table
from .program import command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..index.online_index import OnlineIndex
    from ..store.keys import Key

_PANEL = "An index"
_PAGE = 1000  # items that are read at a time

Queries = Iterator[tuple[list[Any], "NDArray[np.float32] | None"]]


@command(_PANEL, "mihash search photos --key 17 -k 5 --rescore 100 --metadata")
def search(
    context: typer.Context,
    path: Folder,
    query: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A file of vectors; - for the standard input.")
    ] = None,
    vector: Annotated[str | None, typer.Option(metavar="NUMBERS", help="One vector, as '0.1, 0.2, ...'.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="A stored item: find its neighbours.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many items to return for each query.")] = 10,
    where: Where = None,
    rescore: Annotated[
        int | None,
        typer.Option(
            help="How many candidates to rank by their vectors; 0 for none.",
            show_default="as many as reach --recall",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            help="The share of the true nearest items to find, instead of --rescore.", show_default="0.95"
        ),
    ] = None,
    radius: Annotated[
        int | None,
        typer.Option(help="Instead of -k: return all items within this Hamming distance.", show_default=False),
    ] = None,
    margins: Annotated[
        bool | None,
        typer.Option(
            "--margins/--no-margins",
            help="Rank the nearest codes by the query's margins, or by Hamming distance.",
            show_default="by margins, if the mapping has them",
        ),
    ] = None,
    metadata: Annotated[bool, typer.Option("--metadata", help="Show the metadata of the items.")] = False,
    as_json: AsJSON = False,
    column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The vector in FILE.", show_default="guessed, and printed"),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="npy, npz, parquet, csv, jsonl or mat.", show_default="by FILE's name; csv for -"
        ),
    ] = None,
    headless: NoHeader = False,
    ray: Ray = None,
    partial: Partial = False,
) -> None:
    """Find the nearest items to vectors from a file, to one vector or to a stored item.

    Distances are those of the vectors. With --rescore 0 they are sums of the query's margins over the bits that
    differ, or estimates made from them. With --radius, or --rescore 0 --no-margins, they are Hamming distances of
    codes. Queries from a file are named by its keys, or numbered from 0.
    """
    from ..io.readers import Columns

    if query is None:
        of_files = ("column", "file_format", "headless")
        refuse(context, of_files, "describes a file of queries: give a FILE, or leave it out.")
    columns = Columns(column, header=not headless, called={**OPTIONS, "vector": "--column"})
    if query == STDIN and file_format is None:
        file_format = "csv"
    options: dict[str, Any] = {"where": parse_where(where), "rescore": rescore, "radius": radius}
    options |= {"margins": margins, "recall": recall}
    with open_index(path, True, ray, partial or None) as index:
        own = None if key is None else find_keys(index, [key])[0]
        queries = _queries(index, query, vector, own, columns, file_format)
        answers = _answers(index, queries, own, k, metadata, **options)
        if as_json:
            for answer in answers:
                json_line(answer)
        else:
            _show(list(answers), metadata)


def _queries(
    index: "OnlineIndex", query: str | None, vector: str | None, own: "Key | None", columns: Any, file_format: Any
) -> Queries:
    """Yield queries with their names, a chunk at a time."""
    import numpy as np

    from ..errors import InvalidInput
    from ..io.readers.csv_files import parse_vector

    if sum(given is not None for given in (query, vector, own)) != 1:
        raise InvalidInput("Search with one of these: a FILE of vectors, --vector NUMBERS, or --key KEY.")
    if own is not None:
        yield [own], None
    elif vector is not None:
        try:
            numbers = parse_vector(vector)
        except ValueError as error:
            raise InvalidInput(f"--vector must be numbers with commas between them; {error}.") from error
        if not np.isfinite(numbers).all():
            raise InvalidInput(f"--vector must be finite numbers; got {vector:.80}.")
        try:
            with np.errstate(over="raise"):
                Q = np.array([numbers], dtype=np.float32)
        except FloatingPointError as error:
            raise InvalidInput(
                f"--vector must fit into float32, which holds at most 3.4e38; got {vector:.80}."
            ) from error
        yield [0], _check_width(index, Q, "--vector has")
    else:
        source = open_vectors(str(query), columns, file_format)
        what, advice = f"{source.name} has vectors of", " Name the columns of the vector with --column."
        for rows in source.rows():
            names = [*range(rows.first, rows.first + len(rows.X))] if rows.keys is None else rows.keys
            yield names, _check_width(index, rows.X, what, advice)


def _check_width(
    index: "OnlineIndex", X: "NDArray[np.float32]", what: str, advice: str = ""
) -> "NDArray[np.float32]":
    from ..errors import InvalidInput

    width = index.n_features
    if width is not None and X.shape[1] != width:
        numbers = counted(X.shape[1], "number")
        raise InvalidInput(f"{what} {numbers}; vectors of this index have {width}.{advice}")
    return X


def _answers(
    index: "OnlineIndex", queries: Queries, key: "Key | None", k: int, metadata: bool, **options: Any
) -> Iterator[dict[str, Any]]:
    """Yield the answer to each query; a stored item is not among its own neighbours."""
    for names, Q in queries:
        hits = index.search(Q, k, key=key, **options)
        results = zip(hits.keys, hits.distances, strict=True) if key is None else [(hits.keys, hits.distances)]
        for name, (keys, distances) in zip(names, results, strict=True):
            answer = {
                "query": name,
                "keys": keys.tolist(),
                "distances": distances.tolist(),
                "version": hits.version,
                "measure": hits.measure,
            }
            if hits.missing:
                answer["missing_shards"] = list(hits.missing)
            if metadata:
                answer["metadata"] = index.metadata(answer["keys"])
            yield answer


def _show(answers: list[dict[str, Any]], metadata: bool) -> None:
    several = len(answers) > 1
    columns = ["query"] * several + ["key", "distance"] + ["metadata"] * metadata
    rows = []
    for answer in answers:
        for place, key in enumerate(answer["keys"]):
            row = [str(answer["query"])] * several + [str(key), f"{answer['distances'][place]:.4g}"]
            rows.append(row + ([json_text(answer["metadata"][place])] if metadata else []))
    missing = sorted({shard for answer in answers for shard in answer.get("missing_shards", ())})
    if missing:
        note(f"The result is partial: shards {', '.join(map(str, missing))} are missing.")
    if rows:
        justified = {name: "right" if name == "distance" else "left" for name in columns}
        table(justified, rows, f"version {answers[0]['version']}, {answers[0]['measure']} distances")
    else:
        note("Nothing was found.")


@command(_PANEL, "mihash get photos --where colour=red --limit 5 --json")
def get(
    path: Folder,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    where: Where = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="With --where: show at most this many items.", show_default="all")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="KEY", help="With --where: show only items younger than this one.")
    ] = None,
    only_keys: Annotated[
        bool, typer.Option("--keys", help="With --where: print only the keys, one per line, as --keys-from reads.")
    ] = False,
    as_json: AsJSON = False,
    ray: Ray = None,
) -> None:
    """Show stored items: vector, label and metadata. With --where, show all that match, oldest first.

    A key that looks like a number is looked up as a number first, then as a string; in double quotes, '"17"', it
    is always a string. Put -- before a key that begins with a dash.
    """
    from ..errors import InvalidInput

    if not where and (limit is not None or after is not None or only_keys):
        raise InvalidInput("--limit, --after and --keys need a filter with --where.")
    texts = _chosen(keys, keys_from, where)
    rows: list[tuple[str, str]] = []
    with open_index(path, True, ray) as index:
        if texts is None:
            younger = None if after is None else find_keys(index, [after])[0]
            names = index.keys(parse_where(where), younger, limit)
        else:
            names = find_keys(index, texts)
        if only_keys:
            _show_keys(names, as_json)
            return
        for found in _stored(index, names, skip_deleted=texts is None):
            if as_json:
                json_line(found)
            else:
                rows += _rows_of(found)
    if rows:
        table({"": "left", "item": "left"}, rows)
    elif not names:
        note("Nothing was found.")


def _stored(index: "OnlineIndex", keys: "list[Key]", skip_deleted: bool) -> Iterator[dict[str, Any]]:
    """Yield stored items as dictionaries; another process may delete some of them meanwhile."""
    for start in range(0, len(keys), _PAGE):
        part = keys[start : start + _PAGE]
        if skip_deleted:
            part = [key for key, there in zip(part, index.contains(part), strict=True) if there]
        for item in index.get(part):
            label = item.label.tolist() if hasattr(item.label, "tolist") else item.label
            yield {"key": item.key, "label": label, "metadata": item.metadata, "vector": item.vector.tolist()}


def _rows_of(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of a table that show an item."""
    label, metadata, vector = item["label"], item["metadata"], item["vector"]
    numbers = ", ".join(f"{number:.4g}" for number in vector[:5])
    rows = [("key", str(item["key"]))]
    rows += [] if label is None else [("label", str(label))]
    rows += [] if metadata is None else [("metadata", json_text(metadata))]
    return [*rows, ("vector", f"{len(vector)} numbers: {numbers}{', ...' if len(vector) > 5 else ''}")]


def _show_keys(keys: "list[Key]", as_json: bool) -> None:
    from ..store.keys import key_text

    for key in keys:
        if as_json:
            json_line({"key": key})
        else:
            say(key_text(key))
    if not keys:
        note("Nothing was found.")


@command(_PANEL, """mihash update photos 17 18 --metadata '{"colour": "red"}'""")
def update(
    path: Folder,
    metadata: Annotated[
        str,
        typer.Option(metavar="JSON", help="The new metadata, a JSON object; null for none.", show_default=False),
    ],
    keys: Keys = None,
    where: Where = None,
    keys_from: KeysFrom = None,
    ray: Ray = None,
) -> None:
    """Replace the metadata of items, by key or with --where of all that match; vectors and labels stay.

    The new metadata replaces all fields of the old; fields that it does not name are gone. If a key is unknown,
    nothing is changed. To replace vectors, use mihash upsert.

    A key that looks like a number is looked up as a number first, then as a string; in double quotes, '"17"', it
    is always a string. Put -- before a key that begins with a dash.
    """
    new, texts = _parse_metadata(metadata), _chosen(keys, keys_from, where)
    with open_index(path, ray=ray) as index:
        names = index.keys(parse_where(where)) if texts is None else find_keys(index, texts)
        names = list(dict.fromkeys(names))
        if names:
            index.update(names, metadata=[new] * len(names))
        say(f"Replaced the metadata of {counted(len(names), 'item')}.")


def _parse_metadata(text: str) -> dict[str, Any] | None:
    """Return the metadata that an option holds."""
    from ..errors import InvalidInput

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = text
    if not isinstance(found, dict | None):
        raise InvalidInput(
            f"""--metadata must be a JSON object, such as '{{"colour": "red"}}'; got {text!r:.80}."""
        )
    return found


@command(_PANEL, "mihash delete photos 17 18 holiday.jpg")
def delete(
    path: Folder, keys: Keys = None, where: Where = None, keys_from: KeysFrom = None, ray: Ray = None
) -> None:
    """Delete items by key, or with --where all that match; if a key is unknown, nothing is deleted.

    A key that looks like a number is looked up as a number first, then as a string; in double quotes, '"17"', it
    is always a string. Put -- before a key that begins with a dash.
    """
    texts = _chosen(keys, keys_from, where)
    with open_index(path, ray=ray) as index:
        n = index.delete(None if texts is None else find_keys(index, texts), parse_where(where))
        freed = f" mihash compact {path} frees their space." if n else ""
        say(f"Deleted {counted(n, 'item')}; {len(index):,} are left.{freed}")


def _chosen(keys: list[str] | None, keys_from: str | None, where: list[str] | None) -> list[str] | None:
    """Return keys that were given in one way or the other, None for a filter; exactly one must be given."""
    from ..errors import InvalidInput

    by_key = bool(keys) or keys_from is not None
    if by_key and where:
        raise InvalidInput("Choose items by key or with --where, not both.")
    if not by_key and not where:
        raise InvalidInput("Give keys, or a file of keys with --keys-from; or a filter with --where.")
    return None if where else given_keys(keys, keys_from)
