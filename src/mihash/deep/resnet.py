"""A small residual network for images of 32 x 32 pixels, quick to train from scratch."""

from typing import Any

from torch import Tensor, nn

from .. import validation
from .networks import HashNetwork, Standardize, register_network


def resnet(
    n_bits: int,
    *,
    width: int = 64,
    n_channels: int = 3,
    **head: Any,
) -> HashNetwork:
    """Return ten convolutions in three stages, each with a residual block, and a hash head.

    A stage doubles the channels (width, then 2, 4 and 8 widths) and halves the image; what is left is pooled by
    its maximum. With the default width it has 7.8 million parameters.

    Parameters
    ----------
    n_bits
        The code length b.
    width
        The channels of the first convolution.
    n_channels
        The channels of an image: 3, with pixels as in CIFAR-10, or another number, with pixels of mean 0 and
        variance 1.
    head
        ``gain``, ``scale``, ``standardized`` and ``mirror`` of `HashNetwork`.

    Examples
    --------
    >>> import torch
    >>> tuple(resnet(32, width=4, scale=2.0)(torch.rand(2, 3, 32, 32) * 255).shape)
    (2, 32)
    """
    validation.integer("width", width, minimum=1)
    first = Standardize() if n_channels == 3 else nn.Identity()
    stages = [_Stage(width << i, width << (i + 1)) for i in range(3)]
    backbone = nn.Sequential(
        first, _convolution(n_channels, width), *stages, nn.AdaptiveMaxPool2d(1), nn.Flatten()
    )
    return HashNetwork(backbone, 8 * width, n_bits, **head)


class _Stage(nn.Module):
    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.widen = nn.Sequential(*_convolution(n_in, n_out, nn.MaxPool2d(2)))
        self.block = nn.Sequential(*_convolution(n_out, n_out), *_convolution(n_out, n_out))

    def forward(self, x: Tensor) -> Tensor:
        x = self.widen(x)
        out: Tensor = x + self.block(x)
        return out


def _convolution(n_in: int, n_out: int, *pool: nn.Module) -> nn.Sequential:
    """Return 3 x 3 convolution, pooling before the cheap layers, normalisation and activation."""
    layer = nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
    return nn.Sequential(layer, *pool, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


register_network("resnet", resnet)
