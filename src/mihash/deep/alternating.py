"""Training of a network of full layers by alternating directions: the form of VDSH with dual variables.

The outputs of each layer are variables of their own, for each example, and that they are what the layer makes of
its inputs is a constraint. A sweep solves one small problem after the other in closed form: the variables from the
codes down to the first layer, then the matrix of each layer by itself, then the duals, which add up by how much
each constraint is still broken.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .full_layers import Layers, fit_layer, go_forward, signs, with_one


class Constants(NamedTuple):
    """The weights of a sweep.

    Attributes
    ----------
    mu
        Of the quantisation error.
    beta
        Of a broken constraint.
    rho
        How strongly a layer is held where it was; see `fit_layer`.
    dual
        Which share of a broken constraint its dual takes over in a sweep; 0 is the method of penalties.
    """

    mu: float
    beta: float
    rho: float
    dual: float


class Split(NamedTuple):
    """The variables for the layers' outputs, and the duals of their constraints, all (examples, nodes).

    Attributes
    ----------
    linear
        z of each hidden layer, then h of the codes' layer: the linear outputs. Constraint: z = [a, 1] W, where a
        comes from the layer below.
    rectified
        a of each hidden layer. Constraint: a = relu(z).
    linear_duals, rectified_duals
        The scaled duals of both: a constraint l = r costs beta / 2 ||l - r + dual||^2.
    """

    linear: list[Tensor]
    rectified: list[Tensor]
    linear_duals: list[Tensor]
    rectified_duals: list[Tensor]


def split_layers(layers: Layers, inputs: Tensor, targets: Tensor) -> Split:
    """Return the variables where every constraint holds and every dual is 0."""
    linear = go_forward(layers, inputs, targets).outputs
    rectified = [z.relu() for z in linear[:-1]]
    return Split(
        linear, rectified, [torch.zeros_like(z) for z in linear], [torch.zeros_like(a) for a in rectified]
    )


def sweep(layers: Layers, split: Split, inputs: Tensor, targets: Tensor, constants: Constants) -> None:
    """Move variables, layers and duals once; all are changed in place.

    Examples
    --------
    >>> one = torch.tensor([[1.0], [0.0]])
    >>> layers, x, y = Layers([one.clone()], one.clone(), one.clone()), torch.ones(1, 1), torch.zeros(1, 1)
    >>> split = split_layers(layers, x, y)
    >>> sweep(layers, split, x, y, Constants(mu=0.0, beta=1.0, rho=1e9, dual=1.0))
    >>> [value.item() for value in (*split.linear, *split.rectified)]  # z, h, a
    [0.875, 0.5, 0.75]
    """
    mu, beta, rho, dual = constants
    z, a, u, v = split
    made = _made(layers, inputs, a)
    z[-1].copy_(_codes(layers.classes, z[-1], made[-1] - u[-1], targets, mu, beta))
    for m in reversed(range(len(a))):
        above = layers.hidden[m + 1] if m + 1 < len(a) else layers.codes
        a[m].copy_(_rectified(above, z[m + 1] + u[m + 1], z[m].relu() - v[m]))
        z[m].copy_(rectified_fit(made[m] - u[m], a[m] + v[m]))
    activities = [with_one(each) for each in (inputs, *a, z[-1])]
    wanted = [*(output + missing for output, missing in zip(z, u, strict=True)), targets]
    for W, activity, aim in zip((*layers.hidden, layers.codes, layers.classes), activities, wanted, strict=True):
        W.copy_(fit_layer(W, activity, aim, rho))
    for output, missing, now in zip(z, u, _made(layers, inputs, a), strict=True):
        missing.add_(output - now, alpha=dual)
    for output, missing, below in zip(a, v, z[:-1], strict=True):
        missing.add_(output - below.relu(), alpha=dual)


def rectified_fit(linear: Tensor, rectified: Tensor) -> Tensor:
    """Return argmin over z of (z - linear)^2 + (relu(z) - rectified)^2, element by element.

    Where z is above 0 it is the mean of both, else the linear one; the cheaper is taken.

    Examples
    --------
    >>> rectified_fit(torch.tensor([1.0, -1.0, -1.0]), torch.tensor([2.0, 0.5, 5.0]))
    tensor([ 1.5000, -1.0000,  2.0000])
    """
    above, below = ((linear + rectified) / 2).clamp(min=0), linear.clamp(max=0)
    costs = [(z - linear).square() + (z.relu() - rectified).square() for z in (above, below)]
    return torch.where(costs[0] <= costs[1], above, below)


def _made(layers: Layers, inputs: Tensor, rectified: list[Tensor]) -> list[Tensor]:
    """Return what each layer makes of the variable below it."""
    below = (inputs, *rectified)
    return [with_one(each) @ W for each, W in zip(below, (*layers.hidden, layers.codes), strict=True)]


def _codes(classes: Tensor, codes: Tensor, made: Tensor, targets: Tensor, mu: float, beta: float) -> Tensor:
    """Return argmin over h of 1/2 ||y - [h, 1] U||^2 + mu / 2 ||sgn(codes) - h||^2 + beta / 2 ||h - made||^2."""
    U, offset = classes[:-1], classes[-1]
    gram = U @ U.T
    gram.diagonal().add_(mu + beta)
    wanted = (targets - offset) @ U.T + mu * signs(codes) + beta * made
    return torch.cholesky_solve(wanted.T, torch.linalg.cholesky(gram)).T


def _rectified(above: Tensor, wanted: Tensor, rectified: Tensor) -> Tensor:
    """Return argmin over a of ||[a, 1] W - wanted||^2 + ||a - rectified||^2, W the layer above."""
    W, offset = above[:-1], above[-1]
    few = W.shape[1] < W.shape[0]
    rest = wanted - offset - rectified @ W
    gram = W.T @ W if few else W @ W.T
    gram.diagonal().add_(1.0)
    factor = torch.linalg.cholesky(gram)
    if few:
        return rectified + torch.cholesky_solve(rest.T, factor).T @ W.T
    return rectified + torch.cholesky_solve((rest @ W.T).T, factor).T
