"""What is done to an index: operations drawn from a seed, each a function of it and of what the index holds.

So a process that was killed, and the one that checks, know every operation from its number alone.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mihash import OnlineIndex
from mihash.errors import DuplicateKey
from mihash.store.sqlite.code_versions import KEPT_MAPPINGS

from .configurations import Configuration
from .model import Model
from .report import Failure

__all__ = ["FAULTY_WEIGHTS", "NAMES", "Operation", "operation", "run"]

WEIGHTS = {
    "add": 30,
    "update": 9,
    "upsert": 7,
    "describe": 5,
    "delete": 9,
    "rehash": 8,
    "pause": 3,
    "resume": 3,
    "rollback": 4,
    "compact": 4,
    "backup": 3,
    "reopen": 4,
    "wait": 5,
    "search": 4,
    "refused": 2,
}
FAULTY_WEIGHTS = WEIGHTS | {"rehash": 10, "compact": 8, "backup": 6, "reopen": 10, "search": 2, "refused": 1}
NAMES = tuple(WEIGHTS)
MOST_ITEMS = 700
N_CLASSES = 4
_OF_STORED = ("update", "upsert", "describe", "delete")
COLORS = ("red", "blue", "grün")


@dataclass(frozen=True)
class Operation:
    """One call, with its arguments.

    Attributes
    ----------
    number, name
        Which operation of the index it is, and of what kind.
    X, y, keys, metadata, source
        What is given to `add`, `upsert`, `update` or `delete`; for a search, X are the queries.
    share
        A number from 0 to 1 that chooses a version for `rollback`.
    """

    number: int
    name: str
    X: NDArray[np.float32] | None = None
    y: NDArray[Any] | None = None
    keys: list[int | str] | None = None
    metadata: list[dict[str, Any] | None] | None = None
    source: tuple[str, int] | None = None
    share: float = 0.0

    def version(self, accepted: list[int]) -> int:
        """Return which of the accepted versions a rollback goes to: one whose mapping is kept for certain."""
        newest = accepted[-KEPT_MAPPINGS:]
        return newest[int(self.share * len(newest))]


def operation(
    configuration: Configuration, seed: list[int], number: int, model: Model, weights: dict[str, int] = WEIGHTS
) -> Operation:
    """Return the operation of that number, given what the index holds."""
    rng = np.random.default_rng([*seed, number])
    name = _name(rng, model, dict(weights))
    n = min(int(rng.geometric(1 / 25)), 300) if rng.random() < 0.9 else int(rng.integers(100, 300))
    if name == "add":
        X, y = _examples(configuration, rng, n, number)
        if model.n_rows and rng.random() < 0.3:
            y = None
        keys = _new_keys(rng, n, number, model) if rng.random() < 0.6 else None
        source = ("feed", number) if rng.random() < 0.3 else None
        return Operation(number, name, X, y, keys, _metadata(rng, n), source)
    if name in _OF_STORED:
        return _of_stored(configuration, rng, n, number, model, name)
    if name == "refused":
        taken = list(model.rows)[int(rng.integers(len(model.rows)))]
        X, y = _examples(configuration, rng, 3, number)
        return Operation(number, name, X, y, [f"new {number}", taken, f"newer {number}"])
    if name == "search":
        return Operation(number, name, _examples(configuration, rng, 3, number)[0])
    return Operation(number, name, share=float(rng.random()))


def _of_stored(
    configuration: Configuration, rng: np.random.Generator, n: int, number: int, model: Model, name: str
) -> Operation:
    """Return an operation on items that are stored, and for an upsert on others too."""
    chosen = rng.permutation(len(model.rows))[: min(n, 60)]
    everything = list(model.rows)
    keys = [everything[at] for at in chosen]
    if name == "delete":
        return Operation(number, name, keys=keys)
    if name == "describe":
        return Operation(number, name, keys=keys, metadata=_metadata(rng, len(keys)) or [None] * len(keys))
    if name == "upsert":
        keys = [*keys[: len(keys) // 2], *_new_keys(rng, 1 + len(keys) // 2, number, model)]
    X, y = _examples(configuration, rng, len(keys), number)
    return Operation(number, name, X, None if rng.random() < 0.3 else y, keys, _metadata(rng, len(keys)))


def _name(rng: np.random.Generator, model: Model, weights: dict[str, int]) -> str:
    if not model.n_rows:
        return "add"
    if not model.rows:
        weights |= {"update": 0, "upsert": 0, "describe": 0, "delete": 0, "refused": 0}
    if len(model.rows) > MOST_ITEMS:
        weights |= {"add": 5, "delete": 40}
    if model.paused:
        weights |= {"resume": 12, "pause": 1}
    shares = np.array(list(weights.values()), dtype=np.float64)
    return NAMES[int(rng.choice(len(NAMES), p=shares / shares.sum()))]


def _examples(
    configuration: Configuration, rng: np.random.Generator, n: int, number: int
) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Return vectors around class centres that drift, and their labels."""
    centres = np.random.default_rng(7).standard_normal((2, N_CLASSES, configuration.d)) * 2
    classes = rng.integers(N_CLASSES, size=n)
    X = centres[0, classes] + 0.01 * number * centres[1, classes] + rng.standard_normal((n, configuration.d)) + 1
    y: NDArray[Any] | None = None
    if configuration.labels == "class":
        y = classes
    elif configuration.labels == "matrix":
        y = (np.eye(N_CLASSES, dtype=np.int64)[classes] | (rng.random((n, N_CLASSES)) < 0.1)).astype(np.int64)
    return X.astype(np.float32), y


