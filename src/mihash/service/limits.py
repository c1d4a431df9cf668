"""How much the service takes at a time; beyond it the answer is a named error, never a full memory."""

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
        The largest body of a request, in bytes.
    max_json
        The largest body of JSON, in bytes; it takes several times that while it is read.
    bodies
        How many such bodies are held at a time, all requests together.
    searchers
        How many searches run at a time, and as many again with a filter.
    waiting_searches, waiting_writes
        How many searches, and how many changes, wait for their turn; one more is refused as busy.
    timeout_s
        How long a request may wait for the index; a search is stopped then.
    body_s
        How long a client may take to send a body.
    header_s, stall_s
        How long a client may take to send the head of a request, and how long to take a MiB
        of an answer, or what is left of it.
    listeners
        How many clients may listen to events.
    results
        The most items in one answer.
    rows
        The most rows that one request may add, and that may wait to be learned from.
    piece
        From how many rows is learned at a time; then others have their turn.
    connections
        How many connections are served; to one more, all but events and checks of health is refused as busy.
    compared
        The most codes that the queries of one request may be compared with.
    item_metadata, answer_metadata
        The largest metadata of one item, and of all items of one answer, in bytes of JSON.
    features
        The widest vectors that an index without items takes.
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
