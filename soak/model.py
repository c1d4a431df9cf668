"""What an index should hold: a plain dictionary of its items, and a loop that was never interrupted."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mihash.loop.decisions import Check
from mihash.mapping import HashMapping

from .configurations import Configuration

if TYPE_CHECKING:
    from .operations import Operation

__all__ = ["Model", "Row", "Twin"]


@dataclass(frozen=True)
class Row:
    """An item: its sequence number, vector as stored, label and metadata."""

    number: int
    vector: NDArray[np.float32]
    label: Any
    metadata: dict[str, Any] | None


class Model:
    """Items by key, and the settings that operations change.

    Parameters
    ----------
    configuration
        How the index was made.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.rows: dict[int | str, Row] = {}
        self.free: list[int | str] = []  # given by somebody, then deleted
        self.n_rows = 0
        self.position: int | None = None
        self.paused = False

    def apply(self, what: "Operation") -> None:
        """Do an operation."""
        if what.name == "add":
            assert what.X is not None
            keys = list(range(self.n_rows, self.n_rows + len(what.X))) if what.keys is None else what.keys
            self._store(keys, what, what.metadata or [None] * len(keys))
            self.free = [key for key in self.free if key not in self.rows]
            if what.source is not None:
                self.position = what.source[1]
        elif what.name == "update":
            assert what.keys is not None
            kept = [self.rows.pop(key).metadata for key in what.keys]
            self._store(what.keys, what, kept if what.metadata is None else what.metadata)
        elif what.name == "upsert":
            assert what.keys is not None
            known = [self.rows.pop(key, None) for key in what.keys]
            kept = [None if row is None else row.metadata for row in known]
            self._store(what.keys, what, kept if what.metadata is None else what.metadata)
            self.free = [key for key in self.free if key not in self.rows]
        elif what.name == "describe":
            for key, metadata in zip(what.keys or [], what.metadata or [], strict=True):
                self.rows[key] = replace(self.rows[key], metadata=metadata)
        elif what.name == "delete":
            for key in what.keys or []:
                del self.rows[key]
                if isinstance(key, str):
                    self.free.append(key)
        elif what.name in ("pause", "rollback"):
            self.paused = True
        elif what.name in ("resume", "rehash"):
            self.paused = False

    def _store(self, keys: Any, what: "Operation", metadata: Any) -> None:
        vectors = self.configuration.stored(what.X)  # type: ignore[arg-type]
        for i, key in enumerate(keys):
            label = None if what.y is None else what.y[i]
            self.rows[key] = Row(self.n_rows + i, vectors[i], label, metadata[i])
        self.n_rows += len(keys)


class Twin:
    """The learner of an index that was never interrupted: the same rows in the same order.

    Parameters
    ----------
    configuration
        How the index was made.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.loop = configuration.loop()
        self.checks: list[Check] = []
        self.mappings: dict[int, HashMapping] = {}  # the accepted ones, by version
        self.pinned: int | None = None  # the version that was rolled back to

    @property
    def n_requests(self) -> int:
        """How often a rehash was asked for."""
        return sum(check.kind == "request" for check in self.checks)

    def apply(self, what: "Operation") -> None:
        """Do an operation."""
        if what.name in ("add", "upsert", "update"):
            assert what.X is not None
            if len(what.X) and (what.y is not None or self.configuration.labels is None):
                rows = self.loop.check(self.configuration.stored(what.X), what.y)
                self.loop.feed(*rows, notify=self._note)
        elif what.name == "rehash":
            self.loop.request(notify=self._note)
        if what.name == "rollback":
            self.pinned = what.version(list(self.mappings))
        elif what.name in ("resume", "rehash"):
            self.pinned = None

    def _note(self, check: Check, mapping: HashMapping | None, _branch: int) -> None:
        self.checks.append(check)
        if mapping is not None:
            self.mappings[check.number] = mapping
