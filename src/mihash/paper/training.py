"""Networks trained end to end and measured: Setting 2 of Table 1 (Sec. 4.3.2).

At the paper's sizes 50,000 images are learned from and searched, and 10,000 query them. Codes average the logits
of an image and its mirror image. ``measured/`` holds the results that come with the package.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ranking import mean_average_precision
from .datasets import Images
from .jobs import Job
from .learning_pass import pass_seed
from .results import machine, versions

N_VALIDATION = 5000
_NOT_SHARED = (
    *("learning_rate", "epochs", "scale", "n_bins", "memory", "classification"),
    *("gain", "quantization", "margin"),
)

Rows = NDArray[np.int64]
Warmed = dict[Any, tuple[Any, float]]


def device_of(device: str) -> str:
    """Return where to train: ``"auto"`` is a GPU where there is one. An unknown or missing device is an error.

    Examples
    --------
    >>> device_of("cpu")
    'cpu'
    """
    from ..deep.device import best_device, find_device

    return best_device() if device == "auto" else str(find_device(device))


def train_jobs(jobs: Sequence[Job], images: Images, device: str, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Train a network for each job and yield its result: mAP as ``"final"``, losses, sizes and times.

    Parameters
    ----------
    jobs
        Jobs of one code length and trial: those whose recipes warm up alike share that network.
    images
        CIFAR-10, or something small of its shape.
    device
        Where to train.
    seed
        The seed of the whole experiment.
    """
    warmed: Warmed = {}
    for job in jobs:
        yield _train(job, images, device, pass_seed(job.trial, seed), warmed)


def _train(job: Job, images: Images, device: str, seed: int, warmed: Warmed) -> dict[str, Any]:
    from .. import deep

    recipe = job.recipe
    learn, query, base = _split(images, job.validate)
    network, warm_up_s = _warm_up(job, images, learn, device, seed, warmed)
    network.scale, network.gain = recipe.scale, recipe.gain
    loss = _loss(job, int(images.y.max()) + 1, seed)
    trainer = _trainer(job, network, loss, recipe.epochs - recipe.warm_up_epochs, device, seed)
    history = trainer.fit(images.X[learn], images.y[learn])
    moments = [time.perf_counter()]
    query_codes, base_codes = (deep.tensors.packed(trainer.outputs(images.X[rows])) for rows in (query, base))
    moments.append(time.perf_counter())
    final = mean_average_precision(query_codes, base_codes, (images.y[query], images.y[base]), job.n_bits)
    moments.append(time.perf_counter())
    return {
        "final": final,
        "data": images.name,
        "sizes": {"learn": len(learn), "query": len(query), "base": len(base)},
        "losses": [epoch.loss for epoch in history],
        "distinct_codes": len(np.unique(base_codes, axis=0)),
        "times": {
            "warm_up": warm_up_s,
            "training": sum(epoch.seconds for epoch in history),
            "encoding": moments[1] - moments[0],
            "measuring": moments[2] - moments[1],
        },
        "machine": {**machine(), "device": deep.device_name(device)},
        "versions": versions() | {"torch": deep.torch_version()},
    }


def _split(images: Images, validate: bool) -> tuple[Rows, Rows, Rows]:
    """Return the rows to learn from, the queries and what they search."""
    train, test = np.flatnonzero(~images.is_test), np.flatnonzero(images.is_test)
    if not validate:
        return train, test, train
    shuffled = np.random.default_rng(0).permutation(train)
    n_queries = min(N_VALIDATION, len(train) // 10)
    rest = np.sort(shuffled[n_queries:])
    return rest, np.sort(shuffled[:n_queries]), rest


def _warm_up(job: Job, images: Images, rows: Rows, device: str, seed: int, warmed: Warmed) -> tuple[Any, float]:
    """Return a network that was trained as a classifier, and how many seconds that took."""
    from .. import deep

    recipe = job.recipe
    arguments = {"width": recipe.width} if recipe.network == "resnet" else {"image_size": 32}
    network = deep.build_network(
        recipe.network, job.n_bits, seed=seed, mirror=True, standardized=True, **arguments
    )
    if not recipe.warm_up_epochs:
        return network, 0.0
    key = tuple((name, value) for name, value in asdict(recipe).items() if name not in _NOT_SHARED)
    if key not in warmed:
        loss = deep.ClassificationLoss(job.n_bits, int(images.y.max()) + 1, seed=seed)
        trainer = _trainer(job, network, loss, recipe.warm_up_epochs, device, seed, classifier=True)
        history = trainer.fit(images.X[rows], images.y[rows])
        warmed[key] = (deep.tensors.arrays_of(network), sum(epoch.seconds for epoch in history))
    arrays, seconds = warmed[key]
    deep.tensors.load_arrays(network, arrays)
    return network, seconds


def _trainer(
    job: Job, network: Any, loss: Any, epochs: int, device: str, seed: int, classifier: bool = False
) -> Any:
    from .. import deep

    recipe = job.recipe
    return deep.Trainer(
        network,
        loss,
        epochs=epochs,
        batch_size=recipe.batch_size,
        learning_rate=recipe.warm_up_rate if classifier else recipe.learning_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        schedule=deep.Schedule("constant", warm_up=0.25) if classifier else deep.Schedule("linear", warm_up=0.05),
        augmentation=deep.Augmentation(shift=recipe.shift, cutout=recipe.cutout),
        device=device,
        seed=seed + (10_000 if classifier else 0),
    )


def _loss(job: Job, n_classes: int, seed: int) -> Any:
    from .. import deep

    recipe, b = job.recipe, job.n_bits
    if job.method == "classifier":
        return deep.ClassificationLoss(b, n_classes, seed=seed)
    if job.method in ("mihash", "mihash-joint"):
        n_bins = None if recipe.n_bins is None else max(1, round(recipe.n_bins * b))
        classes = n_classes if recipe.classification else None
        return deep.MutualInformationLoss(
            b, n_bins, memory=recipe.memory, n_classes=classes, classification=recipe.classification, seed=seed
        )
    if job.method == "dpsh":
        return deep.DPSHLoss(b, recipe.quantization or 0.0)
    margin = None if recipe.margin is None else recipe.margin * b
    return deep.DTSHLoss(b, margin, recipe.quantization or 0.0)
