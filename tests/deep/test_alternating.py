import numpy as np
import pytest
import torch

import mihash
import oracles_alternating as oracle
from mihash.deep import VDSH
from mihash.deep.alternating import Constants, rectified_fit, split_layers, sweep
from mihash.deep.full_layers import Layers, first_layers, go_forward
from mihash.errors import InvalidInput
from mihash.mapping import NetworkMapping

SMALL = {"n_bits": 12, "n_layers": 3, "n_nodes": 48, "training": "alternating"}


def problem(seed=0, n=9, depth=2, n_nodes=5):
    """Layers with noise in the variables and the duals, so that no constraint holds."""
    rng = np.random.default_rng(seed)
    layers = first_layers(4, depth, n_nodes, 3, 2, torch.Generator().manual_seed(seed))
    layers = Layers([W.double() for W in layers.hidden], layers.codes.double(), layers.classes.double())
    X, Y = torch.tensor(rng.standard_normal((n, 4))), torch.tensor(rng.choice([-1.0, 1.0], (n, 2)))
    split = split_layers(layers, X, Y)
    for group in split:
        for each in group:
            each.add_(torch.tensor(0.3 * rng.standard_normal(each.shape)))
    return layers, split, X, Y


@pytest.mark.parametrize("n_nodes", [2, 5])
@pytest.mark.parametrize("dual", [0.0, 0.7])
def test_a_sweep_is_that_of_plain_loops(dual, n_nodes):
    layers, split, X, Y = problem(n_nodes=n_nodes)
    expected = oracle.sweep(
        [W.numpy() for W in (*layers.hidden, layers.codes)],
        layers.classes.numpy(),
        *([each.numpy() for each in group] for group in split),
        X.numpy(),
        Y.numpy(),
        *(constants := Constants(mu=0.2, beta=0.6, rho=0.1, dual=dual)),
    )
    sweep(layers, split, X, Y, constants)
    found = ([*layers.hidden, layers.codes], [layers.classes], *split)
    for ours, theirs in zip(found, (expected[0], [expected[1]], *expected[2:]), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert np.allclose(one.numpy(), other, atol=1e-10)


def objective(layers, split, X, Y, mu, beta):
    """What a sweep without duals lowers."""
    z, a, _, _ = split
    total = float((torch.cat([z[-1], torch.ones(len(X), 1)], 1) @ layers.classes - Y).square().sum())
    total += mu * float((z[-1] - torch.where(z[-1] > 0, 1.0, -1.0)).square().sum())
    for below, W, made in zip((X, *a), (*layers.hidden, layers.codes), z, strict=True):
        total += beta * float((torch.cat([below, torch.ones(len(X), 1)], 1) @ W - made).square().sum())
    return total + beta * sum(float((x - y.relu()).square().sum()) for x, y in zip(a, z[:-1], strict=True))


def test_without_duals_every_sweep_lowers_the_objective():
    layers, split, X, Y = problem(n=30)
    for each in (*split.linear_duals, *split.rectified_duals):
        each.zero_()
    values = [objective(layers, split, X, Y, 0.2, 0.6)]
    for _ in range(20):
        sweep(layers, split, X, Y, Constants(0.2, 0.6, 0.05, dual=0.0))
        values.append(objective(layers, split, X, Y, 0.2, 0.6))
    assert (np.diff(values) < 1e-9).all()
    assert values[-1] < 0.5 * values[0]


def test_duals_close_what_penalties_leave_open():
    """The variables come nearer to what the network makes of its inputs."""
    apart = []
    for dual in (0.0, 1.0):
        layers, split, X, Y = problem(seed=2, n=30)
        for each in (*split.linear_duals, *split.rectified_duals):
            each.zero_()
        for _ in range(300):
            sweep(layers, split, X, Y, Constants(mu=0.0, beta=0.3, rho=1.0, dual=dual))
        apart.append(float((go_forward(layers, X, Y).outputs[-1] - split.linear[-1]).square().mean()))
    assert apart[1] < 0.5 * apart[0]


def test_an_output_is_the_cheaper_of_two():
    rng = np.random.default_rng(1)
    q, s = rng.standard_normal((2, 200))
    grid = np.linspace(-4, 4, 8001)
    costs = (grid - q[:, None]) ** 2 + (np.maximum(grid, 0) - s[:, None]) ** 2
    z = rectified_fit(torch.tensor(q), torch.tensor(s)).numpy()
    cost = (z - q) ** 2 + (np.maximum(z, 0) - s) ** 2
    assert (cost <= costs.min(axis=1) + 1e-12).all()


def test_classes_separate():
    data = mihash.datasets.digits()
    X, y = data.X, data.y
    calls = []
    learner = VDSH(**SMALL, epochs=40, beta=0.1, rho=1.0)
    mapping = learner.fit(X[:600], y[:600], progress=lambda *call: calls.append(call))
    assert calls[-1] == (40, 40)
    assert learner.history[-1] < 0.5 * learner.history[0]
    assert isinstance(mapping, NetworkMapping)
    codes, queries = mapping.encode(X[:600]), mapping.encode(X[600:1000])
    assert mihash.mean_average_precision(queries, codes, (y[600:1000], y[:600]), 12) > 0.4
    assert VDSH(**learner.parameters()).fit(X[:600], y[:600]) == mapping


def test_refusals():
    for bad, message in (
        ({"training": "admm"}, "`training` must be one of 'steps', 'alternating'"),
        ({"beta": 0}, "`beta` must be"),
        ({"dual": -1}, "`dual` must be"),
        ({"device": "gpu"}, "There is no device 'gpu'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            VDSH(**bad)
