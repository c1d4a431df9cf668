"""A classifier on the codes: warms up a network with random weights, or is trained jointly with a hashing loss.

Losses of pairs, of triplets and of distances start badly on a network with random weights: all bits follow its one
strongest direction, and stay together. The paper starts from a network that was trained as a classifier elsewhere.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .. import validation
from ..errors import InvalidInput
from .minibatch import check_batch


class ClassificationLoss(nn.Module):
    """The cross-entropy of a linear classifier on a network's outputs; the classifier is learned with the network.

    Parameters
    ----------
    n_bits
        The code length b.
    n_classes
        How many classes there are, 0, 1, ...
    seed
        Seeds the first weights.

    Examples
    --------
    >>> loss = ClassificationLoss(n_bits=8, n_classes=4)
    >>> round(loss(torch.zeros(2, 8), torch.tensor([0, 3])).item(), 4)  # log 4
    1.3863
    """

    def __init__(self, n_bits: int, n_classes: int, seed: int = 0) -> None:
        super().__init__()
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1)
        self.n_classes = validation.integer("n_classes", n_classes, minimum=2)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(validation.integer("seed", seed, minimum=0))
            self.classifier = nn.Linear(self.n_bits, self.n_classes, bias=False)

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of outputs (N, b) with classes (N,), a scalar."""
        labels = check_batch(outputs, labels, self.n_bits)
        if labels.ndim != 1:
            raise InvalidInput(f"A classifier needs one class a row (n,); got labels {tuple(labels.shape)}.")
        if labels.device.type == "cpu" and not bool(((labels >= 0) & (labels < self.n_classes)).all()):
            raise InvalidInput(
                f"Classes must be 0 to {self.n_classes - 1}; got {int(labels.min())} to {int(labels.max())}."
            )
        with torch.autocast(outputs.device.type, enabled=False):
            return cross_entropy(self.classifier(outputs.to(self.classifier.weight.dtype)), labels)
