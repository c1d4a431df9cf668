"""VGG-F, the network of the paper's Setting 2 (CNN-F of Chatfield et al., BMVC 2014)."""

from typing import Any

from torch import nn

from .. import validation
from .networks import HashNetwork, Standardize, register_network

IMAGENET_MEAN = (123.68, 116.78, 103.94)


def vggf(
    n_bits: int,
    *,
    image_size: int = 224,
    n_hidden: int = 4096,
    dropout: float = 0.5,
    **head: Any,
) -> HashNetwork:
    """Return VGG-F with a hash head in the place of its classifier: five convolutions, two full layers, b bits.

    No pre-trained weights come with it: load yours, under the names of ``network.state_dict()``, with
    ``network.load_state_dict(weights, strict=False)``, and see in what it returns that only the head was missing.
    Images are in colours from 0 to 255; their mean over ImageNet is subtracted, as VGG-F was trained.

    Parameters
    ----------
    n_bits
        The code length b.
    image_size
        224 is the published network, whose first convolution has 11 x 11 pixels and a stride of 4. With 32, for
        CIFAR-10 as it is, that convolution has 5 x 5 pixels and a stride of 1 (which no pre-trained weights fit);
        all else is the same.
    n_hidden
        The width of the two full layers.
    dropout
        The share of their units that a training step leaves out.
    head
        ``gain``, ``scale``, ``standardized`` (False by default here) and ``mirror`` of `HashNetwork`.

    Examples
    --------
    >>> import torch
    >>> network = vggf(32, image_size=32, n_hidden=64, scale=2.0)
    >>> tuple(network(torch.rand(2, 3, 32, 32) * 255).shape)
    (2, 32)
    """
    validation.integer("n_hidden", n_hidden, minimum=1)
    small = image_size == 32
    if not small and image_size != 224:
        validation.choice("image_size", str(image_size), ("224", "32"))
    first = nn.Conv2d(3, 64, 5, padding=2) if small else nn.Conv2d(3, 64, 11, stride=4)
    side = 4 if small else 6
    layers: list[nn.Module] = [Standardize(IMAGENET_MEAN, (1.0, 1.0, 1.0))]
    layers += [first, nn.ReLU(inplace=True), _response(), _pool()]
    layers += [nn.Conv2d(64, 256, 5, padding=2), nn.ReLU(inplace=True), _response(), _pool()]
    for _ in range(3):
        layers += [nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True)]
    layers += [_pool(), nn.Flatten()]
    for n_in in (256 * side * side, n_hidden):
        layers += [nn.Linear(n_in, n_hidden), nn.ReLU(inplace=True), nn.Dropout(dropout)]
    backbone = nn.Sequential(*layers)
    return HashNetwork(backbone, n_hidden, n_bits, **{"standardized": False, **head})


def _response() -> nn.Module:
    """Return local response normalisation with the published constants; torch divides alpha by the size."""
    return nn.LocalResponseNorm(5, alpha=5 * 1e-4, beta=0.75, k=2.0)


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, stride=2, ceil_mode=True)


register_network("vggf", vggf)
