"""Compares an index with what it should hold: every item, every code, every answer and every decision."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mihash import OnlineIndex
from mihash import state as saved
from mihash.errors import StoreError, UnknownName
from mihash.index.unknown_fields import without_warnings
from mihash.mapping import HashMapping
from mihash.search import as_columns
from mihash.store.sqlite.code_versions import KEPT_MAPPINGS, kept_mappings

from .model import Model, Row, Twin
from .operations import Operation
from .report import Failure

__all__ = ["check_backup", "check_index", "check_live", "outcome"]


def outcome(folder: Path, model: Model, twin: Twin, what: Operation) -> tuple[bool, bool]:
    """Return whether an operation that was killed is there, and whether the index is paused; half of it raises."""
    with _opened(folder, read_only=True) as index:
        paused = bool(index.stats()["paused"])
        version = index.version
        n_requests = sum(each["kind"] == "request" for each in index.history())
        if n_requests - twin.n_requests not in ((0, 1) if what.name == "rehash" else (0,)):
            raise Failure(f"There are {n_requests} requests, {twin.n_requests} were acknowledged.")
        kept = {
            "rehash": n_requests > twin.n_requests,
            "pause": paused,
            "resume": not paused,
            "rollback": what.name == "rollback" and paused and version == what.version(list(twin.mappings)),
        }.get(what.name, False)
        if what.name in ("add", "upsert", "update", "describe", "delete"):
            kept = _rows_kept(index, model, what)
    expected = {"pause": True, "rollback": True, "resume": False, "rehash": False}.get(what.name, model.paused)
    if paused != (expected if kept else model.paused) and what.name != "rollback":  # which pauses, then builds
        raise Failure(f"The index is {'' if paused else 'not '}paused after a kill in {what.name}.")
    return kept, paused


def _rows_kept(index: OnlineIndex, model: Model, what: Operation) -> bool:
    """Return whether all rows of an operation are as after it; some raise."""
    after = Model(model.configuration)
    after.rows, after.n_rows = dict(model.rows), model.n_rows
    after.apply(what)
    keys = what.keys
    if keys is None:
        keys = list(range(model.n_rows, after.n_rows))
    new = [_holds(index, key, after.rows.get(key)) for key in keys]
    old = [_holds(index, key, model.rows.get(key)) for key in keys]
    if all(new) and all(old):  # nothing differs: no keys, or the same metadata once more
        return True
    if all(new) or all(old):
        return all(new)
    raise Failure(f"Of {len(keys)} rows {sum(new)} are as after the {what.name} and {sum(old)} as before it.")


def _holds(index: OnlineIndex, key: int | str, row: Row | None) -> bool:
    try:
        found = index.get(key)
    except UnknownName:
        return row is None
    if row is None:
        return False
    same_label = row.label is None if found.label is None else np.array_equal(found.label, row.label)
    return found.vector.tobytes() == row.vector.tobytes() and bool(same_label) and found.metadata == row.metadata


def check_index(folder: Path, model: Model, twin: Twin, rng: np.random.Generator) -> int:
    """Compare everything, as a reader sees it and as a writer does; return how many comparisons were made."""
    n = 0
    with _opened(folder, read_only=True) as index:
        n += _check_rows(index, model)
        if index.version is not None:
            n += _check_version(index, model, twin, rng)
    with _opened(folder) as index:
        if index.version is not None or model.n_rows:
            n += _check_version(index, model, twin, rng)
        n += _check_rows(index, model)
        n += _check_learner(index, twin)
        if not index.wait(timeout=60):
            raise Failure("A version was not built within a minute.")
        n += _check_published(index, model, twin)
        if model.n_rows:
            n += _check_version(index, model, twin, rng)
        n += sum(index.verify().values())
    return n


def check_live(index: OnlineIndex, model: Model, twin: Twin, rng: np.random.Generator) -> int:
    """Compare what an open index holds and answers, and that it tells its state; return how much was compared."""
    n = _check_rows(index, model)
    if index.version is not None:
        n += _check_version(index, model, twin, rng)
    if index.stats()["items"] != len(model.rows):
        raise Failure(f"The statistics tell of {index.stats()['items']} items, not {len(model.rows)}.")
    return n


def check_backup(folder: Path, model: Model, twin: Twin, finished: bool, rng: np.random.Generator) -> int:
    """Compare a backup; one that was not finished may be no index, but not another one."""
    if not finished and not (folder / "index.db").exists():
        try:
            with _opened(folder):
                raise Failure("A backup that is not there was opened.")
        except StoreError:
            return 1
    return check_index(folder, model, twin, rng)


def _check_rows(index: OnlineIndex, model: Model) -> int:
    """Compare every item; that the number is right means that nothing else is there."""
    if len(index) != len(model.rows):
        raise Failure(f"There are {len(index)} items, not {len(model.rows)}.")
    for key, row in model.rows.items():
        if not _holds(index, key, row):
            raise Failure(f"The item {key!r} is not as it was acknowledged (row {row.number}).")
    for key in model.free:
        if not _holds(index, key, None):
            raise Failure(f"The deleted item {key!r} is back.")
    if index.position("feed") != model.position:
        raise Failure(f"The source was read to {index.position('feed')}, not to {model.position}.")
    return len(model.rows) + len(model.free)


def _check_version(index: OnlineIndex, model: Model, twin: Twin, rng: np.random.Generator) -> int:
    """Compare the version that answers: its mapping, the codes of all rows, and answers with brute force."""
    edition = index._table.edition
    if edition is None:
        raise Failure("There are rows, and no version answers.")
    mapping = twin.mappings.get(edition.version)
    if mapping is None or mapping.fingerprint != edition.mapping.fingerprint:
        raise Failure(f"Version {edition.version} answers, which was never accepted so.")
    rows = sorted(model.rows.items(), key=lambda each: each[1].number)
    alive = ~edition.dead
    if edition.ids[alive].tolist() != [row.number for _, row in rows]:
        raise Failure(f"Version {edition.version} has {int(alive.sum())} rows, not the {len(rows)} stored.")
    if not rows:
        return 1
    columns = as_columns(mapping.encode(np.stack([row.vector for _, row in rows])))
    wrong = (columns != edition.columns[alive]).any(axis=1)
    if wrong.any():
        raise Failure(f"{int(wrong.sum())} codes of version {edition.version} do not match vector and mapping.")
    return len(rows) + _check_answers(index, rows, mapping, edition.version, rng)


def _check_answers(
    index: OnlineIndex, rows: list[Any], mapping: HashMapping, version: int, rng: np.random.Generator
) -> int:
    """Compare searches of each kind with brute force; a version that was swapped meanwhile is left out."""
    vectors = np.stack([row.vector for _, row in rows])
    queries = (vectors[rng.integers(len(rows), size=3)] + 0.3 * rng.standard_normal(vectors.shape[1])).astype("f4")
    codes = mapping.encode(vectors)
    radius = mapping.n_bits // 3
    asked: list[dict[str, Any]] = [
        {"k": 5},
        {"k": len(rows) + 3},
        {"radius": radius},
        {"k": 5, "where": {"color": "red"}},
        {"k": 4, "where": {"year": {"$gte": 2010}}},
        {"k": 4, "rescore": 20},
    ]
    for question in asked:
        with without_warnings():  # no item may have a field
            hits = index.search(queries, **{"rescore": 0, "margins": False} | question)
        if hits.version != version:
            return 0
        for query, code, keys, distances in zip(
            queries, mapping.encode(queries), hits.keys, hits.distances, strict=True
        ):
            bits = np.bitwise_count(codes ^ code).sum(axis=1).astype(np.int64)
            expected = _brute_force(rows, vectors, query, bits, question, index._table.metric)
            found = list(zip(list(keys), distances.tolist(), strict=True))
            if found != expected:
                raise Failure(f"The search {question} of version {version} gave {found[:5]}, not {expected[:5]}.")
    return 3 * len(asked)


def _brute_force(
    rows: list[Any],
    vectors: NDArray[np.float32],
    query: NDArray[np.float32],
    bits: NDArray[np.int64],
    question: dict[str, Any],
    metric: str,
) -> list[Any]:
    where, rescore = question.get("where"), question.get("rescore", 0)
    order = [int(at) for at in np.argsort(bits, kind="stable") if where is None or _matches(rows[at][1], where)]
    if "radius" in question:
        return [(rows[at][0], int(bits[at])) for at in order if bits[at] <= question["radius"]]
    order = order[: max(question["k"], rescore)]
    if not rescore:
        return [(rows[at][0], int(bits[at])) for at in order]
    near = sorted((_distance(query, vectors[at], metric), rows[at][1].number, at) for at in order)
    return [(rows[at][0], distance) for distance, _, at in near[: question["k"]]]


def _matches(row: Row, where: dict[str, Any]) -> bool:
    metadata = row.metadata or {}
    if "color" in where:
        return bool(metadata.get("color") == where["color"])
    return bool(metadata.get("year", 0) >= where["year"]["$gte"])


def _distance(query: NDArray[np.float32], vector: NDArray[np.float32], metric: str) -> float:
    x, q = vector.astype(np.float64), query.astype(np.float64)
    if metric == "euclidean":
        return float(np.float32(np.sqrt(((x - q) ** 2).sum())))
    return float(np.float32(1.0 - x @ q / (np.sqrt((x**2).sum()) * np.sqrt((q**2).sum()))))


def _check_learner(index: OnlineIndex, twin: Twin) -> int:
    """Compare the mapping, the learner's whole state, every decision and every version, to the last bit."""
    if twin.loop.accepted is None:
        return 0
    if index.current.fingerprint != twin.loop.current.fingerprint:
        raise Failure("The current mapping is not that of an uninterrupted run.")
    assert index._durable.known is not None
    mine, other = index._durable.known.state(), twin.loop.state()
    if saved.dump(mine) != saved.dump(other):
        parts = [name for name in other if saved.dump({"": mine[name]}) != saved.dump({"": other[name]})]
        raise Failure(f"The learner's state is not that of an uninterrupted run: {', '.join(parts)}.")
    history = index.history()
    names = ("number", "kind", "seen", "accepted", "gain", "current", "snapshot", "reason")
    found = [tuple(each[name] for name in names) for each in history]
    expected = [tuple(check[name] for name in names) for check in twin.checks]
    if found != expected:
        pairs = zip([*found, *_rest(expected, found)], [*expected, *_rest(found, expected)], strict=True)
        first = next(pair for pair in pairs if pair[0] != pair[1])
        raise Failure(f"A decision is {first[0]}, not {first[1]}; {len(found)} and {len(expected)} in all.")
    versions = {event["number"] for event in history if event["status"] is not None}
    if versions != set(twin.mappings):
        raise Failure(f"The versions are not those accepted: {sorted(versions ^ set(twin.mappings))}.")
    with index._table.database.read() as connection:
        kept = kept_mappings(connection)
    dropped = set(sorted(versions)[-KEPT_MAPPINGS:]) - set(kept)
    if dropped:
        raise Failure(f"The mappings of versions {sorted(dropped)} are dropped already.")
    for number in kept:
        if index._table.mapping_of(number).fingerprint != twin.mappings[number].fingerprint:
            raise Failure(f"The mapping of version {number} is not that of an uninterrupted run.")
    return 2 + len(found) + len(versions)


