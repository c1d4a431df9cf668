"""An exponential average of a network's weights."""

import torch
from torch import nn


@torch.no_grad()
def follow(averaged: nn.Module, network: nn.Module, decay: float) -> None:
    """Move an averaged network a share 1 - decay of the way to the network; what is no real number is copied.

    Examples
    --------
    >>> averaged, network = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> _ = averaged.weight.data.fill_(0.0), network.weight.data.fill_(1.0)
    >>> follow(averaged, network, decay=0.75)
    >>> averaged.weight.item()
    0.25
    """
    for kept, now in zip(averaged.state_dict().values(), network.state_dict().values(), strict=True):
        if kept.is_floating_point():
            kept.lerp_(now, 1 - decay)
        else:
            kept.copy_(now)
