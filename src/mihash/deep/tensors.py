"""Tensors as plain arrays and back, to save checkpoints and mappings without pickle."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import InvalidInput

Arrays = dict[str, NDArray[Any]]


def arrays_of(module: nn.Module) -> Arrays:
    """Return parameters and buffers of a module by name, as arrays; half precision becomes float32.

    Examples
    --------
    >>> sorted(arrays_of(nn.Linear(2, 1)))
    ['bias', 'weight']
    """
    return {name: _array(tensor) for name, tensor in module.state_dict().items()}


def load_arrays(module: nn.Module, arrays: Arrays) -> None:
    """Put arrays that `arrays_of` returned into a module of the same architecture."""
    own = module.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
    given = {name: tuple(np.shape(array)) for name, array in arrays.items()}
    if shapes != given:
        odd = sorted(name for name in shapes.keys() | given.keys() if shapes.get(name) != given.get(name))
        raise InvalidInput(f"The arrays do not fit the module: {', '.join(odd[:5])} differ in name or shape.")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(torch.from_numpy(np.array(arrays[name])))


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Any]]:
    """Return what an optimiser has accumulated for each parameter, as arrays and numbers."""
    state = optimizer.state_dict()["state"]
    return {
        str(index): {key: _array(value) if isinstance(value, Tensor) else value for key, value in kept.items()}
        for index, kept in state.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, saved: dict[str, dict[str, Any]]) -> None:
    """Restore what `optimizer_arrays` returned."""
    state = optimizer.state_dict()
    state["state"] = {
        int(index): {
            key: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
            for key, value in kept.items()
        }
        for index, kept in saved.items()
    }
    optimizer.load_state_dict(state)


def packed(outputs: Tensor) -> NDArray[np.uint8]:
    """Return packed codes, 1 where an output is above 0, from any device.

    Examples
    --------
    >>> packed(torch.tensor([[0.5, -0.5, 2.0]]))
    array([[5]], dtype=uint8)
    """
    return np.packbits((outputs > 0).cpu().numpy(), axis=1, bitorder="little")


def _array(tensor: Tensor) -> NDArray[Any]:
    plain = tensor.detach().cpu()
    if plain.dtype in (torch.bfloat16, torch.float16):
        plain = plain.float()
    array: NDArray[Any] = plain.contiguous().numpy().copy()
    return array
