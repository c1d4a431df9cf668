"""What a loss costs beside the network: milliseconds of value and gradient, on any device."""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from .. import validation


def milliseconds(work: Callable[[], object], device: str | torch.device, repeats: int = 50) -> float:
    """Return the median time of some work on a device, after a warm-up, in milliseconds.

    Examples
    --------
    >>> milliseconds(lambda: torch.ones(100).sum(), "cpu", repeats=3) > 0
    True
    """
    validation.integer("repeats", repeats, minimum=1)
    on_gpu = torch.device(device).type == "cuda"
    for _ in range(max(3, repeats // 10)):
        work()
    times = []
    for _ in range(repeats):
        if on_gpu:
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        work()
        if on_gpu:
            torch.cuda.synchronize(device)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def loss_milliseconds(
    loss: nn.Module,
    n_bits: int,
    batch_size: int = 256,
    n_classes: int = 10,
    device: str | torch.device = "cpu",
    graphed: bool = False,
) -> float:
    """Return the median time of a loss and its gradient for a minibatch of random codes, in milliseconds.

    Replayed as a CUDA graph if ``graphed`` is true, where the loss can be (`mihash.deep.graphs`).

    Examples
    --------
    >>> from mihash.deep import MutualInformationLoss
    >>> 0 < loss_milliseconds(MutualInformationLoss(16), n_bits=16, batch_size=32) < 1000
    True
    """
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(batch_size, n_bits, generator=generator).tanh().to(device).requires_grad_()
    labels = torch.randint(0, n_classes, (batch_size,), generator=generator).to(device)
    loss = loss.to(device)
    if graphed and getattr(loss, "recordable", True):
        torch.cuda.make_graphed_callables(loss, (codes.detach().clone().requires_grad_(), labels.clone()))

    def work() -> None:
        codes.grad = None
        loss(codes, labels).backward()

    return milliseconds(work, device)


def device_name(device: str | torch.device) -> str:
    """Return what a device is called, such as 'NVIDIA H200'.

    Examples
    --------
    >>> device_name("cpu")
    'cpu'
    """
    place = torch.device(device)
    return torch.cuda.get_device_name(place) if place.type == "cuda" else str(place)


def version() -> str:
    """Return PyTorch's version, without what it was built for.

    Examples
    --------
    >>> version().count(".")
    2
    """
    return torch.__version__.partition("+")[0]
