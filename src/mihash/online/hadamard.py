"""The base class of HCOH and HMOH: codewords from a Hadamard matrix, and a kernel for a block of steps."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..kernels import jit_reordering
from .codewords import MOST_CLASSES, Codebook
from .online_learner import OnlineLearner

Matrix = NDArray[np.float32]


class HadamardLearner(OnlineLearner):
    """A method whose targets are the columns of a Hadamard matrix, one for each label.

    Parameters
    ----------
    n_bits
        The code length b.
    seed
        Seeds the first hyperplanes and the codewords.
    n_classes
        How many classes are expected. The number of columns is the smallest power of two that is at least this and
        ``n_bits``; None is ``n_bits``. If the matrix is larger than ``n_bits``, codewords are the signs of random
        projections of its columns, as published, and no longer exactly half apart. Labels after the last column
        get random codewords; a codeword never changes.
    """

    needs_labels = True
    learned_names: ClassVar[tuple[str, ...]] = ("W", "codebook")

    def __init__(self, n_bits: int, seed: int, n_classes: int | None) -> None:
        super().__init__(n_bits, seed)
        self.n_classes = None if n_classes is None else validation.integer("n_classes", n_classes, 1, MOST_CLASSES)

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes and without codewords."""
        super().begin(n_features)
        self._codebook = Codebook(self.n_bits, self.seed, self.n_classes or self.n_bits)


@jit_reordering
def learn_block(Y: Matrix, G: Matrix, targets: Matrix, rate: np.float32, perceptron: bool) -> Any:
    """Return C (n, b): the block's steps, dW = X' C, exactly as if taken one at a time.

    Y (n, b) are the block's projections before it, G (n, n) its inner products: the step C[s] of example s adds
    G[t, s] C[s] to the projections of example t. A step is that of a perceptron on the target, or a gradient step
    on the squared error of tanh. A target of 0 gives no step.
    """
    n_block, n_bits = Y.shape
    C = np.zeros((n_block, n_bits), dtype=np.float32)
    y = np.empty(n_bits, dtype=np.float32)
    for t in range(n_block):
        y[:] = Y[t]
        for s in range(t):
            for k in range(n_bits):
                y[k] += G[t, s] * C[s, k]
        for k in range(n_bits):
            target = targets[t, k]
            if perceptron:
                if target * y[k] <= 0:
                    C[t, k] = rate * target
            elif target != 0:
                f = np.tanh(y[k])
                C[t, k] = rate * (target - f) * (np.float32(1) - f * f)
    return C
