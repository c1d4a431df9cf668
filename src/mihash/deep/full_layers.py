"""A network of full layers as matrices, what it computes, and the least squares that fit one of them: for VDSH."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

TINY = 1e-6


class Layers(NamedTuple):
    """A network as matrices: each layer is (inputs + 1, outputs), its last row the offset."""

    hidden: list[Tensor]
    codes: Tensor
    classes: Tensor


class Forward(NamedTuple):
    """What a network makes of a batch.

    Attributes
    ----------
    activities
        What comes into each layer, with a column of ones: the hidden layers, the codes' and the classes'.
    outputs
        The linear outputs of the hidden layers and of the codes' layer.
    errors
        What the classes are missed by.
    rounding
        The real codes less their signs.
    """

    activities: list[Tensor]
    outputs: list[Tensor]
    errors: Tensor
    rounding: Tensor

    def loss(self, mu: float) -> float:
        """Return the mean over the examples of 1/2 ||y - [h, 1] U||^2 + mu / 2 ||sgn(h) - h||^2."""
        return float(self.errors.square().sum() + mu * self.rounding.square().sum()) / (2 * len(self.errors))


def first_layers(
    n_features: int, n_layers: int, n_nodes: int, n_bits: int, n_classes: int, generator: torch.Generator
) -> Layers:
    """Return random layers that keep the size of what goes through them, with small classes."""

    def matrix(n_in: int, n_out: int, gain: float) -> Tensor:
        W: Tensor = torch.randn(n_in + 1, n_out, generator=generator) * (gain / n_in) ** 0.5
        W[-1] = 0
        return W

    widths = [n_features] + [n_nodes] * n_layers
    hidden = [matrix(a, b, 2.0) for a, b in pairwise(widths)]
    return Layers(hidden, matrix(n_nodes, n_bits, 1.0), matrix(n_bits, n_classes, 0.1))


def go_forward(layers: Layers, inputs: Tensor, targets: Tensor) -> Forward:
    """Send a batch through a network."""
    activities, outputs = [with_one(inputs)], []
    for W in layers.hidden:
        outputs.append(activities[-1] @ W)
        activities.append(with_one(outputs[-1].relu()))
    outputs.append(activities[-1] @ layers.codes)
    activities.append(with_one(outputs[-1]))
    errors = activities[-1] @ layers.classes - targets
    return Forward(activities, outputs, errors, outputs[-1] - signs(outputs[-1]))


def fit_layer(W: Tensor, inputs: Tensor, wanted: Tensor, rho: float) -> Tensor:
    """Return argmin over V of ||inputs V - wanted||^2 + r ||V - W||^2.

    r is rho times the sum over the minibatch of an input's squares, the mean of all inputs. Of the two forms of
    the solution, W + (X'X + r)^-1 X' R and W + X' (X X' + r)^-1 R, with R what is left to fit, the one with the
    smaller matrix is computed.

    Examples
    --------
    >>> fit_layer(torch.zeros(1, 1), torch.tensor([[1.0], [1.0]]), torch.tensor([[3.0], [3.0]]), rho=1.0)
    tensor([[1.5000]])
    """
    rest = wanted - inputs @ W
    held = rho * max(float(inputs.square().sum()) / inputs.shape[1], TINY)
    few = len(inputs) < inputs.shape[1]
    gram = inputs @ inputs.T if few else inputs.T @ inputs
    gram.diagonal().add_(held)
    factor = torch.linalg.cholesky(gram)
    if few:
        return W + inputs.T @ torch.cholesky_solve(rest, factor)
    return W + torch.cholesky_solve(inputs.T @ rest, factor)


def signs(values: Tensor) -> Tensor:
    """Return 1 where a value is above 0, and -1 elsewhere."""
    return torch.where(values > 0, 1.0, -1.0).to(values.dtype)


def with_one(inputs: Tensor) -> Tensor:
    """Return inputs with a column of ones, for the offset."""
    return torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1)
