from itertools import pairwise

import numpy as np
import pytest
import torch

import mihash
from mihash.deep import VDSH
from mihash.deep.full_layers import Layers, fit_layer
from mihash.deep.vdsh import auxiliary_targets
from mihash.errors import InvalidInput, NotReady
from mihash.mapping import NetworkMapping, mapping_from_state


def layers_of(rng, widths=(4, 5, 5), n_bits=3, n_classes=2):
    hidden = [torch.tensor(rng.standard_normal((a + 1, b))) for a, b in pairwise(widths)]
    codes, classes = rng.standard_normal((widths[-1] + 1, n_bits)), rng.standard_normal((n_bits + 1, n_classes))
    return Layers(hidden, torch.tensor(codes), torch.tensor(classes))


def example_loss(layers, outputs, level, target, mu):
    """The loss of one example as plain loops, from the linear output of a layer on."""
    z = list(outputs)
    matrices = [W.numpy() for W in (*layers.hidden, layers.codes, layers.classes)]
    n_hidden = len(layers.hidden)
    total = 0.0
    for m in range(level, len(matrices)):
        if m == n_hidden:
            total += mu / 2 * sum(((1 if value > 0 else -1) - value) ** 2 for value in z)
        if m == len(matrices) - 1:
            return total + sum((a - b) ** 2 for a, b in zip(z, target, strict=True)) / 2
        a = [max(value, 0.0) for value in z] if m < n_hidden else z
        W = matrices[m + 1]
        z = [sum(a[i] * W[i, j] for i in range(len(a))) + W[-1, j] for j in range(W.shape[1])]
    raise AssertionError


def test_auxiliary_variables_move_down_the_gradient():
    """Against central differences of the loss as plain loops, at every layer."""
    rng = np.random.default_rng(0)
    layers, tau, mu = layers_of(rng), 0.7, 0.2
    inputs, targets = torch.tensor(rng.standard_normal((6, 4))), torch.tensor(rng.choice([-1.0, 1.0], (6, 2)))
    activities, wanted, loss = auxiliary_targets(layers, inputs, targets, tau, mu)
    matrices = [*layers.hidden, layers.codes, layers.classes]
    curvature = np.linalg.norm(layers.classes[:-1].numpy(), ord=2) ** 2 + mu
    step = tau / curvature / 3
    outputs = [(a @ W).numpy() for a, W in zip(activities, matrices, strict=True)]
    losses = [example_loss(layers, outputs[0][i], 0, targets[i].numpy(), mu) for i in range(6)]
    assert loss == pytest.approx(np.mean(losses))
    for level in range(3):
        for i in range(6):
            for j in range(outputs[level].shape[1]):
                moved = [outputs[level][i].copy() for _ in range(2)]
                moved[0][j] += 1e-6
                moved[1][j] -= 1e-6
                up, down = (example_loss(layers, z, level, targets[i].numpy(), mu) for z in moved)
                expected = outputs[level][i, j] - step * (up - down) / 2e-6
                assert float(wanted[level][i, j]) == pytest.approx(expected, abs=1e-6)
    assert torch.equal(wanted[-1], targets)


@pytest.mark.parametrize("n", [3, 40])
def test_a_layer_is_the_minimum_of_its_problem(n):
    """The gradient of ||X V - Z||^2 + r ||V - W||^2 is 0 there, in both forms of the solution."""
    rng = np.random.default_rng(n)
    X, Z, W = (torch.tensor(rng.standard_normal(shape)) for shape in ((n, 6), (n, 2), (6, 2)))
    V = fit_layer(W, X, Z, rho=0.3)
    r = 0.3 * float((X**2).sum()) / 6
    assert (X.T @ (X @ V - Z) + r * (V - W)).abs().max() < 1e-10


@pytest.fixture(scope="module")
def data():
    data = mihash.datasets.digits()
    return data.X, data.y


@pytest.mark.parametrize("n_layers", [1, 16])
def test_the_loss_falls_and_classes_separate(n_layers, data):
    X, y = data
    calls = []
    learner = VDSH(n_bits=12, n_layers=n_layers, n_nodes=48, epochs=8)
    mapping = learner.fit(X[:600], y[:600], progress=lambda *call: calls.append(call))
    assert calls[-1] == (8, 8)
    assert learner.history[-1] < 0.5 * learner.history[0]
    assert isinstance(mapping, NetworkMapping)
    codes, queries = mapping.encode(X[:600]), mapping.encode(X[600:1000])
    lsh = mihash.online.LSH(n_bits=12)
    lsh.start(64)
    random = [lsh.mapping.encode(part - X[:600].mean(axis=0)) for part in (X[600:1000], X[:600])]
    learned, start = (
        mihash.mean_average_precision(*pair, (y[600:1000], y[:600]), 12) for pair in ((queries, codes), random)
    )
    assert learned > start
    assert VDSH(**learner.parameters()).fit(X[:600], y[:600]) == mapping
    assert mapping_from_state(mapping.state()) == mapping


def test_a_full_minibatch_lowers_the_loss_at_every_step(data):
    X, y = data
    learner = VDSH(n_bits=8, n_layers=4, n_nodes=32, epochs=12, batch_size=300, tau=0.5, decay=1.0)
    learner.fit(X[:300], y[:300])
    assert (np.diff(learner.history) < 0).all()


def test_it_stops_when_the_loss_no_longer_falls(data):
    X, y = data
    learner = VDSH(n_bits=4, n_layers=2, n_nodes=8, epochs=30, tau=1e-9, batch_size=300, rho=1e9, patience=2)
    learner.fit(X[:300], y[:300])
    assert len(learner.history) == 3
    with pytest.raises(InvalidInput, match="`patience`"):
        VDSH(patience=0)


def test_multi_labels_and_refusals(data):
    X, y = data
    small = {"n_bits": 4, "n_layers": 2, "n_nodes": 8, "epochs": 2}
    assert VDSH(**small).fit(X[:200], np.eye(10, dtype=np.uint8)[y[:200]]).n_bits == 4
    with pytest.raises(InvalidInput, match="give `y`"):
        VDSH(**small).fit(X)
    with pytest.raises(InvalidInput, match="2 classes"):
        VDSH(**small).fit(X[:9], np.zeros(9, dtype=int))
    with pytest.raises(InvalidInput):
        VDSH(n_layers=0)
    with pytest.raises(NotReady, match="diverged"):
        VDSH(**small, tau=1e30).fit(X[:200], y[:200])
