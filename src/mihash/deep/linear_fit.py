"""Linear hash functions fitted to a loss minibatch by minibatch: DPSH and DTSH on fixed features (Setting 1).

Features are centred and brought to a mean square length of 1 for the descent; the mapping takes them as they are.
"""

from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .. import validation
from ..batch.batch_method import FIRST, ORDER, Progress
from ..mapping import LinearMapping
from ..neighbors import Labels
from .schedule import Schedule
from .torch_method import DeepLearner

_SPREAD = 0.1


class LinearLearner(DeepLearner):
    """A batch method that learns linear hash functions u = W x + c from a loss; the bits are the signs of u.

    Parameters
    ----------
    n_bits
        The code length b.
    epochs, batch_size
        How often to go through the data, and by how many items.
    learning_rate
        Of Adam; it falls linearly to 0. (Plain gradient descent, as in the publications, needs steps that are
        small where outputs are large and large where they are small; see docs/divergences.md.)
    patience
        Stop when so many epochs did not lower the loss; None goes through them all.
    seed
        Seeds the first hyperplanes and the order.
    """

    def __init__(
        self,
        n_bits: int,
        epochs: int,
        batch_size: int,
        learning_rate: float,
        patience: int | None,
        seed: int,
    ) -> None:
        super().__init__(n_bits, seed)
        self.epochs = validation.integer("epochs", epochs, minimum=1)
        self.batch_size = validation.integer("batch_size", batch_size, minimum=2)
        self.learning_rate = validation.number("learning_rate", learning_rate, above=0)
        self.patience = None if patience is None else validation.integer("patience", patience, minimum=1)

    @abstractmethod
    def loss(self) -> nn.Module:
        """Return the loss to minimise."""

    def learn(self, X: NDArray[np.float32], y: Labels | None, progress: Progress) -> LinearMapping:
        """Go through the data, minibatch by minibatch."""
        assert y is not None
        mean = X.mean(axis=0, dtype=np.float64)
        length = float(np.sqrt(np.square(X - mean).sum(axis=1).mean())) or 1.0
        Z = torch.from_numpy(((X - mean) / length).astype(np.float32))
        layer = self._descend(Z, torch.tensor(y), progress)
        W = layer.weight.detach().double().numpy().T / length
        return LinearMapping(W, layer.bias.detach().double().numpy() - mean @ W)

    def _descend(self, Z: Tensor, labels: Tensor, progress: Progress) -> nn.Linear:
        loss, schedule = self.loss(), Schedule("linear")
        layer = self._start(Z.shape[1])
        optimizer = torch.optim.Adam(layer.parameters(), self.learning_rate)
        generator = self.torch_generator(ORDER)
        n_batches = max(1, len(Z) // self.batch_size)
        for epoch in range(self.epochs):
            total = 0.0
            order = torch.randperm(len(Z), generator=generator)
            for i in range(n_batches):
                rows = order[i * self.batch_size : (i + 1) * self.batch_size]
                rate = schedule(epoch * n_batches + i, self.epochs * n_batches, self.epochs)
                for group in optimizer.param_groups:
                    group["lr"] = self.learning_rate * rate
                optimizer.zero_grad()
                value = loss(layer(Z[rows]), labels[rows])
                value.backward()
                optimizer.step()
                total += float(value.detach())
            self.history.append(total / n_batches)
            progress(epoch + 1, self.epochs)
            if self.stalled(self.patience):
                break
        return layer

    def _start(self, n_features: int) -> nn.Linear:
        """Return random hyperplanes with small outputs: a loss of products is flat at 0 and steep far away."""
        layer = nn.Linear(n_features, self.n_bits)
        with torch.no_grad():
            layer.weight.normal_(std=_SPREAD, generator=self.torch_generator(FIRST))
            layer.bias.zero_()
        return layer
