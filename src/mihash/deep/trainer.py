"""Training a network end to end with any of the losses (Sec. 4.3.2, Setting 2).

All data are on the device. Minibatches are drawn and augmented there, and only the end of an epoch waits for a
number to come back. The random numbers of an epoch depend on the seed and the epoch alone, so an interrupted
training continues as if it had not been interrupted (to the last bit on the CPU; a GPU adds in no fixed order).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from .. import validation
from ..errors import InvalidInput, NotReady
from ..ranking import mean_average_precision
from ..state import State, read, write
from ..stopwatch import Stopwatch
from .augmentation import Augmentation
from .device import find_device
from .epochs import Epoch, HeldOut
from .schedule import Schedule
from .tensors import arrays_of, load_arrays, load_optimizer, optimizer_arrays, packed

OPTIMIZERS = ("sgd", "adamw")
PRECISIONS = ("auto", "float32", "bfloat16")

_EVALUATION_ROWS = 1024


class Trainer:
    """Minimise a loss of a network's outputs by minibatch gradient descent.

    Parameters
    ----------
    network
        Any module that turns a minibatch into what the loss takes; it is trained in place.
    loss
        ``loss(outputs, labels)``, a module: `MutualInformationLoss`, `DPSHLoss`, `DTSHLoss` or your own.
    epochs, batch_size
        How often to go through the data, and by how many items; a remainder is left out, another one each time.
    optimizer
        ``"sgd"`` with Nesterov momentum, or ``"adamw"``.
    learning_rate, momentum, weight_decay
        Of the optimiser. Offsets and normalisations are not decayed. AdamW takes ``momentum`` for its first beta.
    schedule
        How the learning rate goes.
    augmentation
        What is done to images, or None.
    clip
        The largest norm of a gradient, None for any.
    precision
        ``"bfloat16"`` runs the network under autocast; ``"auto"`` does so on a GPU.
    device
        Where to train.
    seed
        Seeds the order, the augmentation and dropout.

    Examples
    --------
    >>> from mihash.deep import MutualInformationLoss
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, 512)
    >>> X = rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((512, 16))
    >>> _ = torch.manual_seed(0)
    >>> network = nn.Sequential(nn.Linear(16, 8), nn.Tanh())
    >>> trainer = Trainer(network, MutualInformationLoss(8), epochs=5, batch_size=128, learning_rate=0.5)
    >>> history = trainer.fit(X, y)
    >>> [round(epoch.loss, 1) for epoch in (history[0], history[-1])]
    [-0.5, -0.8]
    """

    def __init__(
        self,
        network: nn.Module,
        loss: nn.Module,
        *,
        epochs: int = 30,
        batch_size: int = 512,
        optimizer: str = "sgd",
        learning_rate: float = 1.0,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        schedule: Schedule | None = None,
        augmentation: Augmentation | None = None,
        clip: float | None = None,
        precision: str = "auto",
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        self.epochs = validation.integer("epochs", epochs, minimum=1)
        self.batch_size = validation.integer("batch_size", batch_size, minimum=1)
        self.optimizer_name = validation.choice("optimizer", optimizer, OPTIMIZERS)
        self.learning_rate = validation.number("learning_rate", learning_rate, above=0)
        self.momentum = validation.number("momentum", momentum, minimum=0)
        self.weight_decay = validation.number("weight_decay", weight_decay, minimum=0)
        self.schedule = Schedule() if schedule is None else schedule
        self.augmentation = augmentation
        self.clip = None if clip is None else validation.number("clip", clip, above=0)
        self.precision = validation.choice("precision", precision, PRECISIONS)
        self.seed = validation.integer("seed", seed, minimum=0)
        self.device = find_device(device)
        if self.momentum >= 1:
            raise InvalidInput(f"`momentum` must be below 1; got {momentum!r}.")
        self.network = network.to(self.device)
        if self.device.type == "cuda":
            self.network = self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.loss = loss.to(self.device)
        self.history: list[Epoch] = []
        self.optimizer = self._make_optimizer()

    def parameters(self) -> dict[str, Any]:
        """Return what a training depends on, except the network, the loss and the data."""
        names = ("epochs", "batch_size", "learning_rate", "momentum", "weight_decay", "clip", "seed")
        augmentation = None if self.augmentation is None else asdict(self.augmentation)
        return {
            **{name: getattr(self, name) for name in names},
            "optimizer": self.optimizer_name,
            "precision": self._precision(),
            "schedule": asdict(self.schedule),
            "augmentation": augmentation,
        }

    def fit(
        self,
        X: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        *,
        held_out: HeldOut | None = None,
        progress: Callable[[int, int], object] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 5,
    ) -> list[Epoch]:
        """Train until ``epochs`` are through, and return what each of them gave.

        Parameters
        ----------
        X
            Inputs (n, ...): images (n, channels, h, w), uint8 or float, or vectors.
        y
            Labels: integers (n,), or a 0/1 matrix (n, classes).
        held_out
            What to measure mAP on now and then.
        progress
            Called after each epoch with the number of epochs done and the number there are, as by every `fit`;
            ``history`` has what is known of them.
        checkpoint
            A file to save to after every ``checkpoint_every`` epochs and at the end. If it is there already, the
            training continues from it.
        """
        images = self._on_device("X", X)
        labels = self._labels(y, len(images))
        measured = None if held_out is None else self._held_out(held_out)
        place = None if checkpoint is None else Path(checkpoint)
        validation.integer("checkpoint_every", checkpoint_every, minimum=1)
        if place is not None and place.is_file():
            self.restore(read(place))
        while len(self.history) < self.epochs:
            self.history.append(self._next(images, labels, measured))
            done = len(self.history)
            if place is not None and (done == self.epochs or done % checkpoint_every == 0):
                self.save(place)
            if progress is not None:
                progress(done, self.epochs)
        return list(self.history)

    @torch.no_grad()
    def outputs(self, X: ArrayLike | Tensor) -> Tensor:
        """Return what the network gives in evaluation (n, b), in float32, on the device."""
        inputs = self._on_device("X", X)
        network = self.network.eval()
        parts = []
        for start in range(0, len(inputs), _EVALUATION_ROWS):
            with self._autocast():
                parts.append(network(self._plain(inputs[start : start + _EVALUATION_ROWS])).float())
        return torch.cat(parts)

    def encode(self, X: ArrayLike | Tensor) -> NDArray[np.uint8]:
        """Return the packed codes (n, ceil(b / 8)) of inputs: the signs of the outputs."""
        return packed(self.outputs(X))

    def state(self) -> State:
        """Return everything that `restore` needs, as plain values and arrays."""
        return {
            "parameters": self.parameters(),
            "history": [asdict(epoch) for epoch in self.history],
            "network": arrays_of(self.network),
            "loss": arrays_of(self.loss),
            "optimizer": optimizer_arrays(self.optimizer),
        }

    def restore(self, state: State) -> None:
        """Continue where a state was taken; the parameters must be the same, and the data should be."""
        if state.get("parameters") != self.parameters():
            raise InvalidInput(f"The checkpoint was made with {state.get('parameters')}, not {self.parameters()}.")
        load_arrays(self.network, state["network"])
        load_arrays(self.loss, state["loss"])
        load_optimizer(self.optimizer, state["optimizer"])
        self.history = [Epoch(**epoch) for epoch in state["history"]]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint, in the place of the one before."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write(path, self.state())

    def _next(self, images: Tensor, labels: Tensor, held_out: HeldOut | None) -> Epoch:
        """Train for one more epoch, measure if that is due, and return the report."""
        number, watch = len(self.history) + 1, Stopwatch()
        loss, rate = self._epoch(images, labels, number)
        if not np.isfinite(loss):
            raise NotReady(f"The loss of epoch {number} is {loss}: start again with a smaller learning rate.")
        precision = None
        if held_out is not None and (number == self.epochs or number % held_out.every == 0):
            precision = self._measure(held_out)
        return Epoch(number, loss, rate, watch.seconds, precision)

    def _epoch(self, images: Tensor, labels: Tensor, number: int) -> tuple[float, float]:
        """Go through the data once; return the mean loss and the last learning rate."""
        n_batches = max(1, len(images) // self.batch_size)
        total, rate = torch.zeros((), dtype=torch.float64, device=self.device), 0.0
        self.network.train()
        self.loss.train()
        with self._seeded(number), self._quick():
            order = torch.randperm(len(images), device=self.device)
            for i in range(n_batches):
                rows = order[i * self.batch_size : (i + 1) * self.batch_size]
                step = (number - 1) * n_batches + i
                rate = self.learning_rate * self.schedule(step, self.epochs * n_batches, self.epochs)
                total += self._step(images, rows, labels[rows], rate)
        return float(total) / n_batches, rate

    def _batch(self, images: Tensor, rows: Tensor) -> Tensor:
        return self._plain(images[rows]) if self.augmentation is None else self.augmentation(images, rows)

    def _step(self, images: Tensor, rows: Tensor, labels: Tensor, rate: float) -> Tensor:
        with self._autocast():
            outputs = self.network(self._batch(images, rows))
        value: Tensor = self.loss(outputs, labels)
        self.optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return value.detach()

    def _measure(self, held_out: HeldOut) -> float:
        """Return mAP of the held-out queries."""
        queries, base = self.outputs(held_out.X_query), self.outputs(held_out.X_base)
        labels = (held_out.y_query, held_out.y_base)
        return mean_average_precision(packed(queries), packed(base), labels, queries.shape[1])

    def _held_out(self, held_out: HeldOut) -> HeldOut:
        """Return held-out data, checked, with the inputs on the device."""
        every = validation.integer("every", held_out.every, minimum=1)
        queries, base = self._on_device("X_query", held_out.X_query), self._on_device("X_base", held_out.X_base)
        y_query, y_base = self._labels(held_out.y_query, len(queries)), self._labels(held_out.y_base, len(base))
        return HeldOut(queries, y_query.cpu().numpy(), base, y_base.cpu().numpy(), every)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        weights = [p for p in self.network.parameters() if p.requires_grad]
        own = [p for p in self.loss.parameters() if p.requires_grad]
        if not weights:
            raise InvalidInput("The network has no parameter to learn.")
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in weights if p.ndim <= 1] + own, "weight_decay": 0.0},
        ]
        fused = True if self.device.type == "cuda" else None
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(
                groups, lr=self.learning_rate, momentum=self.momentum, nesterov=self.momentum > 0, fused=fused
            )
        return torch.optim.AdamW(groups, lr=self.learning_rate, betas=(self.momentum, 0.99), fused=fused)

    def _precision(self) -> str:
        if self.precision != "auto":
            return str(self.precision)
        return "bfloat16" if self.device.type == "cuda" else "float32"

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self._precision() == "bfloat16")

    @contextlib.contextmanager
    def _seeded(self, number: int) -> Iterator[None]:
        """Seed torch's generators for an epoch, and leave them as they were before."""
        devices = [self.device] if self.device.type == "cuda" else []
        seed = int(np.random.SeedSequence(self.seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> 1)
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield

    @contextlib.contextmanager
    def _quick(self) -> Iterator[None]:
        """Let cuDNN search for the fastest convolutions: shapes do not change in an epoch."""
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = before or self.device.type == "cuda"
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before

    def _plain(self, inputs: Tensor) -> Tensor:
        inputs = inputs.float()
        return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs

    def _on_device(self, name: str, X: ArrayLike | Tensor) -> Tensor:
        tensor = X if isinstance(X, Tensor) else _tensor(name, X)
        if tensor.ndim < 2 or len(tensor) == 0:
            raise InvalidInput(f"`{name}` must be inputs (n, ...), at least one; got shape {tuple(tensor.shape)}.")
        return tensor.to(self.device, torch.uint8 if tensor.dtype == torch.uint8 else torch.float32)

    def _labels(self, y: ArrayLike | Tensor, n: int) -> Tensor:
        plain = y.cpu().numpy() if isinstance(y, Tensor) else y
        return torch.from_numpy(validation.labels("y", plain, n)).to(self.device)


def _tensor(name: str, X: ArrayLike) -> Tensor:
    array = validation.array(name, X)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"`{name}` must hold numbers; got {array.dtype}.")
    return torch.from_numpy(np.ascontiguousarray(array))
