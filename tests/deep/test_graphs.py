"""A recorded training is the training itself; only a CUDA device can show that."""

import contextlib

import numpy as np
import pytest
import torch

from mihash.deep import DPSHLoss, DTSHLoss, MutualInformationLoss, Trainer, build_network
from mihash.deep import trainer as trainer_module
from mihash.errors import InvalidInput

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def trained(make_loss, graphed, device, n=600):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    X = (rng.random((4, 3, 32, 32))[y] * 200 + rng.random((n, 3, 32, 32)) * 55).astype(np.uint8)
    network = build_network("resnet", 16, width=8, scale=2.0, seed=1)
    trainer = Trainer(
        network,
        make_loss(),
        epochs=2,
        batch_size=128,
        learning_rate=0.02,
        precision="float32",
        graphed=graphed,
        device=device,
    )
    replayed = []
    history = trainer.fit(X, y, progress=lambda *_: replayed.append("forward" in vars(network)))
    assert replayed == [graphed, graphed]
    assert "forward" not in vars(network)
    return [epoch.loss for epoch in history], trainer.outputs(X[:100]).cpu().numpy()


@needs_cuda
@pytest.mark.parametrize(
    "make_loss",
    [
        lambda: MutualInformationLoss(16),
        lambda: MutualInformationLoss(16, memory=256),
        lambda: DPSHLoss(16),
        lambda: DTSHLoss(16),
    ],
    ids=["mihash", "mihash with a memory", "dpsh", "dtsh"],
)
def test_replaying_is_training(make_loss):
    losses, outputs = trained(make_loss, graphed=True, device="cuda")
    expected_losses, expected = trained(make_loss, graphed=False, device="cuda")
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-2)
    assert np.abs(outputs - expected).max() < 0.05


def test_a_training_is_recorded_once_and_from_where_it_is(monkeypatch, tmp_path):
    """Which part of a training is recorded can be seen without a GPU."""
    seen = []

    @contextlib.contextmanager
    def recorded(network, loss, batch, labels, precise):
        seen.append((network.training, loss.training, tuple(batch.shape), tuple(labels.shape), precise))
        yield
        seen.append("end")

    monkeypatch.setattr(trainer_module, "recorded", recorded)
    X, y = np.random.default_rng(0).random((30, 5)), np.arange(30) % 3

    def fit():
        trainer = Trainer(torch.nn.Linear(5, 8), DPSHLoss(8), epochs=2, batch_size=12)
        trainer.graphed = True
        trainer.fit(X, y, progress=lambda done, _: seen.append(done), checkpoint=tmp_path / "training.mihash")

    fit()
    assert seen == [(True, True, (12, 5), (12,), True), 1, 2, "end"]
    seen.clear()
    fit()  # nothing is left to do, nothing to record
    assert seen == []


def test_there_are_no_graphs_without_a_gpu():
    with pytest.raises(InvalidInput, match="graphed"):
        trained(lambda: MutualInformationLoss(16), graphed=True, device="cpu")
