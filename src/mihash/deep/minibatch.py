"""What the losses share: checks of a minibatch, its pairs of neighbours (Sec. 3), and the quantisation error."""

import torch
from torch import Tensor

from ..errors import InvalidInput


def check_batch(codes: Tensor, labels: Tensor, n_bits: int) -> Tensor:
    """Raise if the codes are not (N, n_bits) floats; return the labels as (N,) or as a 0/1 matrix (N, classes).

    Whether a matrix holds only 0 and 1 is checked on the CPU alone: a GPU would have to wait for the answer.

    Examples
    --------
    >>> check_batch(torch.zeros(2, 8), torch.tensor([[3], [1]]), n_bits=8)  # a column stands for a vector
    tensor([3, 1])
    """
    for name, given in (("codes", codes), ("labels", labels)):
        if not isinstance(given, Tensor):
            raise InvalidInput(f"`{name}` must be a tensor; got {type(given).__name__}. Use torch.as_tensor.")
    if codes.ndim != 2 or codes.shape[1] != n_bits or len(codes) == 0 or not codes.is_floating_point():
        raise InvalidInput(
            f"`codes` must be real numbers (n, {n_bits}), n at least 1; "
            f"got {codes.dtype} of shape {tuple(codes.shape)}."
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.flatten()
    real = labels.is_floating_point() or labels.is_complex()
    if labels.ndim not in (1, 2) or len(labels) != len(codes) or (real and labels.ndim == 1):
        raise InvalidInput(
            f"`labels` must be integers (n,) or a 0/1 matrix (n, classes) for the {len(codes)} codes; "
            f"got {labels.dtype} of shape {tuple(labels.shape)}."
        )
    if labels.ndim == 1:
        return labels.to(codes.device, torch.int64)
    if labels.device.type == "cpu" and not bool(((labels == 0) | (labels == 1)).all()):
        raise InvalidInput("`labels` of two dimensions must be a 0/1 matrix (n, classes); it holds other numbers.")
    return labels.to(codes.device)


def neighbors(labels: Tensor, others: Tensor) -> Tensor:
    """Return the (N, M) matrix that is True where two rows have the same class, or share a label.

    Examples
    --------
    >>> neighbors(torch.tensor([1, 2]), torch.tensor([2, 2, 1])).int().tolist()
    [[0, 0, 1], [1, 1, 0]]
    >>> neighbors(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[0, 1]])).int().tolist()
    [[0], [1]]
    """
    if labels.ndim == 1:
        return labels[:, None] == others
    return labels.float() @ others.float().T > 0.5


def quantization_error(outputs: Tensor) -> Tensor:
    """Return the mean over items and bits of (sgn(u) - u)^2; the sign of 0 is -1, as in a code.

    Examples
    --------
    >>> quantization_error(torch.tensor([[1.0, -0.5], [0.0, -1.0]])).item()
    0.3125
    """
    signs = torch.where(outputs.detach() > 0, 1.0, -1.0).to(outputs.dtype)
    return (signs - outputs).square().mean()
