"""The losses of mihash.deep: value and gradient of a minibatch beside a whole training step.

On a CUDA device where there is one. Needs ``pip install 'mihash[deep]'``.
"""

import time
from typing import Any

import numpy as np

from .clock import best, timed
from .report import console, show_grid

N_BITS, BATCH, N_CLASSES, N_STEPS = 64, 256, 10, 4
ROUNDS = 5


def loss_seconds(torch: Any, loss: Any, device: str) -> float:
    """Return the seconds of a loss and its gradient on random codes, without a network."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(BATCH, N_BITS, generator=generator).tanh().to(device).requires_grad_()
    labels = torch.randint(0, N_CLASSES, (BATCH,), generator=generator).to(device)
    loss = loss.to(device)

    def clock() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    work = timed(lambda: loss(codes, labels).backward(), repeats=10, clock=clock)
    return best({"loss": work}, ROUNDS)["loss"]


def step_seconds(deep: Any, loss: Any, scale: float | None, device: str) -> float:
    """Return the seconds of a training step of a residual network: of the quickest epoch after the first."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (N_STEPS * BATCH, 3, 32, 32), dtype=np.uint8)
    y = rng.integers(0, N_CLASSES, len(X))
    network = deep.build_network("resnet", N_BITS, width=64 if device == "cuda" else 4, scale=scale)
    trainer = deep.Trainer(
        network,
        loss,
        epochs=ROUNDS if device == "cuda" else 2,
        batch_size=BATCH,
        learning_rate=0.01,
        augmentation=deep.Augmentation(),
        device=device,
    )
    return min(epoch.seconds for epoch in trainer.fit(X, y)[1:]) / N_STEPS


def run() -> None:
    try:
        import torch

        from mihash import deep
    except ImportError as error:
        console.print(f"losses: {error}")
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    makes = {
        "MIHash": (deep.MutualInformationLoss, 2.0),
        "DPSH": (deep.DPSHLoss, None),
        "DTSH": (deep.DTSHLoss, None),
    }
    rows = []
    for name, (make, scale) in makes.items():
        loss = loss_seconds(torch, make(N_BITS), device)
        step = step_seconds(deep, make(N_BITS), scale, device)
        rows.append((name, f"{1e3 * loss:.2f}", f"{1e3 * step:.2f}", f"{100 * loss / step:.1f} %"))
    title = f"Losses, {BATCH} codes of {N_BITS} bits, {deep.device_name(device)}: ms"
    show_grid(title, ("what", "loss", "training step", "share"), rows)
