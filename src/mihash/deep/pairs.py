"""A minibatch and its pairs: what every loss of this room checks, and who is whose neighbour in it (Sec. 3)."""

from torch import Tensor

from ..errors import InvalidInput

__all__ = ["check_batch", "neighbors"]


def check_batch(codes: Tensor, labels: Tensor, n_bits: int) -> Tensor:
    """Refuse codes that are not (N, n_bits) floats; return the labels as (N,) or as a 0/1 matrix (N, classes).

    Examples
    --------
    >>> import torch
    >>> check_batch(torch.zeros(2, 8), torch.tensor([[3], [1]]), n_bits=8)  # a column stands for a vector
    tensor([3, 1])
    """
    if codes.ndim != 2 or codes.shape[1] != n_bits or len(codes) == 0 or not codes.is_floating_point():
        raise InvalidInput(
            f"`codes` must be real numbers (n, {n_bits}), n at least 1; "
            f"got {codes.dtype} of shape {tuple(codes.shape)}."
        )
    if labels.ndim not in (1, 2) or len(labels) != len(codes) or labels.is_complex():
        raise InvalidInput(
            f"`labels` must be integers (n,) or a 0/1 matrix (n, classes) for the {len(codes)} codes; "
            f"got {labels.dtype} of shape {tuple(labels.shape)}."
        )
    labels = labels.to(codes.device)
    return labels.flatten() if labels.ndim == 2 and labels.shape[1] == 1 else labels


def neighbors(labels: Tensor, others: Tensor) -> Tensor:
    """Return the (N, M) matrix that is True where two rows have the same class, or share a label.

    Examples
    --------
    >>> import torch
    >>> neighbors(torch.tensor([1, 2]), torch.tensor([2, 2, 1])).int().tolist()
    [[0, 0, 1], [1, 1, 0]]
    >>> neighbors(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[0, 1]])).int().tolist()
    [[0], [1]]
    """
    if labels.ndim == 1:
        return labels[:, None] == others
    return labels.float() @ others.float().T > 0.5
