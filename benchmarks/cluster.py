"""An index on Ray against one SQLite table: CPU of a rehash in a shard, of a query, and bytes that a rehash moves.

A small cluster on this machine, 150,000 x 128 in each shard. Two cores cannot show that shards work at the same
time; so this is the CPU time of each shard's own process, one shard after the other and in turn with the SQLite
table, which must not depend on how many there are. Bytes are those of the loopback device, through which the nodes
talk, less what an idle cluster sends in the same time.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mihash import state as saved
from mihash.mapping import LinearMapping
from mihash.store.sqlite.code_versions import propose
from mihash.store.sqlite.sqlite_table import SQLiteTable

from .report import show_grid, verdict

N, D, N_BITS = 150_000, 128, 64
SHARDS = (1, 2, 4)
ROUNDS, QUERIES, CHUNK = 6, 100, 4096
MOST = 1.3
FEW = 5_000


def run() -> None:
    from soak.nodes import joined, local_nodes

    rng = np.random.default_rng(0)
    mappings = [LinearMapping(rng.standard_normal((D, N_BITS))) for _ in range(ROUNDS + 1)]
    queries = rng.standard_normal((QUERIES, D), dtype=np.float32)
    with tempfile.TemporaryDirectory() as base, local_nodes(2) as (address, nodes), joined(address):
        folder = Path(base)
        plain = SQLiteTable.create(folder / "plain")
        _fill(plain, N, mappings[0])
        alone = {n: _queries(folder / f"one-{n}", n * N, mappings[0], queries) for n in SHARDS}
        rows, moved = [], {}
        for n in SHARDS:
            table, found = _cluster(folder, nodes, n, N, mappings), {}
            found["rehash"], floor = _rehash(table, plain, mappings)
            found["query"], found["cpu"], found["batch"] = _asked(table, queries)
            moved[n * N] = _bytes(table, mappings)
            table.close()
            ratio = max(found["rehash"]) / floor
            rows.append(
                (
                    f"{n}",
                    f"{n * N:,}",
                    f"{1e-3 * N / np.mean(found['rehash']):,.0f}",
                    f"{1e-3 * N / floor:,.0f}",
                    f"{ratio:.2f}x",
                    verdict(ratio <= MOST),
                    f"{1e3 * found['query']:.2f} ms",
                    f"{1e3 * alone[n]:.2f} ms",
                    f"{1e3 * found['cpu']:.2f} ms",
                    f"{1e3 * found['batch']:.2f} ms",
                )
            )
        plain.close()
        table = _cluster(folder, nodes, 2, FEW, mappings)
        moved[2 * FEW] = _bytes(table, mappings)
        table.close()
    show_grid(
        f"{N:,} x {D} in each shard, {N_BITS} bits; best of {ROUNDS}",
        (
            "shards",
            "rows in all",
            "1000 rows a CPU second",
            "by SQLite",
            "slowest shard",
            f"at most {MOST}x",
            "a query, median",
            "in one process",
            "CPU in a shard",
            f"each of {QUERIES} in one call",
        ),
        rows,
    )
    size = len(saved.dump(mappings[0].state()))
    show_grid(
        f"Bytes that a rehash moves; the mapping has {size:,}",
        ("rows", "between the nodes, in all"),
        [(f"{n:,}", f"{sent:,.0f}") for n, sent in sorted(moved.items())],
    )


def _queries(folder: Path, n: int, mapping: LinearMapping, queries: np.ndarray) -> float:
    """Return the median wall seconds of a query to one SQLite table."""
    table = SQLiteTable.create(folder)
    _fill(table, n, mapping)
    spent = _timed(table, queries)
    table.close()
    return spent


def _timed(table: Any, queries: np.ndarray) -> float:
    table.search(queries[:1], method="scan")
    spent = []
    for query in queries:
        begin = time.perf_counter()
        table.search(query[None], method="scan")
        spent.append(time.perf_counter() - begin)
    return float(np.median(spent))


def _cluster(folder: Path, nodes: list[str], n_shards: int, n: int, mappings: list[LinearMapping]) -> Any:
    from mihash.store.ray import RayTable

    name = f"{n_shards}-{n}"
    table = RayTable.create(folder / name, n_shards, nodes={each: str(folder / name / each) for each in nodes})
    _fill(table, n * n_shards, mappings[0])
    table.search(np.ones((1, D)))  # everything has arrived, and is compiled
    return table


def _fill(table: Any, n: int, mapping: LinearMapping) -> None:
    rng = np.random.default_rng(1)
    table.rebuild(mapping)
    for start in range(0, n, CHUNK):
        table.add(rng.standard_normal((min(CHUNK, n - start), D), dtype=np.float32))


def _cpu(table: Any) -> np.ndarray:
    """Return the CPU seconds that each shard's process has used so far."""
    return np.array([about["cpu_s"] for about in table.members.ask_all("hello")])


def _rehash(table: Any, plain: SQLiteTable, mappings: list[LinearMapping]) -> tuple[list[float], float]:
    """Return the least CPU seconds of a rehash in each shard, for as many rows as the plain table, and of that."""
    items = np.array([about["items"] for about in table.members.ask_all("hello")])
    spent, alone = [], []
    for number, mapping in enumerate(mappings[1:], start=1):
        start = time.process_time()
        plain.rebuild(mapping)
        alone.append(time.process_time() - start)
        with table.database.write() as connection:
            propose(connection, number, mapping)
        begin, sent = _cpu(table), saved.dump(mapping.state())
        for shard in range(len(items)):
            table.members.ask("build", "stage", {shard: (number, sent)})
        table.build(number)  # finds them ready, and publishes
        table.search(np.ones((1, D)))  # until every shard has heard of it
        spent.append((_cpu(table) - begin) * N / items)
    return [float(each) for each in np.min(spent, axis=0)], min(alone)


def _asked(table: Any, queries: np.ndarray) -> tuple[float, float, float]:
    """Return the median wall seconds of a query, its CPU seconds in a shard, and wall seconds of one of many."""
    begin = _cpu(table)
    wall = _timed(table, queries)
    spent = float((_cpu(table) - begin).mean()) / (len(queries) + 1)
    together = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        table.search(queries, method="scan")
        together.append(time.perf_counter() - start)
    return wall, spent, float(np.median(together)) / len(queries)


def _bytes(table: Any, mappings: list[LinearMapping]) -> float:
    """Return the bytes that a rehash sends between nodes, without what they send anyway."""
    moved = []
    for mapping in mappings[1:]:
        before, begin = _loopback(), time.perf_counter()
        table.rebuild(mapping)
        table.search(np.ones((1, D)))
        sent, seconds = _loopback() - before, time.perf_counter() - begin
        before = _loopback()
        time.sleep(seconds)
        moved.append(sent - (_loopback() - before))
    return float(np.median(moved))


def _loopback() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))
