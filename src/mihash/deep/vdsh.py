"""VDSH: a very deep network of full layers, trained layer by layer (Zhang, Chen, Saligrama, CVPR 2016; Table 1).

Every layer has an auxiliary variable for what should come out of it, so that a step of training falls apart into
small problems. In the form of steps, the auxiliary variables of a minibatch move by a gradient step from the last
layer to the first, and then each layer on its own is fitted to its variable by regularised least squares. In the
alternating form they are variables of all examples, tied to the layers by dual variables.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import validation
from ..batch.batch_method import FIRST, Progress
from ..mapping.network import NetworkMapping
from ..neighbors import Labels
from .alternating import Constants, split_layers, sweep
from .device import find_device
from .full_layers import TINY, Layers, first_layers, fit_layer, go_forward
from .torch_method import DeepLearner

TRAININGS = ("steps", "alternating")


class VDSH(DeepLearner):
    """A deep network whose last layer predicts the classes linearly from the codes, sgn(h).

    Minimises the mean over the examples of 1/2 ||y - [h, 1] U||^2 + mu / 2 ||sgn(h) - h||^2, with h = [a_M, 1] V
    the real codes and a_m = relu([a_m-1, 1] W_m) the hidden layers.

    ``training="steps"``: for a minibatch, the auxiliary variable of a layer's linear output z is
    z* = z - tau dL/dz (`auxiliary_targets`); then the layer is the one that fits it best and stays near where it
    was, W <- argmin ||[a, 1] W - z*||^2 + rho ||W - W_old||^2 (`fit_layer`).

    ``training="alternating"``: z and a are variables of every example, and z = [a, 1] W and a = relu(z) are
    constraints with dual variables. An epoch is a sweep over all data: h, then a and z from the last layer to the
    first, then all layers, then the duals (`mihash.deep.alternating.sweep`).

    Parameters
    ----------
    n_bits
        The code length b.
    n_layers, n_nodes
        How many hidden layers, and how wide they are.
    training
        ``"steps"`` or ``"alternating"``.
    epochs, batch_size
        How often to go through the data, and by how many items; a sweep takes all.
    mu
        The weight of the quantisation error.
    tau
        Steps: how far auxiliary variables move, in units of the inverse curvature of the loss over the number of
        layers.
    rho
        How strongly a layer is held where it was, in units of the mean square of its inputs over the minibatch.
    decay
        Steps: what tau has fallen to after the last epoch, as a share; it falls evenly on a logarithmic scale.
    beta
        Alternating: the weight of a broken constraint.
    dual
        Alternating: the share of a violated constraint that its dual takes over in a sweep; 0 uses no duals.
    patience
        Stop after ``patience`` epochs that did not lower the loss; None runs all epochs.
    seed
        Seeds the first layers and the order.
    device
        Where to learn: ``"cpu"`` or ``"cuda"``. The mapping needs no GPU.

    References
    ----------
    Z. Zhang, Y. Chen, V. Saligrama, "Efficient training of very deep neural networks for supervised hashing", CVPR
    2016.

    Notes
    -----
    The publication's text was not available: what is known of it (full layers of equal width, rectified, a
    regularised least-squares loss on the codes, auxiliary variables for the outputs of each layer in the manner of
    ADMM, layer-wise updates) is kept; the constants are this project's. The publication also has local copies of
    the weights as variables; here neither form has.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = VDSH(n_bits=16, n_layers=3, n_nodes=64, epochs=10).fit(data.X[:1000], data.y[:1000])
    >>> codes, queries = mapping.encode(data.X[:1000]), mapping.encode(data.X[1000:])
    >>> round(mihash.mean_average_precision(queries, codes, (data.y[1000:], data.y[:1000]), n_bits=16), 1)
    0.9
    """

    name = "vdsh"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        n_layers: int = 16,
        n_nodes: int = 1024,
        training: str = "steps",
        epochs: int = 20,
        batch_size: int = 100,
        mu: float = 0.03,
        tau: float = 4.0,
        rho: float = 1.0,
        decay: float = 0.1,
        beta: float = 1.0,
        dual: float = 1.0,
        patience: int | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        super().__init__(n_bits, seed, epochs, batch_size, patience)
        self.n_layers = validation.integer("n_layers", n_layers, minimum=1)
        self.n_nodes = validation.integer("n_nodes", n_nodes, minimum=1)
        self.training = validation.choice("training", training, TRAININGS)
        self.mu = validation.number("mu", mu, minimum=0)
        self.tau = validation.number("tau", tau, above=0)
        self.rho = validation.number("rho", rho, above=0)
        self.decay = validation.number("decay", decay, above=0)
        self.beta = validation.number("beta", beta, above=0)
        self.dual = validation.number("dual", dual, minimum=0)
        self.device = str(find_device(device))

    @torch.no_grad()
    def learn(self, X: NDArray[np.float32], y: Labels | None, progress: Progress) -> NetworkMapping:
        """Go through the data, minibatch by minibatch or in sweeps."""
        assert y is not None
        mean = X.mean(axis=0, dtype=np.float64)
        spread = float(np.sqrt(np.square(X - mean).mean())) or 1.0
        inputs = torch.from_numpy(((X - mean) / spread).astype(np.float32)).to(self.device)
        targets = _targets(y).to(self.device)
        sizes = (inputs.shape[1], self.n_layers, self.n_nodes, self.n_bits, targets.shape[1])
        first = first_layers(*sizes, self.torch_generator(FIRST))
        layers = Layers([W.to(self.device) for W in first.hidden], *(W.to(self.device) for W in first[1:]))
        if self.training == "alternating":
            self._alternate(layers, inputs, targets, progress)
        else:
            self._take_steps(layers, inputs, targets, progress)
        return _mapping(layers, mean, spread)

    def _alternate(self, layers: Layers, inputs: Tensor, targets: Tensor, progress: Progress) -> None:
        """Sweep over all data; the history is the loss of the network itself, whatever its constraints."""
        split = split_layers(layers, inputs, targets)
        for epoch in range(self.epochs):
            sweep(layers, split, inputs, targets, Constants(self.mu, self.beta, self.rho, self.dual))
            self.history.append(go_forward(layers, inputs, targets).loss(self.mu))
            progress(epoch + 1, self.epochs)
            if self.stalled():
                break

    def _take_steps(self, layers: Layers, inputs: Tensor, targets: Tensor, progress: Progress) -> None:
        def step(rows: Tensor, number: int, n_steps: int) -> float:
            epoch = number * self.epochs // n_steps
            tau = self.tau * self.decay ** (epoch / max(1, self.epochs - 1))
            return self._step(layers, inputs[rows], targets[rows], tau)

        self.go_through(len(inputs), step, progress)

    def _step(self, layers: Layers, inputs: Tensor, targets: Tensor, tau: float) -> float:
        """Move all layers by one minibatch; return its loss before."""
        activities, wanted, loss = auxiliary_targets(layers, inputs, targets, tau, self.mu)
        matrices = [*layers.hidden, layers.codes, layers.classes]
        for matrix, activity, aim in zip(matrices, activities, wanted, strict=True):
            matrix.copy_(fit_layer(matrix, activity, aim, self.rho))
        return loss


def auxiliary_targets(
    layers: Layers, inputs: Tensor, targets: Tensor, tau: float, mu: float
) -> tuple[list[Tensor], list[Tensor], float]:
    """Return what comes into each layer, what should come out of it, and the loss.

    From the last layer to the first, what should come out is z* = z - tau / (s M) dL/dz, where s = ||U||_2^2 + mu
    is the curvature of an example's loss and M the number of layers that move it; of the classifier, the classes.

    Examples
    --------
    >>> one = torch.tensor([[1.0], [0.0]])
    >>> _, wanted, loss = auxiliary_targets(Layers([one], one, one), torch.ones(1, 1), torch.zeros(1, 1), 0.5, 0.0)
    >>> [z.item() for z in wanted], loss  # hidden, codes, classes
    ([0.75, 0.75, 0.0], 0.5)
    """
    activities, outputs, errors, rounding = forward = go_forward(layers, inputs, targets)
    curvature = float(torch.linalg.matrix_norm(layers.classes[:-1], ord=2)) ** 2 + mu
    step = tau / max(curvature, TINY) / len(outputs)
    slope = errors @ layers.classes[:-1].T + mu * rounding
    wanted = [targets, outputs[-1] - step * slope]
    following = layers.codes
    for W, z in zip(layers.hidden[::-1], outputs[-2::-1], strict=True):
        slope = (slope @ following[:-1].T) * (z > 0)
        wanted.append(z - step * slope)
        following = W
    return activities, wanted[::-1], forward.loss(mu)


def _targets(y: Labels) -> Tensor:
    """Return Y (n, classes), 1 where an example has a class and -1 elsewhere."""
    if y.ndim == 2:
        return torch.from_numpy(2.0 * y.astype(np.float32) - 1)
    classes, which = np.unique(y, return_inverse=True)
    return torch.from_numpy(2.0 * np.eye(len(classes), dtype=np.float32)[which] - 1)


def _mapping(layers: Layers, mean: NDArray[np.float64], spread: float) -> NetworkMapping:
    """Return the network up to the codes as plain arrays that take features as they are."""
    matrices = [W.double().cpu().numpy() for W in (*layers.hidden, layers.codes)]
    weights, offsets = [W[:-1] for W in matrices], [W[-1] for W in matrices]
    weights[0] = weights[0] / spread
    offsets[0] = offsets[0] - mean @ weights[0]
    return NetworkMapping(weights, offsets)
