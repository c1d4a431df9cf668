"""Mean average precision on the device where the codes were made: the measure of `mihash.ranking`, as tensors."""

import torch
from torch import Tensor

from ..errors import InvalidInput
from .minibatch import neighbors

_PAIRS = 1 << 26  # pairs at a time


@torch.no_grad()
def mean_average_precision(query_codes: Tensor, codes: Tensor, query_labels: Tensor, labels: Tensor) -> float:
    """Return mAP of all items ranked by Hamming distance, expected over the order of ties.

    It equals ``mihash.mean_average_precision(..., ties="expected")``: a level of n items, r relevant, that follows
    N items, R relevant, adds (r / n) [c n + (R + 1 - c (N + 1)) (H(N + n) - H(N))] with c = (r - 1) / (n - 1).

    Parameters
    ----------
    query_codes, codes
        Real values (n_queries, b) and (n, b) whose signs are the bits; 0 gives bit 0.
    query_labels, labels
        Integers, or 0/1 matrices, as the losses take them.

    Examples
    --------
    >>> codes = torch.tensor([[-1.0, -1, -1], [-1, -1, 1], [-1, 1, 1], [1, 1, 1]])
    >>> mean_average_precision(codes[[0, 3]], codes, torch.tensor([0, 1]), torch.tensor([0, 1, 0, 1]))
    0.8333333333333333
    """
    if query_codes.shape[1:] != codes.shape[1:] or query_codes.ndim != 2:
        raise InvalidInput(
            f"Codes must be (n, b), of one length; got {tuple(query_codes.shape)} and {tuple(codes.shape)}."
        )
    fit = (len(query_labels), len(labels)) == (len(query_codes), len(codes))
    if not fit or query_labels.shape[1:] != labels.shape[1:]:
        raise InvalidInput(
            "Labels must be integers (n,) or a 0/1 matrix (n, classes), of one kind, a row for each code; "
            f"got {tuple(query_labels.shape)} and {tuple(labels.shape)}."
        )
    n, n_bits = codes.shape
    bits = _signs(codes)
    harmonic = torch.zeros(n + 1, dtype=torch.float64, device=codes.device)
    harmonic[1:] = (1 / torch.arange(1, n + 1, dtype=torch.float64, device=codes.device)).cumsum(0)
    rows = max(1, _PAIRS // n)
    total, n_defined = 0.0, 0
    for start in range(0, len(query_codes), rows):
        part = slice(start, start + rows)
        distances = ((n_bits - _signs(query_codes[part]) @ bits.T) / 2).long()
        near = neighbors(query_labels[part], labels)
        items, relevant = _counts(distances, near, n_bits)
        values = _average_precision(items, relevant, harmonic)
        defined = relevant.sum(1) > 0
        total += float(values[defined].sum())
        n_defined += int(defined.sum())
    return total / n_defined if n_defined else float("nan")


def _signs(codes: Tensor) -> Tensor:
    return torch.where(codes > 0, 1.0, -1.0)


def _counts(distances: Tensor, near: Tensor, n_bits: int) -> tuple[Tensor, Tensor]:
    """Return how many items, and how many relevant ones, each query has at each distance."""
    n_queries, levels = len(distances), n_bits + 1
    places = distances + near * levels + torch.arange(n_queries, device=near.device)[:, None] * (2 * levels)
    counts = torch.bincount(places.flatten(), minlength=n_queries * 2 * levels).view(n_queries, 2, levels)
    return counts.sum(1), counts[:, 1]


def _average_precision(items: Tensor, relevant: Tensor, harmonic: Tensor) -> Tensor:
    n, r = items.double(), relevant.double()
    after = items.cumsum(1)
    before = after - items
    r_before = r.cumsum(1) - r
    c = (r - 1) / (n - 1).clamp(min=1) * (items > 1)
    steps = harmonic[after] - harmonic[before]
    sums = r / n.clamp(min=1) * (c * n + (r_before + 1 - c * (before + 1)) * steps)
    return sums.sum(1) / r.sum(1).clamp(min=1)
