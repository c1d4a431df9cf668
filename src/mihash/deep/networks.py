"""Networks that hash: a backbone and a hash head, made by name so that they can be saved (App. A; Sec. 4.3.2).

The bits are the signs of the last layer's logits f. A network gives f itself, or, if it was made with a ``scale``
A, relaxed codes 2 sigma(A f) - 1 = tanh(A f / 2): the mutual-information loss takes relaxed codes, DPSH and DTSH
take the logits. Pixels come in as they are stored, from 0 to 255; a network standardises them itself.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import validation
from ..errors import InvalidInput, UnknownName

CIFAR10_MEAN, CIFAR10_STD = (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)

Builder = Callable[..., nn.Module]
_NETWORKS: dict[str, Builder] = {}


class HashNetwork(nn.Module):
    """A backbone that gives features, and a linear hash head on them.

    Parameters
    ----------
    backbone
        A module that turns an input into features (n, n_features).
    n_features
        How many features it gives.
    n_bits
        The code length b.
    gain
        What the logits f are multiplied by.
    scale
        A of the relaxed codes tanh(A f / 2); None gives the logits f.
    standardized
        Bring each logit to mean 0 and variance 1 over the minibatch (batch normalisation without weights), so that
        bits are balanced and none starts saturated: a network learns faster from scratch.
    mirror
        In evaluation, average the logits of an image and of its mirror image.

    Examples
    --------
    >>> network = HashNetwork(nn.Linear(8, 4), n_features=4, n_bits=16, scale=2.0)
    >>> codes = network(torch.zeros(5, 8))
    >>> tuple(codes.shape), bool((codes.abs() <= 1).all())
    ((5, 16), True)
    """

    def __init__(
        self,
        backbone: nn.Module,
        n_features: int,
        n_bits: int,
        *,
        gain: float = 1.0,
        scale: float | None = None,
        standardized: bool = True,
        mirror: bool = False,
    ) -> None:
        super().__init__()
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1, maximum=4096)
        self.gain = validation.number("gain", gain, above=0)
        self.scale = None if scale is None else validation.number("scale", scale, above=0)
        self.mirror = bool(mirror)
        self.backbone = backbone
        linear = nn.Linear(n_features, n_bits, bias=not standardized)
        norm = nn.BatchNorm1d(n_bits, affine=False) if standardized else nn.Identity()
        self.head = nn.Sequential(linear, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return relaxed codes (n, b) in [-1, 1], or logits where there is no scale."""
        logits = self._logits(x)
        if self.mirror and not self.training:
            logits = (logits + self._logits(x.flip(-1))) / 2
        return logits if self.scale is None else torch.tanh(logits * (self.scale / 2))

    def _logits(self, x: Tensor) -> Tensor:
        features = self.backbone(x)
        with torch.autocast(x.device.type, enabled=False):  # the last layer is small, and its signs are the codes
            logits: Tensor = self.head(features.to(self.head[0].weight.dtype)) * self.gain
        return logits


class Standardize(nn.Module):
    """Subtract the mean of each channel and divide by its standard deviation.

    Examples
    --------
    >>> Standardize([10.0], [5.0])(torch.full((1, 1, 2, 2), 20.0)).unique()
    tensor([2.])
    """

    def __init__(self, mean: Any = CIFAR10_MEAN, std: Any = CIFAR10_STD) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return standardised images."""
        return (x - self.mean) / self.std


def register_network(name: str, builder: Builder) -> None:
    """Register your own network by name, for `build_network` and for loading saved mappings.

    Parameters
    ----------
    name
        Its name, which is saved with the mapping. A process that loads the mapping must register the name first.
    builder
        ``builder(n_bits, **arguments)`` returns the module; the arguments must be plain values (JSON).

    Examples
    --------
    >>> register_network("tiny", lambda n_bits: nn.Linear(4, n_bits))
    >>> build_network("tiny", n_bits=8)(torch.zeros(1, 4)).shape[1]
    8
    """
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"`name` must be a non-empty string; got {name!r}.")
    if not callable(builder):
        raise InvalidInput(f"`builder` must be a function that returns a module; got {builder!r}.")
    _NETWORKS[name] = builder


def network_names() -> list[str]:
    """Return the names that `build_network` knows."""
    return sorted(_NETWORKS)


def build_network(name: str, n_bits: int, *, seed: int = 0, **arguments: Any) -> nn.Module:
    """Return a new network of a registered name, its first weights drawn from the seed.

    Examples
    --------
    >>> network = build_network("resnet", n_bits=16, width=4, scale=2.0)
    >>> sum(p.numel() for p in network.parameters()), network.architecture["name"]
    (31204, 'resnet')
    """
    if name not in _NETWORKS:
        raise UnknownName(
            f"There is no network {name!r}; known: {', '.join(network_names())}. "
            "Register your own with mihash.deep.register_network."
        )
    n_bits = validation.integer("n_bits", n_bits, minimum=1, maximum=4096)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(validation.integer("seed", seed, minimum=0))
        network = _NETWORKS[name](n_bits, **arguments)
    if not isinstance(network, nn.Module):
        raise InvalidInput(f"The builder of {name!r} must return a torch module; got {type(network).__name__}.")
    network.architecture = {"name": name, "n_bits": n_bits, "arguments": arguments}  # type: ignore[assignment]
    return network
