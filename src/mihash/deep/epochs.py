"""Records of a training: the report of an epoch, and the data to measure mAP on (Sec. 4.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Epoch:
    """The report of an epoch.

    Attributes
    ----------
    number
        Which one, from 1.
    loss
        The mean loss of its minibatches.
    learning_rate
        The last learning rate.
    seconds
        How long it took.
    precision
        mAP of the held-out queries, where it was measured.
    """

    number: int
    loss: float
    learning_rate: float
    seconds: float
    precision: float | None = None


class HeldOut(NamedTuple):
    """Queries to measure mAP with at intervals, and the items that they search; the training uses neither.

    Attributes
    ----------
    X_query, y_query
        The queries and their labels.
    X_base, y_base
        What they search; part of the training data will do.
    every
        After how many epochs to measure; the last epoch always is.
    """

    X_query: ArrayLike
    y_query: ArrayLike
    X_base: ArrayLike
    y_base: ArrayLike
    every: int = 5
