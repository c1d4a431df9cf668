"""The quantisation error of real codes: what DPSH and DTSH add to their likelihoods."""

import torch
from torch import Tensor


def quantization_error(outputs: Tensor) -> Tensor:
    """Return the mean over items and bits of (sgn(u) - u)^2; the sign of 0 is -1, as bit 0 stands for it.

    Examples
    --------
    >>> quantization_error(torch.tensor([[1.0, -0.5], [0.0, -1.0]])).item()
    0.3125
    """
    signs = torch.where(outputs.detach() > 0, 1.0, -1.0).to(outputs.dtype)
    return (signs - outputs).square().mean()
