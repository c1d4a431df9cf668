"""DPSH: supervised hashing with pairwise labels (Li, Wang, Kang, IJCAI 2016; Sec. 4.3.2, Table 1)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from .. import validation
from .linear_fit import LinearLearner
from .minibatch import check_batch, neighbors, quantization_error


class DPSHLoss(nn.Module):
    """The negative log-likelihood of pairwise labels, plus the quantisation error.

    With Theta_ij = u_i . u_j / 2 and s_ij = 1 for neighbours, else 0, the mean over the pairs i != j of the
    minibatch of log(1 + exp(Theta_ij)) - s_ij Theta_ij, plus eta times the mean over items and bits of
    (sgn(u) - u)^2. The publication sums where means are taken here, so that eta does not depend on sizes.

    Parameters
    ----------
    n_bits
        The code length b.
    eta
        The weight of the quantisation error.

    Examples
    --------
    >>> outputs = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])
    >>> round(DPSHLoss(n_bits=2)(outputs, torch.tensor([0, 0, 1])).item(), 4)
    0.5665
    """

    def __init__(self, n_bits: int, eta: float = 0.1) -> None:
        super().__init__()
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1)
        self.eta = validation.number("eta", eta, minimum=0)

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of real outputs u (N, b), a scalar."""
        labels = check_batch(outputs, labels, self.n_bits)
        with torch.autocast(outputs.device.type, enabled=False):
            u = outputs if outputs.dtype == torch.float64 else outputs.float()
            theta = u @ u.T / 2
            terms = softplus(theta) - theta * neighbors(labels, labels)
            n_pairs = max(1, len(u) * (len(u) - 1))
            return (terms.sum() - terms.diagonal().sum()) / n_pairs + self.eta * quantization_error(u)


class DPSH(LinearLearner):
    """Linear hash functions that minimise `DPSHLoss`, as in the paper's Setting 1.

    Parameters
    ----------
    n_bits
        The code length b.
    eta
        The weight of the quantisation error.
    epochs, batch_size, learning_rate, optimizer, patience, seed
        As in `LinearLearner`.

    References
    ----------
    W.-J. Li, S. Wang, W.-C. Kang, "Feature learning based deep supervised hashing with pairwise labels", IJCAI
    2016.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = DPSH(n_bits=16, epochs=5).fit(data.X[:1000], data.y[:1000])
    >>> codes, queries = mapping.encode(data.X[:1000]), mapping.encode(data.X[1000:])
    >>> mihash.mean_average_precision(queries, codes, (data.y[1000:], data.y[:1000]), n_bits=16) > 0.5
    True
    """

    name = "dpsh"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        eta: float = 0.1,
        epochs: int = 40,
        batch_size: int = 128,
        learning_rate: float = 0.05,
        optimizer: str = "adam",
        patience: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, epochs, batch_size, learning_rate, optimizer, patience, seed)
        self.eta = validation.number("eta", eta, minimum=0)

    def loss(self) -> nn.Module:
        """Return the loss to minimise."""
        return DPSHLoss(self.n_bits, self.eta)
