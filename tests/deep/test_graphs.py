"""A recorded training is the training itself; only a CUDA device can show it."""

import numpy as np
import pytest
import torch

from mihash.deep import DPSHLoss, DTSHLoss, MutualInformationLoss, Trainer, build_network
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
        epochs=3,
        batch_size=128,
        learning_rate=0.1,
        precision="float32",
        graphed=graphed,
        device=device,
    )
    history = trainer.fit(X, y)
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
    assert np.mean((outputs > 0) == (expected > 0)) > 0.95


def test_there_are_no_graphs_without_a_gpu():
    with pytest.raises(InvalidInput, match="graphed"):
        trained(lambda: MutualInformationLoss(16), graphed=True, device="cpu")
