"""The indexes that are soaked: labels of each kind and none, both types on disk, both metrics, several learners.

A small interval and a theta below 0 make a version of nearly every decision; small blocks on the disk put several
transactions into each rehash, and checkpoints and merges between any two operations.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mihash
from mihash.index import bulk_learning, durable_loop
from mihash.index.options import Options
from mihash.loop.learning_loop import Loop
from mihash.store import edition
from mihash.store.sqlite import segments, verification
from mihash.store.sqlite import sqlite_table as sqlite

__all__ = ["CONFIGURATIONS", "Configuration", "shrink"]


@dataclass(frozen=True)
class Configuration:
    """How an index is made, and what is put into it.

    Attributes
    ----------
    name
        What it is called in reports.
    labels
        ``None`` for none, ``"class"`` for whole numbers, ``"matrix"`` for a 0/1 matrix.
    d
        The dimension of the vectors.
    options
        Arguments of `OnlineIndex.create`.
    """

    name: str
    labels: str | None = None
    d: int = 8
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def all_options(self) -> dict[str, Any]:
        """Every argument that `OnlineIndex.create` is called with."""
        small: dict[str, Any] = {
            "n_bits": 32,
            "reservoir_size": 60,
            "seed": 3,
            "trigger": mihash.TriggerUpdate(-1.0, 20),
        }
        return small | self.options

    def create(self, folder: Path) -> mihash.OnlineIndex:
        """Make the index."""
        return mihash.OnlineIndex.create(folder, **self.all_options)

    def loop(self) -> Loop:
        """Make what learns in such an index, by itself."""
        chosen = {name: value for name, value in self.all_options.items() if name != "dtype"}
        named = {name: chosen.pop(name, None) for name in ("n_bits", "learner", "trigger")}
        return Options.chosen(**named, **chosen).make_loop()

    def stored(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return vectors as the index gives them back."""
        return X.astype(self.all_options.get("dtype", "float32")).astype(np.float32)


CONFIGURATIONS = (
    Configuration("mihash, no labels"),
    Configuration("mihash, classes, float16", "class", options={"dtype": "float16"}),
    Configuration(
        "mihash, cosine, float16, theta 0",
        options={"metric": "cosine", "dtype": "float16", "trigger": mihash.TriggerUpdate(0.0, 20)},
    ),
    Configuration("mihash, 0/1 labels, 70 bits, as is", "matrix", 12, {"n_bits": 70, "normalize": False}),
    Configuration("hcoh, classes, cosine", "class", options={"learner": "hcoh", "metric": "cosine"}),
    Configuration(
        "okh, no labels",
        options={
            "learner": mihash.online.OKH(32, n_anchors=40, warm_up=100, seed=3),
            "trigger": mihash.TriggerUpdate(0.001, 20),
        },
    ),
    Configuration("sketchhash, float16, 64 bits", d=16, options={"learner": "sketchhash", "dtype": "float16"}),
    Configuration(
        "osh, classes, interval 7", "class", options={"learner": "osh", "trigger": mihash.TriggerUpdate(-1.0, 7)}
    ),
    Configuration("adapthash, no labels", options={"learner": "adapthash", "n_bits": 16}),
    Configuration("hmoh, classes, float16", "class", options={"learner": "hmoh", "dtype": "float16"}),
    Configuration(
        "mihash, classes, 128 bits", "class", 24, {"n_bits": 128, "trigger": mihash.TriggerUpdate(-1.0, 33)}
    ),
    Configuration("lsh, cosine", options={"learner": "lsh", "metric": "cosine"}),
)


def shrink() -> None:
    """Let checkpoints, merges, bulk learning and rehashes happen at sizes that a soak reaches in a second."""
    durable_loop.CHECKPOINT_ROWS = 150
    bulk_learning.BULK_ROWS, bulk_learning._PART_ROWS = 8, 24
    segments.SEGMENT_ROWS = 64
    for module in (edition, sqlite, verification):
        module.CODE_ROWS = 96  # type: ignore[attr-defined]