def _new_keys(rng: np.random.Generator, n: int, number: int, model: Model) -> list[int | str]:
    """Return keys that are free: strings, numbers beyond any row, and some that were deleted before."""
    keys: list[int | str] = [
        f"{number}/{i} é" if rng.random() < 0.7 else int(-1 - 1000 * number - i) for i in range(n)
    ]
    again = model.free[: int(rng.integers(0, 3))] if rng.random() < 0.5 else []
    return [*again, *keys[len(again) :]][:n]


def _metadata(rng: np.random.Generator, n: int) -> list[dict[str, Any] | None] | None:
    if rng.random() < 0.4:
        return None
    return [
        None
        if rng.random() < 0.2
        else {"color": COLORS[int(rng.integers(3))], "year": int(rng.integers(1990, 2030)), "deep": {"a": [i]}}
        for i in range(n)
    ]


def run(what: Operation, index: OnlineIndex, folder: Path) -> OnlineIndex:
    """Do it to an index, and return the index to go on with; backups go beside it."""
    if what.name in _CALLS:
        _CALLS[what.name](index, what)
    elif what.name == "backup":
        index.backup(folder.with_name(f"backup-{what.number}"))
    elif what.name == "reopen":
        index.close()
        return OnlineIndex.open(folder)
    else:
        getattr(index, what.name)()
    return index


def _rollback(index: OnlineIndex, what: Operation) -> None:
    index.catch_up()  # after a crash, the newest decisions are made again
    index.rollback(what.version([each["number"] for each in index.history() if each["accepted"]]))


def _wait(index: OnlineIndex, _: Operation) -> None:
    if not index.wait(timeout=60):
        raise Failure("A version was not built within a minute.")


def _refused(index: OnlineIndex, what: Operation) -> None:
    try:
        index.add(what.X, what.y, what.keys)  # type: ignore[arg-type]
    except DuplicateKey:
        return
    raise Failure("A key was stored twice.")


_CALLS: dict[str, Any] = {
    "add": lambda index, what: index.add(what.X, what.y, what.keys, what.metadata, source=what.source),
    "update": lambda index, what: index.update(what.keys, what.X, what.y, what.metadata),
    "upsert": lambda index, what: index.upsert(what.X, what.keys, what.y, what.metadata),
    "describe": lambda index, what: index.update(what.keys, metadata=what.metadata),
    "delete": lambda index, what: index.delete(what.keys),
    "search": lambda index, what: index.search(what.X, k=3),
    "rollback": _rollback,
    "wait": _wait,
    "refused": _refused,
}
