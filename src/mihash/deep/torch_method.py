"""What the batch methods of this room are: methods of `mihash.batch`, which re-exports them, that use torch."""

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..batch.batch_method import BatchMethod, Progress
from ..errors import InvalidInput, NotReady
from ..mapping import HashMapping

_GAIN = 1e-4  # of the lowest loss before: an epoch that gains less did not lower it


class DeepLearner(BatchMethod):
    """A batch hashing method that learns with torch: the constructor keeps the parameters, `fit` learns a mapping.

    Attributes
    ----------
    history
        The mean loss of each epoch of the last `fit`.
    """

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
            if not self.history:  # it is about what was given
                raise
            raise self._diverged(error) from error

    def _diverged(self, error: Exception) -> NotReady:
        return NotReady(f"{self!r} has diverged: {error} Start again with smaller steps.")

    def stalled(self, patience: int | None) -> bool:
        """Tell whether the last ``patience`` epochs did not lower the loss; None waits for ever."""
        waited, best = 0, float("inf")
        for epoch, loss in enumerate(self.history):
            waited = 0 if epoch == 0 or loss < best - _GAIN * abs(best) else waited + 1
            best = min(best, loss)
        return waited == patience

    def torch_generator(self, purpose: int) -> torch.Generator:
        """Return torch's random numbers for one purpose."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(purpose,)).generate_state(1)[0]
        return torch.Generator().manual_seed(int(seed))
