"""Where to compute: a GPU where there is one."""

import torch

__all__ = ["best_device"]


def best_device() -> str:
    """Return torch's name for where training is fastest here.

    Examples
    --------
    >>> best_device() in ("cpu", "cuda")
    True
    """
    return "cuda" if torch.cuda.is_available() else "cpu"
