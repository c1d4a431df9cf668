"""Codewords: the binary target that each label gets when it first appears.

OSH, HCOH and HMOH learn to predict the codeword of a label, bit by bit. A codeword is a function of the seed and
of the label's place in the order of appearance, so the set of labels may grow without limit, and a codeword never
changes.
"""

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..state import State

Signs = NDArray[np.int8]

MOST_CLASSES = 65_536  # the columns of the largest Hadamard matrix
_ROOM = 64


def hadamard_column(number: int, size: int) -> Signs:
    """Return a column of Sylvester's Hadamard matrix; its size is a power of two.

    Entry i is (-1)^n, where n is how many ones the column's and the entry's binary numbers share.

    Examples
    --------
    >>> hadamard_column(3, 4)
    array([ 1, -1, -1,  1], dtype=int8)
    """
    shared = np.bitwise_count(np.arange(size) & number)
    column: Signs = 1 - 2 * (shared & 1).astype(np.int8)
    return column


class Codebook:
    """Codewords of +-1 by label, in order of appearance.

    With ``n_classes``, the columns of a Hadamard matrix come first: any two differ in half of their entries. A
    matrix larger than the code is reduced to its length by the signs of random projections. Labels after the last
    column, and all labels without a matrix, get random codewords. No two labels have the same one as long as there
    are codewords left.

    Parameters
    ----------
    n_bits
        The length of a codeword.
    seed
        Seeds the codewords.
    n_classes
        The matrix is as large as the power of two that is at least this and ``n_bits``; None for no matrix.

    Notes
    -----
    The columns are taken in random order and with random signs, which makes an equivalent Hadamard matrix. In
    Sylvester's own order the first ten columns have only 16 different rows, whatever their length, so all bits
    after the 16th would be copies; and the first row is all ones, a bit without information.

    Examples
    --------
    >>> book = Codebook(n_bits=4, seed=0, n_classes=3)
    >>> targets = book.targets(np.array([7, -2, 7]))
    >>> (targets @ targets.T).tolist()
    [[4.0, 0.0, 4.0], [0.0, 4.0, 0.0], [4.0, 0.0, 4.0]]
    >>> book.labels
    array([ 7, -2])
    """

    def __init__(self, n_bits: int, seed: int, n_classes: int | None = None) -> None:
        self.n_bits = n_bits
        self.seed = seed
        self.size = 0 if n_classes is None else 1 << (max(n_classes, n_bits) - 1).bit_length()
        self._numbers: dict[int, int] = {}
        self._codewords: Signs = np.empty((0, n_bits), dtype=np.int8)
        self._taken: set[bytes] = set()
        rng = self._generator(5)
        self._order = rng.permutation(self.size)
        self._signs = _signs(rng, self.size)
        self._projection = rng.standard_normal((self.size, n_bits)) if self.size not in (0, n_bits) else None

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels seen so far, in order of appearance."""
        return np.fromiter(self._numbers, dtype=np.int64, count=len(self._numbers))

    @property
    def codewords(self) -> Signs:
        """The codewords (n_labels, b) of the labels seen so far, in order of appearance."""
        return self._codewords[: len(self._numbers)]

    def look_up(self, y: NDArray[Any]) -> tuple[NDArray[np.int64], Signs]:
        """Return, for each label that an example has, the example's number and the label's codeword, in order.

        Class labels (n,) give each example one codeword; a 0/1 matrix (n, classes) one for each of its labels, by
        column, and none to an example without a label. A new label is given the next codeword.
        """
        owners, names = (np.arange(len(y)), y) if y.ndim == 1 else np.nonzero(y)
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in names.tolist()]
        self._grow()
        return owners, self._codewords[numbers]

    def targets(self, y: NDArray[Any]) -> NDArray[np.float32]:
        """Return one target (n, b) for each example: the sign of the sum of its labels' codewords, 0 for a tie."""
        owners, codewords = self.look_up(y)
        if y.ndim == 1:
            return codewords.astype(np.float32)
        sums = np.zeros((len(y), self.n_bits), dtype=np.float32)
        np.add.at(sums, owners, codewords)
        return np.sign(sums)

    def state(self) -> State:
        """Return the labels; their codewords follow from the seed."""
        return {"labels": self.labels}

    def restore(self, state: State) -> Self:
        """Continue from what `state` returned."""
        self._numbers = {label: number for number, label in enumerate(state["labels"].tolist())}
        self._grow()
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an independent codebook; its arrays are shared, since none is changed in place."""
        twin = copy.copy(self)
        twin._numbers, twin._taken = dict(self._numbers), set(self._taken)
        return twin

    def _grow(self) -> None:
        n = len(self._codewords)
        if n >= len(self._numbers):
            return
        room = max(len(self._numbers), 2 * n, _ROOM)
        codewords = np.empty((room, self.n_bits), dtype=np.int8)
        codewords[:n] = self._codewords
        for number in range(n, room):
            codewords[number] = self._codeword(number)
            self._taken.add(codewords[number].tobytes())
        self._codewords = codewords

    def _codeword(self, number: int) -> Signs:
        """Return a codeword that no label before has, as long as there is one.

        It depends on the seed and the number alone, whenever and for however many labels it is made.
        """
        rng = self._generator(4, number)
        if number < self.size:
            codeword: Signs = self._signs[number] * hadamard_column(int(self._order[number]), self.size)
            if self._projection is not None:
                codeword = np.where(codeword @ self._projection > 0, 1, -1).astype(np.int8)
        else:
            codeword = _signs(rng, self.n_bits)
        spare = self.n_bits > 62 or len(self._taken) < 2**self.n_bits
        while spare and codeword.tobytes() in self._taken:
            codeword = _signs(rng, self.n_bits)
        return codeword

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


def _signs(rng: np.random.Generator, *shape: int) -> Signs:
    signs: Signs = 2 * rng.integers(0, 2, shape, dtype=np.int8) - 1
    return signs
