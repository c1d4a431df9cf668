"""Estimates of what an index will cost (docs/scale.md), from a few rates of this machine and a model.

All costs grow with the number of rows: vectors and codes on disk, codes in memory, the time of a rehash and of a
scan. So a small index predicts the cost of a large one. The trigger decides how often the table is recomputed: on
a stream that does not change, about equally often in each doubling of the stream. A fixed rate rehashes at every
interval.
"""

from dataclasses import dataclass
from math import ceil, log2

from .. import validation
from ..search import LONGEST_INDEXED
from ..store.recall_target import most_candidates
from .calibration import Calibration

_AT_LEAST = 0.5  # rehashes in a doubling of the stream, where the sample had none in its last half


@dataclass(frozen=True)
class Plan:
    """What an index of some size costs; with several nodes, the cost of each.

    Attributes
    ----------
    rows_per_node
        How many rows a node holds.
    disk_bytes
        On a node's disk.
    memory_bytes, memory_peak_bytes
        In a node's memory, at rest and while a new version is built beside the old one.
    multi_index_bytes
        What multi-index hashing takes in addition, where it pays; 0 for codes that are too long for it.
    ingest_rate
        Rows per second that one core stores and learns from, over all rows: the first ones take longer.
    ingest_s
        How long the rows take to arrive, by the stream's rate or, if that is less, by the core's.
    rehash_s
        How long a rehash of all rows takes; all nodes work at the same time.
    updates, updates_fixed
        How often the table is computed, with the trigger and at a fixed rate.
    rehashing_s, rehashing_fixed_s
        Time spent on that while the table grows to its size.
    query_s
        How long one query takes with a scan, by codes alone.
    candidates, rescored_query_s
        How many vectors a search without options looks up, as many as it measures to reach its recall; and how
        long one such query takes.
    upsert_s
        How long it takes to replace one row of the full index and to learn from it, where many are replaced in a
        call.
    queries_per_s
        How many searches without options a second the cores of a node answer; every query goes to all nodes.
    broadcast_bytes
        What a rehash sends to each node: the mapping.
    """

    rows_per_node: int
    disk_bytes: float
    memory_bytes: float
    memory_peak_bytes: float
    multi_index_bytes: float
    ingest_rate: float
    ingest_s: float
    rehash_s: float
    updates: float
    updates_fixed: float
    rehashing_s: float
    rehashing_fixed_s: float
    query_s: float
    candidates: float
    rescored_query_s: float
    upsert_s: float
    queries_per_s: float
    broadcast_bytes: float


def plan(
    calibration: Calibration,
    rows: int,
    *,
    rate: float | None = None,
    nodes: int = 1,
    cores: int = 1,
    disk_bytes_per_s: float | None = None,
) -> Plan:
    """Return what an index of ``rows`` rows costs, by the model of docs/scale.md.

    Parameters
    ----------
    calibration
        The rates of a machine (`calibrate`).
    rows
        How many vectors there will be.
    rate
        How many arrive in a second; as many as one core takes in by default.
    nodes
        Over how many machines they are spread.
    cores
        How many cores of each answer queries.
    disk_bytes_per_s
        How fast the disk reads, where vectors do not stay in the memory of the system; a rehash reads them all.

    Examples
    --------
    >>> machine = Calibration(128, 64, "float32", 2e-4, 2e-5, 1e-6, 2e-10, 5e-5, 560.0, 2e6, 200e6, 8192, 35, 6)
    >>> costs = plan(machine, 1_000_000_000, nodes=16)
    >>> costs.rows_per_node, round(costs.rehash_s), round(costs.updates), costs.broadcast_bytes
    (62500000, 62, 136, 32768)
    """
    rows = validation.integer("rows", rows, minimum=1)
    nodes = validation.integer("nodes", nodes, minimum=1)
    cores = validation.integer("cores", cores, minimum=1)
    machine, share = calibration, ceil(rows / nodes)
    code_bytes = 4 if machine.n_bits <= 32 else 8 * ceil(machine.n_bits / 64)
    indexable = machine.n_bits <= LONGEST_INDEXED
    held = share * (code_bytes + 9)  # its code, its number, whether it was deleted
    capacity = rows / (machine.learning_s(rows) + rows * machine.store_s)
    taken = capacity if rate is None else min(validation.number("rate", rate, above=0), capacity)
    rehash_s = share * machine.rehash_s
    if disk_bytes_per_s is not None:
        speed = validation.number("disk_bytes_per_s", disk_bytes_per_s, above=0)
        rehash_s = max(rehash_s, share * machine.disk_bytes / speed)
    doublings = log2(max(rows / machine.n_learned, 1))
    updates_fixed = rows / machine.interval + 1
    later = max(machine.updates_doubling, _AT_LEAST) if machine.moves else 0.0
    updates = min(machine.updates + later * doublings, updates_fixed)
    # Rows that are encoded again: those of the measured stream, half full on average; then in each doubling so
    # many times three quarters of its end.
    early = min(machine.updates, updates) * min(rows, machine.n_learned) / 2
    encoded = early + 1.5 * later * max(rows - machine.n_learned, 0)
    query_s = machine.query_s + share * machine.scan_s
    candidates = _candidates(machine, share)
    rescored_query_s = query_s + share * machine.ranking_s + candidates * machine.lookup_s
    return Plan(
        rows_per_node=share,
        disk_bytes=machine.disk_base_bytes + share * machine.disk_bytes,
        memory_bytes=machine.base_bytes + held,
        memory_peak_bytes=machine.base_bytes + 2 * held,
        multi_index_bytes=share * ceil(machine.n_bits / 16) * (code_bytes + 4) if indexable else 0.0,
        ingest_rate=capacity,
        ingest_s=rows / taken,
        rehash_s=rehash_s,
        updates=updates,
        updates_fixed=updates_fixed,
        rehashing_s=min(encoded / rows, updates) * rehash_s,
        rehashing_fixed_s=updates_fixed / 2 * rehash_s,
        query_s=query_s,
        candidates=candidates,
        rescored_query_s=rescored_query_s,
        upsert_s=machine.upsert_s + machine.learning_late_s(rows),
        queries_per_s=cores / rescored_query_s,
        broadcast_bytes=4 * machine.n_features * machine.n_bits,
    )


def _candidates(machine: Calibration, rows: int) -> float:
    """Return how many vectors a search without options looks up, within the limits that it has."""
    times = max(rows / machine.n_searched, 1.0) ** machine.candidates_growth
    return float(max(machine.candidates, min(machine.candidates * times, most_candidates(rows))))
