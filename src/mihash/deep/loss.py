"""The mutual-information loss of a minibatch, value and gradient (Sec. 3.2, Eq. 7-17; Sec. 4.3.2).

Every item of the minibatch is an anchor once, the others are its neighbours and non-neighbours, and the gradient
goes through both codes of a pair. Values are in bits, as everywhere in mihash.
"""

from typing import Any

import torch
from torch import Tensor

from .. import validation
from ..errors import InvalidInput
from .classification import ClassificationLoss
from .minibatch import check_batch, neighbors

_ROUNDING = 1e-4


class MutualInformationLoss(torch.nn.Module):
    """Minus the mean over a minibatch of I(D; C), to be minimised: L = -1/N sum_i I(D_i; C_i) (Eq. 7).

    ``loss(relaxed_codes, labels)`` takes relaxed codes (N, b) in [-1, 1], such as ``tanh`` of a network's last
    layer (2 sigma(A f) - 1 = tanh(A f / 2), App. A), and labels: integers (N,), where items of a class are
    neighbours, or a 0/1 matrix (N, classes), where items that share a label are. The loss has no margin, threshold
    or weight to tune; how sharply codes are relaxed (A) belongs to the network.

    An item is not its own neighbour. An anchor without neighbours, or without non-neighbours, has I = 0 and gives
    no gradient. Histograms are computed in float32 (float64 for float64 codes), also under autocast. On the CPU
    codes outside [-1, 1] are an error; on a GPU, which would have to wait for such a check, distances are clamped.

    With ``classification`` the loss is joint: L plus that weight times the cross-entropy, in nats, of a linear
    classifier on the codes, which is learned with the network. This is not in the paper. A network with random
    weights needs this term or a start as a classifier: L alone does not separate its bits.

    Parameters
    ----------
    n_bits
        The code length b.
    n_bins
        K of the distance histograms (Eq. 8), K + 1 bins; None is the paper's default, K = b.
    memory
        How many codes of earlier minibatches to keep as further neighbours and non-neighbours of the anchors. They
        are constants (no gradient), replaced in turn; only in training mode are codes remembered.
    n_classes
        How many classes there are, where there is a classification term; otherwise the width of the 0/1 matrix,
        where labels are one and there is a memory.
    classification
        The weight of the classification term, 0 for the paper's loss. With the term, labels are classes (N,).
    seed
        Seeds the first weights of the classifier.

    Examples
    --------
    >>> codes = torch.tensor([[0.9, 0.8], [0.7, 0.9], [-0.8, 0.1], [-0.9, -0.2]], requires_grad=True)
    >>> loss = MutualInformationLoss(n_bits=2)
    >>> value = loss(codes, torch.tensor([0, 0, 1, 1]))
    >>> value.backward()
    >>> round(value.item(), 4), codes.grad[0].tolist()[0] < 0  # descent moves the first bit further up
    (-0.4288, True)
    >>> joint = MutualInformationLoss(n_bits=2, n_classes=2, classification=0.5)
    >>> joint(codes, torch.tensor([0, 0, 1, 1])).item() > value.item()
    True
    """

    def __init__(
        self,
        n_bits: int,
        n_bins: int | None = None,
        *,
        memory: int = 0,
        n_classes: int | None = None,
        classification: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1)
        self.n_bins = self.n_bits if n_bins is None else validation.integer("n_bins", n_bins, minimum=1)
        self.memory = validation.integer("memory", memory, minimum=0)
        self.n_classes = None if n_classes is None else validation.integer("n_classes", n_classes, minimum=2)
        self.classification = validation.number("classification", classification, minimum=0)
        self.classifier: ClassificationLoss | None = None
        if self.classification:
            if self.n_classes is None:
                raise InvalidInput("`n_classes` must be given with `classification`.")
            self.classifier = ClassificationLoss(self.n_bits, self.n_classes, seed)
        self.kept: Tensor
        self.kept_labels: Tensor
        self.n_remembered: Tensor
        if self.memory:
            width = self._label_width()
            shape = (self.memory,) if width is None else (self.memory, width)
            self.register_buffer("kept", torch.zeros(self.memory, self.n_bits))
            self.register_buffer("kept_labels", torch.zeros(shape, dtype=torch.int64))
            self.register_buffer("n_remembered", torch.zeros((), dtype=torch.int64))

    def forward(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of relaxed codes (N, b) with labels (N,) or (N, classes), a scalar."""
        labels = check_batch(codes, labels, self.n_bits)
        if codes.device.type == "cpu" and not (largest := float(codes.detach().abs().max())) <= 1 + _ROUNDING:
            raise InvalidInput(
                "`codes` must hold relaxed bits between -1 and 1, such as tanh of the last layer; "
                f"the largest is {largest:g}."
            )
        with torch.autocast(codes.device.type, enabled=False):
            phi = codes if codes.dtype == torch.float64 else codes.float()
            others, near, counted = phi, neighbors(labels, labels), self._pairs(len(phi), phi.device)
            if self.memory:
                kept, kept_labels = self.kept.to(phi.dtype), self._labels_like(labels)
                others = torch.cat([phi, kept])
                near = torch.cat([near, neighbors(labels, kept_labels)], dim=1)
            distances = (self.n_bits - phi @ others.T) / 2
            value = -information(distances, near, counted, self.n_bits, self.n_bins).mean()
            if self.classifier is not None:
                value = value + self.classification * self.classifier(phi, labels)
        if self.memory and self.training:
            self._remember(phi.detach(), labels)
        return value

    def _label_width(self) -> int | None:
        """Return the width of the label matrix in the memory, None if it keeps one class for each code."""
        return None if self.classifier is not None else self.n_classes

    def _pairs(self, n: int, device: torch.device) -> Tensor:
        """Return which pairs count (N, others): not an item with itself, and no empty place of the memory."""
        counted = ~torch.eye(n, dtype=torch.bool, device=device)
        if not self.memory:
            return counted
        filled = torch.arange(self.memory, device=device) < self.n_remembered
        return torch.cat([counted, filled.expand(n, -1)], dim=1)

    def _labels_like(self, labels: Tensor) -> Tensor:
        if self.kept_labels.shape[1:] != labels.shape[1:]:
            width = self._label_width()
            wanted = "integers (n,)" if width is None else f"a matrix (n, {width})"
            raise InvalidInput(
                f"`labels` must be {wanted} for this memory; got shape {tuple(labels.shape)}. "
                "`n_classes` is the width of a matrix, None for integers."
            )
        return self.kept_labels

    @torch.no_grad()
    def _remember(self, codes: Tensor, labels: Tensor) -> None:
        """Store the last codes in the memory, a ring buffer."""
        codes, labels = codes[-self.memory :], labels[-self.memory :]
        places = (self.n_remembered + torch.arange(len(codes), device=codes.device)) % self.memory
        self.kept[places] = codes.to(self.kept.dtype)
        self.kept_labels[places] = labels.to(self.kept_labels.dtype)
        self.n_remembered += len(codes)

    def extra_repr(self) -> str:
        """Show the parameters."""
        names = ("n_bits", "n_bins", "memory", "classification")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def information(distances: Tensor, near: Tensor, counted: Tensor, n_bits: int, n_bins: int) -> Tensor:
    """Return I(D; C) of each anchor (N,) in bits, differentiable with respect to the distances.

    Parameters
    ----------
    distances
        Distances (N, M) of each anchor to the others, in [0, b]; beyond, they count as 0 or b.
    near
        True where the other is a neighbour (N, M).
    counted
        False for pairs to leave out (N, M).
    n_bits, n_bins
        The code length b, and K of Eq. 8.

    Examples
    --------
    >>> near = torch.tensor([[True, True, False, False]])
    >>> information(torch.tensor([[0.0, 1.0, 7.0, 8.0]]), near, torch.ones_like(near), 8, 8)
    tensor([1.])
    """
    values: Tensor = _Information.apply(distances, near, counted, n_bits, n_bins)  # type: ignore[no-untyped-call]
    return values


class _Information(torch.autograd.Function):
    """I of each row of distances, and its derivative with respect to each distance."""

    @staticmethod
    def forward(ctx: Any, distances: Tensor, near: Tensor, counted: Tensor, n_bits: int, n_bins: int) -> Tensor:
        """Return I (Eq. 3) from triangular-kernel histograms of both sides (Eq. 8-9)."""
        n, per_bin = len(distances), n_bins / n_bits
        scaled = distances.clamp(0, n_bits) * per_bin
        lower = scaled.floor().clamp(max=n_bins - 1)
        share = scaled - lower
        place = lower.long().clamp(0, n_bins - 1) + near * (n_bins + 1)  # the second histogram is of neighbours
        mass = distances.new_zeros(n, 2 * (n_bins + 1))
        mass.scatter_add_(1, place, (1 - share) * counted)
        mass.scatter_add_(1, place + 1, share * counted)
        n_pos, n_all = (near & counted).sum(1), counted.sum(1)
        sides = torch.stack([n_all - n_pos, n_pos], dim=1)[:, :, None].to(distances.dtype)
        total = n_all.clamp(min=1)[:, None].to(distances.dtype)
        joint = mass.view(n, 2, n_bins + 1) / total[:, :, None]  # P(C, D)
        p, p_side = joint.sum(1, keepdim=True), joint * (total[:, :, None] / sides)
        known = (joint > 0) & (sides > 0).all(1, keepdim=True)  # an anchor with one side only has I = 0
        ratio = torch.where(known, p_side, 1).log2() - torch.where(known, p, 1).log2()  # Eq. 12-14, without p(C)
        ctx.save_for_backward(ratio.view(n, -1), place, counted, total)
        ctx.per_bin = per_bin
        return (joint * ratio).sum((1, 2)).clamp(min=0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Return dI/dd: moving a distance up takes 1 / Delta from one bin for the next (Eq. 10)."""
        ratio, place, counted, total = ctx.saved_tensors
        slope = ratio.gather(1, place + 1) - ratio.gather(1, place)
        return slope * counted * (gradients[0][:, None] * ctx.per_bin / total), None, None, None, None
