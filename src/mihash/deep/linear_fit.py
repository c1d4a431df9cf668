"""Linear hash functions fitted to a loss, minibatch by minibatch: DPSH and DTSH on fixed features (Setting 1).

The descent works on centred features of mean square length 1; the mapping takes features as they are.
"""

from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .. import validation
from ..batch.batch_method import FIRST, Progress
from ..mapping import LinearMapping
from ..neighbors import Labels
from .schedule import Schedule
from .torch_method import DeepLearner

OPTIMIZERS = ("adam", "sgd")
_SPREAD = 0.1
_MOMENTUM, _DECAY, _DECAY_EVERY = 0.9, 0.9, 20


class LinearLearner(DeepLearner):
    """A batch method that learns linear hash functions u = W x + c from a loss; the bits are the signs of u.

    Parameters
    ----------
    learning_rate
        The first learning rate.
    optimizer
        ``"adam"``: the learning rate falls linearly to 0. ``"sgd"``: the paper's schedule (App. B.3), gradient
        descent with momentum 0.9 whose learning rate is multiplied by 0.9 after every 20 epochs.
    n_bits, epochs, batch_size, patience, seed
        As in `DeepLearner`.
    """

    def __init__(
        self,
        n_bits: int,
        epochs: int,
        batch_size: int,
        learning_rate: float,
        optimizer: str,
        patience: int | None,
        seed: int,
    ) -> None:
        super().__init__(n_bits, seed, epochs, batch_size, patience)
        self.learning_rate = validation.number("learning_rate", learning_rate, above=0)
        self.optimizer = validation.choice("optimizer", optimizer, OPTIMIZERS)

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
        loss, layer = self.loss(), self._start(Z.shape[1])
        optimizer: torch.optim.Optimizer
        if self.optimizer == "adam":
            schedule = Schedule("linear")
            optimizer = torch.optim.Adam(layer.parameters(), self.learning_rate)
        else:
            schedule = Schedule("step", decay=_DECAY, decay_every=_DECAY_EVERY)
            optimizer = torch.optim.SGD(layer.parameters(), self.learning_rate, momentum=_MOMENTUM)

        def step(rows: Tensor, number: int, n_steps: int) -> float:
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * schedule(number, n_steps, self.epochs)
            optimizer.zero_grad()
            value = loss(layer(Z[rows]), labels[rows])
            value.backward()
            optimizer.step()
            return float(value.detach())

        self.go_through(len(Z), step, progress)
        return layer

    def _start(self, n_features: int) -> nn.Linear:
        """Return random hyperplanes with small outputs: a loss of products is flat at 0 and steep far away."""
        layer = nn.Linear(n_features, self.n_bits)
        with torch.no_grad():
            layer.weight.normal_(std=_SPREAD, generator=self.torch_generator(FIRST))
            layer.bias.zero_()
        return layer
