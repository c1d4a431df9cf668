"""Blocks of a stream: a learner and its reservoir move by one at a time."""

from ..kernels import one_thread
from ..online import OnlineLearner
from ..reservoir import Reservoir
from .row_queue import Rows


def learn_rows(learner: OnlineLearner, reservoir: Reservoir, rows: Rows) -> None:
    """Move a learner and its reservoir by rows, block by block; the last block may be a part of one.

    Examples
    --------
    >>> import numpy as np
    >>> import mihash
    >>> learner, reservoir = mihash.online.LSH(8), Reservoir(10)
    >>> learner.start(2)
    >>> learn_rows(learner, reservoir, Rows(np.zeros((250, 2), dtype=np.float32), None, np.arange(250)))
    >>> reservoir.seen
    250
    """
    while len(rows.vectors):
        block, rows = rows.split(learner.block_size)
        slots = reservoir.plan(len(block.vectors))
        with one_thread():
            learner.learn(block.vectors, block.labels, reservoir, slots)
            reservoir.apply(block.vectors, block.labels, slots)
