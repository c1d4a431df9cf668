"""Augmentation of image minibatches as tensor operations, on the device of the images."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import validation
from ..errors import InvalidInput


@dataclass(frozen=True)
class Augmentation:
    """Random crop with reflection at the edges, random mirror image, and a random square cut out.

    Choosing the images, cropping and mirroring are one indexing operation, each image with its own draw. Numbers
    come from torch's generator of the device.

    Parameters
    ----------
    shift
        By how many pixels at most a crop is shifted, in each direction.
    flip
        Whether half of the images are mirrored.
    cutout
        The side of the square that is cut out, 0 for none; part of it may be outside the image.
    fill
        The value of pixels in it.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> images = torch.arange(16.0).view(1, 1, 4, 4)
    >>> Augmentation(shift=1, cutout=0)(images, torch.tensor([0, 0])).shape
    torch.Size([2, 1, 4, 4])
    """

    shift: int = 4
    flip: bool = True
    cutout: int = 8
    fill: float = 120.0

    def __post_init__(self) -> None:
        """Check the sizes."""
        validation.integer("shift", self.shift, minimum=0)
        validation.integer("cutout", self.cutout, minimum=0)
        validation.number("fill", self.fill)

    def __call__(self, images: Tensor, rows: Tensor) -> Tensor:
        """Return the chosen images (n, channels, h, w) as float32, channels last in memory."""
        if images.ndim != 4 or min(images.shape[2:]) <= self.shift:
            raise InvalidInput(
                f"Images must have shape (n, channels, h, w), h and w above {self.shift}; "
                f"got {tuple(images.shape)}."
            )
        n, device = len(rows), images.device
        h, w = images.shape[2:]
        down = _shifted(n, h, self.shift, device)
        right = _shifted(n, w, self.shift, device)
        if self.flip:
            mirrored = torch.rand(n, 1, device=device) < 0.5
            right = torch.where(mirrored, right.flip(1), right)
        # Indices with a slice between them come first: (n, h, w, channels).
        chosen = images[rows[:, None, None], :, down[:, :, None], right[:, None, :]].float()
        if self.cutout:
            inside = _span(n, h, self.cutout, device)[:, :, None] & _span(n, w, self.cutout, device)[:, None, :]
            chosen = torch.where(inside[..., None], self.fill, chosen)
        return chosen.permute(0, 3, 1, 2)


def _shifted(n: int, size: int, shift: int, device: torch.device) -> Tensor:
    """Return places (n, size) moved by up to ``shift``, those beyond an edge reflected at it."""
    offsets = torch.randint(-shift, shift + 1, (n, 1), device=device)
    places = (torch.arange(size, device=device) + offsets).abs()
    last = size - 1
    return last - (last - places).abs()


def _span(n: int, size: int, length: int, device: torch.device) -> Tensor:
    """Return which places (n, size) are in an interval of that length around a random place."""
    starts = torch.randint(0, size, (n, 1), device=device) - length // 2
    places = torch.arange(size, device=device)
    return (places >= starts) & (places < starts + length)
