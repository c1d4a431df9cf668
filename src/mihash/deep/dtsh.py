"""DTSH: supervised hashing with triplet labels (Wang, Shi, Kitani, ACCV 2016; Sec. 4.3.2, Table 1)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from .. import validation
from .linear_fit import LinearLearner
from .minibatch import check_batch, neighbors, quantization_error

_TRIPLETS = 1 << 24  # of a minibatch at a time


class DTSHLoss(nn.Module):
    """The negative log-likelihood of triplet labels, plus the quantisation error.

    With Theta_ij = u_i . u_j / 2, the mean over all triplets of the minibatch (anchor q, neighbour p,
    non-neighbour n) of log(1 + exp(-(Theta_qp - Theta_qn - alpha))), plus lambda times the mean over items and
    bits of (sgn(u) - u)^2. The publication sums where means are taken here, so that lambda does not depend on
    sizes.

    Parameters
    ----------
    n_bits
        The code length b.
    alpha
        The margin; None is b / 4, as the paper sets it (App. B.3).
    lambda_
        The weight of the quantisation error.

    Examples
    --------
    >>> outputs = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])
    >>> round(DTSHLoss(n_bits=2)(outputs, torch.tensor([0, 0, 1])).item(), 4)  # log(1 + exp(-0.5))
    0.4741
    """

    def __init__(self, n_bits: int, alpha: float | None = None, lambda_: float = 1.0) -> None:
        super().__init__()
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1)
        self.alpha = self.n_bits / 4 if alpha is None else validation.number("alpha", alpha, minimum=0)
        self.lambda_ = validation.number("lambda_", lambda_, minimum=0)

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of real outputs u (N, b), a scalar."""
        labels = check_batch(outputs, labels, self.n_bits)
        with torch.autocast(outputs.device.type, enabled=False):
            u = outputs if outputs.dtype == torch.float64 else outputs.float()
            near = neighbors(labels, labels)
            likelihood: Tensor = _Triplets.apply(u @ u.T / 2, near, self.alpha)  # type: ignore[no-untyped-call]
            return likelihood + self.lambda_ * quantization_error(u)


class _Triplets(torch.autograd.Function):
    """The mean over triplets of log(1 + exp(alpha - Theta_qp + Theta_qn)), and its derivative.

    There may be N^3 triplets: they are computed for some anchors at a time, value and derivative together.
    """

    @staticmethod
    def forward(ctx: Any, theta: Tensor, near: Tensor, alpha: float) -> Tensor:
        """Return the mean, 0 if there is no triplet."""
        n = len(theta)
        total, slope = theta.new_zeros(()), torch.zeros_like(theta)
        positive = near & ~torch.eye(n, dtype=torch.bool, device=near.device)
        n_positive = positive.sum(1)
        most = max(1, int(n_positive.max()))  # neighbours are few: their columns are gathered
        columns = positive.to(torch.uint8).argsort(dim=1, descending=True)[:, :most]
        given, apart = positive.gather(1, columns), ~near
        rows = max(1, _TRIPLETS // (n * most))
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            weights = given[part, :, None] & apart[part, None, :]
            deficit = alpha - theta[part].gather(1, columns[part])[:, :, None] + theta[part, None, :]
            total += (softplus(deficit) * weights).sum()
            pull = torch.sigmoid(deficit) * weights
            slope[part] = pull.sum(1).scatter_add(1, columns[part], -pull.sum(2))
        n_triplets = (n_positive * apart.sum(1)).sum().clamp(min=1)
        ctx.save_for_backward(slope / n_triplets)
        return total / n_triplets

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Return the derivative with respect to each Theta_ij."""
        (slope,) = ctx.saved_tensors
        return slope * gradients[0], None, None


class DTSH(LinearLearner):
    """Linear hash functions that minimise `DTSHLoss`, as in the paper's Setting 1.

    Parameters
    ----------
    n_bits
        The code length b.
    alpha
        The margin; None is b / 4.
    lambda_
        The weight of the quantisation error.
    epochs, batch_size, learning_rate, optimizer, patience, seed
        As in `LinearLearner`.

    References
    ----------
    X. Wang, Y. Shi, K. M. Kitani, "Deep supervised hashing with triplet labels", ACCV 2016.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = DTSH(n_bits=16, epochs=10).fit(data.X[:1000], data.y[:1000])
    >>> codes, queries = mapping.encode(data.X[:1000]), mapping.encode(data.X[1000:])
    >>> round(mihash.mean_average_precision(queries, codes, (data.y[1000:], data.y[:1000]), n_bits=16), 1)
    0.7
    """

    name = "dtsh"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        alpha: float | None = None,
        lambda_: float = 1.0,
        epochs: int = 40,
        batch_size: int = 128,
        learning_rate: float = 0.05,
        optimizer: str = "adam",
        patience: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, epochs, batch_size, learning_rate, optimizer, patience, seed)
        self.alpha = None if alpha is None else validation.number("alpha", alpha, minimum=0)
        self.lambda_ = validation.number("lambda_", lambda_, minimum=0)

    def loss(self) -> nn.Module:
        """Return the loss to minimise."""
        return DTSHLoss(self.n_bits, self.alpha, self.lambda_)
