"""Networks of torchvision and timm as makers of features, with weights from a file; nothing is downloaded."""

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..errors import InvalidInput, NotReady, UnknownName


class PretrainedNetwork:
    """What a network feeds into its last linear layer.

    Parameters
    ----------
    library
        ``"torchvision"`` or ``"timm"``.
    name
        Of the architecture, such as ``"resnet18"``.
    weights
        A file of its parameters, as `torch.save` writes a `state_dict`; pickled objects in it are refused.
    """

    def __init__(self, library: str, name: str, weights: Path) -> None:
        try:
            state = torch.load(weights, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds
            raise InvalidInput(f"{weights} cannot be read as a file of weights: {error}") from error
        network = _built(library, name, _n_classes(state))
        try:
            network.load_state_dict(state)
        except (RuntimeError, TypeError) as error:
            raise InvalidInput(f"{weights} does not have the parameters of {name}: {error}") from error
        self._features = LastInput(network)

    def transform(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the features of network inputs (n, 3, size, size)."""
        return self._features.transform(inputs)


class LastInput:
    """The input of the last linear layer of any network.

    Examples
    --------
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2))
    >>> LastInput(network).transform(np.zeros((3, 3, 2, 2), np.float32)).shape
    (3, 5)
    """

    def __init__(self, network: nn.Module) -> None:
        layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
        if not layers:
            raise InvalidInput("The network has no linear layer at its end, so its features cannot be taken.")
        self._network, self._last = network.eval(), layers[-1]

    def transform(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the features of network inputs."""
        caught: list[torch.Tensor] = []
        hook = self._last.register_forward_hook(lambda _layer, given, _made: caught.append(given[0]))
        try:
            with torch.inference_mode():
                self._network(torch.from_numpy(inputs))
        finally:
            hook.remove()
        return caught[0].reshape(len(inputs), -1).numpy()


def _built(library: str, name: str, n_classes: int | None) -> nn.Module:
    try:
        module = import_module("timm" if library == "timm" else "torchvision.models")
    except ImportError as error:
        raise NotReady(f"This network needs {library}: pip install {library}.") from error
    except RuntimeError as error:  # where it was built for another torch
        raise NotReady(f"{library} does not fit the torch that is installed: {error}") from error
    sizes = {} if n_classes is None else {"num_classes": n_classes}
    try:
        if library == "timm":
            made = module.create_model(name, pretrained=False, **sizes)
        else:
            made = module.get_model(name, weights=None, **sizes)
    except (RuntimeError, ValueError) as error:
        raise UnknownName(f"{library} has no network {name!r}: {error}") from error
    return cast(nn.Module, made)


def _n_classes(state: Any) -> int | None:
    """Return the outputs of the last layer of a file of weights."""
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InvalidInput("A file of weights must be a `state_dict`: names of parameters and tensors.")
    matrices = [value for value in state.values() if value.ndim == 2]
    return len(matrices[-1]) if matrices else None
