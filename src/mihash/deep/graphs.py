"""CUDA graphs: the forward and backward pass of a minibatch, recorded once and replayed.

The kernels of a small network take less time than launching them one by one. A replay launches all of them at
once.
"""

import contextlib
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

_STREAMS = "The AccumulateGrad node's stream does not match"  # recording has its own; torch waits for it


@contextlib.contextmanager
def recorded(network: nn.Module, loss: nn.Module, batch: Tensor, labels: Tensor, precise: bool) -> Iterator[None]:
    """Inside the ``with``, replay the network, and the loss if it can be recorded, for minibatches of one shape.

    Parameters
    ----------
    network, loss
        On a CUDA device, in training mode. Their parameters and buffers are left as they are. A loss whose
        ``recordable`` is False, because its work depends on what is in a minibatch, is called as before.
    batch, labels
        A minibatch: later ones must have its shapes.
    precise
        Whether the network runs in float32, not under autocast to bfloat16.
    """
    buffers = [b for module in (network, loss) for b in module.buffers()]
    before = [b.clone() for b in buffers]
    modules: list[nn.Module] = [network]
    with torch.autocast("cuda", torch.bfloat16, enabled=not precise, cache_enabled=False):
        with torch.no_grad():
            outputs = network(batch)
        samples: list[tuple[Tensor, ...]] = [(batch.clone(memory_format=torch.preserve_format),)]
        if getattr(loss, "recordable", True):
            modules.append(loss)
            samples.append((outputs.detach().clone().requires_grad_(), labels.clone()))
        torch.cuda.make_graphed_callables(tuple(modules), tuple(samples))
    for buffer, value in zip(buffers, before, strict=True):
        buffer.copy_(value)  # warming up and recording changed them
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_STREAMS)
            yield
    finally:
        for module in modules:
            del module.forward  # back to the method of the class
