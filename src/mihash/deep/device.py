"""Where to compute: the device of a name, what it is called, and the version of PyTorch."""

import torch

from ..errors import InvalidInput, NotReady


def best_device() -> str:
    """Return ``"cuda"`` where a CUDA device is available, else ``"cpu"``.

    Examples
    --------
    >>> best_device() in ("cpu", "cuda")
    True
    """
    return "cuda" if torch.cuda.is_available() else "cpu"


def find_device(device: str | torch.device) -> torch.device:
    """Return the device of that name; raise if this machine does not have it.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    >>> find_device("gpu")
    Traceback (most recent call last):
    mihash.errors.InvalidInput: There is no device 'gpu'; use 'cpu', 'cuda' or 'cuda:1'.
    """
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError):
        raise InvalidInput(f"There is no device {device!r}; use 'cpu', 'cuda' or 'cuda:1'.") from None
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise NotReady(f"There is no CUDA device {str(place)!r} here; use the device 'cpu'.")
    return place


def device_name(device: str | torch.device) -> str:
    """Return what a device is called, such as 'NVIDIA H200'.

    Examples
    --------
    >>> device_name("cpu")
    'cpu'
    """
    place = torch.device(device)
    return torch.cuda.get_device_name(place) if place.type == "cuda" else str(place)


def torch_version() -> str:
    """Return PyTorch's version, without what it was built for.

    Examples
    --------
    >>> torch_version().count(".")
    2
    """
    return torch.__version__.partition("+")[0]
