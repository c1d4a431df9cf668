"""Which rows an information step of `MomentHash` looks at: a block, and others to compare it with."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..reservoir import Reservoir
from .past_examples import PastExamples

Matrix = NDArray[np.float32]

_NEAR = 0.02  # without labels, this share of the sample are an example's neighbours
_TIE = 1e-5  # of the squared lengths: distances that differ by less tie


class StepRows(NamedTuple):
    """Rows (n, d) and their labels."""

    X: Matrix
    y: NDArray[Any] | None

    def at(self, places: NDArray[np.int64]) -> "StepRows":
        """Return some of them."""
        return StepRows(self.X[places], None if self.y is None else self.y[places])


def from_sample(
    block: StepRows, reservoir: Reservoir, n_steps: int, n_others: int, seed: int
) -> Iterator[tuple[StepRows, StepRows]]:
    """Yield for each step the block, and others from the sample: a function of seed, example count and step."""
    sample = StepRows(reservoir.X, reservoir.y)
    for number in range(n_steps):
        rng = np.random.default_rng([seed, 11, reservoir.seen, number])
        yield block, sample.at(rng.permutation(len(reservoir))[:n_others])  # in any order: the first are anchors


def from_past(
    block: StepRows, past: PastExamples, n_seen: int, n_steps: int, n_others: int, seed: int
) -> Iterator[tuple[StepRows, StepRows]]:
    """Yield for each step a block, and others from the whole past.

    The first step has the block that arrives; the others have as many rows of the past in its place.

    Examples
    --------
    >>> from mihash.online.past_examples import KeptExamples
    >>> block = StepRows(np.full((2, 1), 100, dtype=np.float32), None)
    >>> past = KeptExamples().after(np.arange(100, dtype=np.float32)[:, None], None)
    >>> [(len(rows.X), float(rows.X[0, 0]) == 100, len(others.X)) for rows, others in
    ...  from_past(block, past, n_seen=100, n_steps=3, n_others=4, seed=0)]
    [(2, True, 4), (2, False, 4), (2, False, 4)]
    """
    rng = np.random.default_rng([seed, 14, n_seen])
    n_drawn = min(len(past), len(block.X) + n_others)
    n_block = min(len(block.X), n_drawn // 2)
    places = np.stack([rng.choice(len(past), n_drawn, replace=False) for _ in range(n_steps)])
    wanted, where = np.unique(places, return_inverse=True)
    found = StepRows(*past.at(wanted))  # read once for all steps
    for number, drawn in enumerate(where.reshape(places.shape)):
        yield found.at(drawn[:n_block]) if number else block, found.at(drawn[n_block:])


def nearest_share(Z: Matrix, n_anchors: int, n_block: int) -> NDArray[np.uint8]:
    """Return who is as near to each anchor as the nearest 2 % of the sample: the rows after the block.

    Rows at exactly that distance are not neighbours if they would make more than twice the share. Rows equal to an
    anchor still are, if most anchors have that many equal rows: then the stream repeats a few rows.

    Examples
    --------
    >>> Z = np.eye(150, dtype=np.float32)  # all others are as far
    >>> Z[100:] = Z[0]
    >>> [nearest_share(Z, n_anchors, n_block=2).sum(axis=1).tolist() for n_anchors in (1, 2)]
    [[51], [0, 1]]
    """
    squares = np.einsum("ij,ij->i", Z, Z)
    distances = squares[None] - 2 * (Z[:n_anchors] @ Z.T)
    n_near = max(2, int(_NEAR * (len(Z) - n_block)))
    bound = np.partition(distances[:, n_block:], n_near - 1, axis=1)[:, n_near - 1]
    near = np.asarray(distances <= bound[:, None])
    rounding = _TIE * (squares[:n_anchors] + squares.mean())
    tied = (distances[:, n_block:] <= (bound + rounding)[:, None]).sum(axis=1) > 2 * n_near
    equal = tied & (squares[:n_anchors] + bound <= rounding)
    if 2 * equal.sum() > n_anchors:  # few rows that repeat, not a row of zeros that is common
        tied &= ~equal
    near[tied] = distances[tied] < (bound - rounding)[tied, None]
    return near.view(np.uint8)
