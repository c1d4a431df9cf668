"""The base class of batch methods that learn with torch, minibatch by minibatch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .. import validation
from ..batch.batch_method import ORDER, BatchMethod, Progress
from ..errors import InvalidInput, NotReady
from ..mapping import HashMapping

_GAIN = 1e-4  # of the lowest loss before: an epoch that gains less did not lower it


class DeepLearner(BatchMethod):
    """A batch hashing method that learns with torch: the constructor keeps the parameters, `fit` learns a mapping.

    Parameters
    ----------
    n_bits
        The code length b.
    epochs, batch_size
        How many times to go through the data, and how many items a batch has.
    patience
        Stop after ``patience`` epochs that did not lower the loss; None runs all epochs.
    seed
        Seeds the first parameters and the order.

    Attributes
    ----------
    history
        The mean loss of each epoch of the last `fit`.
    """

    def __init__(self, n_bits: int, seed: int, epochs: int, batch_size: int, patience: int | None) -> None:
        super().__init__(n_bits, seed)
        self.epochs = validation.integer("epochs", epochs, minimum=1)
        self.batch_size = validation.integer("batch_size", batch_size, minimum=2)
        self.patience = None if patience is None else validation.integer("patience", patience, minimum=1)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, progress: Progress | None = None) -> HashMapping:
        """Learn from vectors (n, d) and their labels; return the mapping.

        ``progress`` is called with the number of epochs done and the number there are at most. The same data and
        the same seed give the same mapping, on one machine and with as many threads.
        """
        try:
            return super().fit(X, y, progress)
        except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
            raise self._diverged(error) from error
        except InvalidInput as error:
            if not self.history:  # the error is about the arguments
                raise
            raise self._diverged(error) from error

    def _diverged(self, error: Exception) -> NotReady:
        return NotReady(f"{self!r} has diverged: {error} Start again with smaller steps.")

    def go_through(self, n: int, step: Callable[[Tensor, int, int], float], progress: Progress) -> None:
        """Call ``step(rows, number, n_steps)`` for each minibatch of n items; it returns the minibatch's loss."""
        generator = self.torch_generator(ORDER)
        n_batches = max(1, n // self.batch_size)
        for epoch in range(self.epochs):
            total = 0.0
            order = torch.randperm(n, generator=generator)
            for i in range(n_batches):
                rows = order[i * self.batch_size : (i + 1) * self.batch_size]
                total += step(rows, epoch * n_batches + i, self.epochs * n_batches)
            self.history.append(total / n_batches)
            progress(epoch + 1, self.epochs)
            if self.stalled():
                break

    def stalled(self) -> bool:
        """Return whether the last ``patience`` epochs did not lower the loss."""
        waited, best = 0, float("inf")
        for epoch, loss in enumerate(self.history):
            waited = 0 if epoch == 0 or loss < best - _GAIN * abs(best) else waited + 1
            best = min(best, loss)
        return waited == self.patience

    def torch_generator(self, purpose: int) -> torch.Generator:
        """Return torch's random numbers for one purpose."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(purpose,)).generate_state(1)[0]
        return torch.Generator().manual_seed(int(seed))
