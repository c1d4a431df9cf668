"""Where to compute: a GPU where there is one. A device that is not there is told before anything runs."""

import torch

from ..errors import InvalidInput, NotReady


def best_device() -> str:
    """Return torch's name for where training is fastest here.

    Examples
    --------
    >>> best_device() in ("cpu", "cuda")
    True
    """
    return "cuda" if torch.cuda.is_available() else "cpu"


def find_device(device: str | torch.device) -> torch.device:
    """Return the device of that name.

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
