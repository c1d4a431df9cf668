"""DPSH and DTSH: the losses against plain loops, the learners on fixed features."""

import numpy as np
import pytest
import torch

import mihash
import oracles_deep as oracles
from mihash.deep import DPSH, DTSH, DPSHLoss, DTSHLoss, dtsh
from mihash.errors import InvalidInput
from mihash.mapping import LinearMapping, mapping_from_state

LOSSES = [
    (lambda: DPSHLoss(5, eta=0.3), lambda u, y: oracles.dpsh_loss(u, y, 0.3)),
    (lambda: DTSHLoss(5, lambda_=0.3), lambda u, y: oracles.dtsh_loss(u, y, 5 / 4, 0.3)),
    (lambda: DTSHLoss(5, alpha=2.0, lambda_=0.0), lambda u, y: oracles.dtsh_loss(u, y, 2.0, 0.0)),
]


def problem(seed, multi=False, n=9, n_bits=5):
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, 3)) > 0.6).astype(np.int64) if multi else rng.integers(0, 3, n)
    return rng.standard_normal((n, n_bits)), labels


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize(("make", "oracle"), LOSSES)
def test_loss_is_the_formula(make, oracle, multi):
    for seed in range(3):
        outputs, labels = problem(seed, multi)
        value = make()(torch.tensor(outputs), torch.tensor(labels)).item()
        assert value == pytest.approx(oracle(outputs, labels), abs=1e-10)


@pytest.mark.parametrize(("make", "oracle"), LOSSES)
def test_gradient_by_central_differences(make, oracle):
    outputs, labels = problem(0)
    tensor = torch.tensor(outputs, requires_grad=True)
    make()(tensor, torch.tensor(labels)).backward()
    numeric = np.zeros_like(outputs)
    for place in np.ndindex(outputs.shape):
        step = np.zeros_like(outputs)
        step[place] = 1e-5
        numeric[place] = (oracle(outputs + step, labels) - oracle(outputs - step, labels)) / 2e-5
    assert np.abs(tensor.grad.numpy() - numeric).max() <= 1e-8
    assert torch.autograd.gradcheck(lambda x: make()(x, torch.tensor(labels)), (tensor,))


def test_triplets_are_looked_at_in_parts(monkeypatch):
    outputs, labels = problem(1)
    whole = DTSHLoss(5)(torch.tensor(outputs), torch.tensor(labels)).item()
    monkeypatch.setattr(dtsh, "_TRIPLETS", 50)
    assert DTSHLoss(5)(torch.tensor(outputs), torch.tensor(labels)).item() == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("labels", [[0] * 6, list(range(6)), [0, 0, 0, 1, 1, 1]])
@pytest.mark.parametrize("make", [DPSHLoss, DTSHLoss])
def test_degenerate_minibatches(make, labels, dtype):
    for spread in (0.0, 1.0, 100.0):
        outputs = (
            (torch.randn(6, 8, generator=torch.Generator().manual_seed(0)) * spread).to(dtype).requires_grad_()
        )
        value = make(8)(outputs, torch.tensor(labels))
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(outputs.grad).all()


def test_bad_input():
    with pytest.raises(InvalidInput):
        DPSHLoss(4)(torch.zeros(3, 5), torch.zeros(3))
    with pytest.raises(InvalidInput):
        DTSHLoss(4, lambda_=-1.0)
    with pytest.raises(InvalidInput):
        DPSH(epochs=0)
    with pytest.raises(InvalidInput):
        DTSH(8).fit(np.zeros((3, 4)), [0, 1])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 700)
    X = 3 + rng.standard_normal((5, 12))[y] + 0.8 * rng.standard_normal((700, 12))
    return X.astype(np.float32), y


@pytest.mark.parametrize("method", [DPSH, DTSH])
def test_learners_lower_their_loss_and_separate_classes(method, data):
    X, y = data
    before, calls = X.copy(), []
    learner = method(n_bits=12, epochs=8, batch_size=64)
    mapping = learner.fit(X[:500], y[:500], progress=lambda *call: calls.append(call))
    assert np.array_equal(X, before)
    assert isinstance(mapping, LinearMapping)
    assert calls == [(i, 8) for i in range(1, 9)]
    assert len(learner.history) == 8
    assert learner.history[-1] < learner.history[0]
    lsh = mihash.online.LSH(n_bits=12)
    lsh.start(12)
    learned, random = (
        mihash.mean_average_precision(m.encode(X[500:]), m.encode(X[:500]), (y[500:], y[:500]), 12)
        for m in (mapping, lsh.mapping)
    )
    assert learned > random + 0.2
    assert method(**learner.parameters()).fit(X[:500], y[:500]) == mapping  # the same seed, the same bits
    assert mapping_from_state(mapping.state()) == mapping


@pytest.mark.parametrize("method", [DPSH, DTSH])
def test_the_papers_schedule_learns_too(method, data):
    X, y = data
    options = {"n_bits": 12, "epochs": 8, "batch_size": 64, "learning_rate": 1.0}
    learner = method(**options, optimizer="sgd")
    mapping = learner.fit(X[:500], y[:500])
    assert learner.history[-1] < learner.history[0]
    assert mapping != method(**options).fit(X[:500], y[:500])
    with pytest.raises(InvalidInput, match="`optimizer` must be one of 'adam', 'sgd'"):
        method(optimizer="lbfgs")


def test_multi_labels_and_early_stop(data):
    X, y = data
    Y = np.eye(5, dtype=np.uint8)[y]
    learner = DPSH(n_bits=8, epochs=50, learning_rate=1e-9, patience=2)
    learner.fit(X, Y)
    assert len(learner.history) < 10