def _rest(longer: list[Any], shorter: list[Any]) -> list[Any]:
    return [None] * max(0, len(longer) - len(shorter))


def _check_published(index: OnlineIndex, model: Model, twin: Twin) -> int:
    """Compare which version answers once nothing is being built, and what is left of the others."""
    if index.stats()["paused"] != model.paused:
        raise Failure(f"The index is {'not ' if model.paused else ''}paused, and should be otherwise.")
    if not twin.mappings:
        return 1
    newest = max(twin.mappings)
    if not model.paused and index.version != newest:
        raise Failure(f"Version {index.version} answers, version {newest} is the newest, and nothing is built.")
    if model.paused and twin.pinned is not None and index.version != twin.pinned:
        raise Failure(f"Version {index.version} answers after a rollback to version {twin.pinned}.")
    statuses = {each["number"]: each["status"] for each in index.history()}
    if index.version is not None and statuses[index.version] != "published":
        raise Failure(f"Version {index.version} answers and is {statuses[index.version]}.")
    with index._table.database.read() as connection:
        coded = {number for (number,) in connection.execute("SELECT DISTINCT version FROM code")}
    half = [number for number in coded if statuses.get(number) != "published"]
    if half:
        raise Failure(f"Codes of versions {half} are left, which were never finished.")
    return 3


@contextmanager
def _opened(folder: Path, read_only: bool = False) -> Iterator[OnlineIndex]:
    """Open an index with warnings as errors: one that says that codes are damaged, for example."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with OnlineIndex.open(os.fspath(folder), read_only) as index:
            yield index
