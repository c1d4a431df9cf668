"""Limits of the service; a request beyond one gets a named error."""

import os
from dataclasses import dataclass, field, fields
from typing import Any

from .. import validation
from ..store.filters import MAX_CONDITIONS

MiB = 1 << 20


def _n_searchers() -> int:
    return min(8, max(2, os.cpu_count() or 2))


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Attributes
    ----------
    max_body
        The largest request body, in bytes.
    max_json
        The largest JSON body, in bytes; parsing takes several times that in memory.
    bodies
        How many bodies of the largest size all requests together may hold.
    searchers
        Number of workers for reads; slow reads (filters, measurements) have as many of their own.
    waiting_searches, waiting_writes
        The most reads, and the most writes, in their queues; further ones are rejected as busy.
    timeout_s
        How long a request may wait for the index; a search is stopped then.
    body_s
        How long a client may take to send a body.
    header_s
        How long a client may take to send the head of a request.
    stall_s
        How long a client may take to receive a MiB of a response, or the rest of it.
    listeners
        How many clients may listen to events.
    results
        The most items in one response.
    rows
        The most rows that one request may add, and that may wait to be learned from.
    piece
        How many rows are learned from at a time; waiting writes run in between.
    connections
        How many requests are served at a time, and twice that how many connections are kept. Events and health
        checks do not count.
    compared
        The most codes that the queries of one request may be compared with.
    item_metadata, answer_metadata
        The largest metadata of one item, and of all items of one response, in bytes of JSON.
    features
        The widest vectors that an index without items accepts.
    conditions
        The most conditions of a filter.
    """

    max_body: int = 32 * MiB
    max_json: int = 8 * MiB
    bodies: int = 4
    searchers: int = field(default_factory=_n_searchers)
    waiting_searches: int = 128
    waiting_writes: int = 32
    timeout_s: float = 60.0
    body_s: float = 30.0
    header_s: float = 15.0
    stall_s: float = 30.0
    listeners: int = 32
    results: int = 1_000_000
    rows: int = 100_000
    piece: int = 500
    connections: int = 256
    compared: int = 20_000_000_000
    item_metadata: int = 64 << 10
    answer_metadata: int = 32 * MiB
    features: int = 16_384
    conditions: int = 100

    def __post_init__(self) -> None:
        """Check every value."""
        for each in fields(self):
            value: Any = getattr(self, each.name)
            if each.name.endswith("_s"):
                validation.number(each.name, value, above=0)
            else:
                most = MAX_CONDITIONS if each.name == "conditions" else None
                least = 0 if each.name.startswith("waiting") else 1
                validation.integer(each.name, value, minimum=least, maximum=most)
