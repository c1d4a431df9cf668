"""A torch module as a hash mapping: frozen, saved as plain arrays and the name of its architecture.

Encoding runs in blocks of one size, the last one padded, so that the code of an input depends on it and on the
mapping alone.
"""

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from .. import validation
from ..errors import CorruptStore, InvalidInput
from ..mapping import HashMapping
from .device import find_device
from .networks import build_network
from .tensors import arrays_of, load_arrays

_BLOCK = 64
_ARCHITECTURE = "architecture"


class ModuleMapping(HashMapping):
    """The signs of a network's outputs as bits.

    Parameters
    ----------
    network
        A trained network that `build_network` made. The mapping builds its own copy from the name and arguments,
        with the same parameters, as loading the mapping does.
    input_shape
        The shape of one input, such as (3, 32, 32); vectors come in flattened.
    device
        Where to encode. It is not part of the value: the same network on two devices is the same mapping, although
        outputs near 0 may get different bits.

    Examples
    --------
    >>> network = build_network("resnet", n_bits=16, width=2, mirror=True)
    >>> mapping = ModuleMapping(network, input_shape=(3, 32, 32))
    >>> mapping
    ModuleMapping(3072 -> 16 bits, ...)
    >>> images = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32))
    >>> codes = mapping.encode(images.reshape(5, -1))
    >>> from mihash.mapping import mapping_from_state
    >>> bool((mapping_from_state(mapping.state()).encode(images.reshape(5, -1)) == codes).all())
    True
    """

    kind = "module"

    def __init__(
        self, network: nn.Module, input_shape: Sequence[int], *, device: str | torch.device = "cpu"
    ) -> None:
        architecture = getattr(network, "architecture", None)
        if not isinstance(architecture, dict):
            raise InvalidInput(
                "A module is saved by the name of its architecture: make it with mihash.deep.build_network, "
                "after mihash.deep.register_network if it is your own."
            )
        self._shape = tuple(validation.integer("input_shape", size, minimum=1) for size in input_shape)
        self._device = find_device(device)
        self._architecture = {**architecture, "input_shape": list(self._shape)}
        try:
            text = json.dumps(self._architecture, sort_keys=True)
        except TypeError as error:
            raise InvalidInput(f"The arguments of a network must be plain values to be saved: {error}.") from error
        self._arrays: dict[str, NDArray[Any]] = {
            _ARCHITECTURE: np.frombuffer(text.encode(), dtype=np.uint8).copy(),
            **arrays_of(network),
        }
        for name, array in self._arrays.items():
            if not np.isfinite(array).all():
                raise InvalidInput(f"The network must hold finite numbers; {name!r} does not.")
            array.setflags(write=False)
        built = build_network(architecture["name"], architecture["n_bits"], **architecture["arguments"])
        load_arrays(built, {name: array for name, array in self._arrays.items() if name != _ARCHITECTURE})
        self._network = built.to(self._device).float().eval().requires_grad_(False)
        super().__init__(int(np.prod(self._shape)), self._count_bits())

    @classmethod
    def from_arrays(cls, **arrays: NDArray[Any]) -> Self:
        """Return the mapping that `arrays` describes; its architecture must be registered."""
        values = dict(arrays)
        try:
            saved = json.loads(np.asarray(values.pop(_ARCHITECTURE), dtype=np.uint8).tobytes())
            name, n_bits, arguments, shape = (saved[k] for k in ("name", "n_bits", "arguments", "input_shape"))
        except (KeyError, ValueError, TypeError) as error:
            raise CorruptStore(f"A saved module has no valid architecture: {error}.") from error
        network = build_network(name, n_bits, **arguments)
        load_arrays(network, values)
        return cls(network, shape)

    def to(self, device: str | torch.device) -> Self:
        """Return the same mapping, encoding on another device."""
        return type(self)(self._network, self._shape, device=device)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self._shape

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return parameters and buffers, and the architecture as the bytes of a JSON text."""
        return dict(self._arrays)

    @torch.no_grad()
    def project(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the network's outputs (n, b)."""
        outputs = np.empty((len(X), self.n_bits), dtype=np.float32)
        for start in range(0, len(X), _BLOCK):
            rows = X[start : start + _BLOCK]
            block = np.zeros((_BLOCK, self.n_features), dtype=np.float32)
            block[: len(rows)] = rows
            inputs = torch.from_numpy(block).view(_BLOCK, *self._shape).to(self._device)
            outputs[start : start + len(rows)] = self._network(inputs).float().cpu().numpy()[: len(rows)]
        return outputs

    def distance(self, other: HashMapping) -> float:
        """Return the norm of the difference of all parameters; infinite for another architecture."""
        mine, others = self._arrays, other.arrays()
        if other.kind != self.kind or not np.array_equal(mine[_ARCHITECTURE], others[_ARCHITECTURE]):
            return float("inf")
        parts = ((mine[name].astype(np.float64) - others[name]).ravel() for name in mine if name != _ARCHITECTURE)
        return float(np.sqrt(sum(float(part @ part) for part in parts)))

    @torch.no_grad()
    def _count_bits(self) -> int:
        try:
            shape = self._network(torch.zeros(2, *self._shape, device=self._device)).shape
        except RuntimeError as error:
            raise InvalidInput(f"The network does not take inputs of shape {self._shape}: {error}.") from error
        if len(shape) != 2 or shape[0] != 2:
            raise InvalidInput(f"A network must give outputs (n, b); got {tuple(shape)} for 2 inputs.")
        return int(shape[1])
