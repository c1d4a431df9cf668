"""One run of Setting 2: warm up, train, encode, measure."""

import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ranking import mean_average_precision
from ..datasets.cifar10 import Images
from ..results import machine
from .recipes import Training

N_VALIDATION = 5000


def train(
    wanted: Training, images: Images, device: str, warm: dict[Any, Any] | None = None, told: bool = True
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Train, encode and measure; return the result, and the codes with their classes.

    Parameters
    ----------
    wanted
        The run.
    images
        CIFAR-10, or something small of its shape.
    device
        Where to train.
    warm
        Warmed-up networks by what they depend on: methods of one length and seed share theirs.
    told
        Whether to print a line for each epoch.
    """
    from ... import deep

    learn, query, base = _split(images, wanted.validate)
    recipe = wanted.recipe
    network, seconds = _warmed_up(wanted, images, learn, device, {} if warm is None else warm, told)
    network.scale, network.gain = recipe.scale, recipe.gain
    trainer = _trainer(wanted, network, _loss(wanted), recipe.epochs - recipe.warm_up_epochs, device)
    history = trainer.fit(images.X[learn], images.y[learn], progress=_teller(trainer, told))
    seconds["training"] = sum(epoch.seconds for epoch in history)
    start = time.perf_counter()
    outputs = {name: trainer.outputs(images.X[rows]) for name, rows in (("query", query), ("base", base))}
    codes = {f"{name}_codes": deep.tensors.packed(values) for name, values in outputs.items()}
    codes |= {"query_labels": images.y[query].astype(np.uint8), "base_labels": images.y[base].astype(np.uint8)}
    seconds["encoding"] = time.perf_counter() - start
    start = time.perf_counter()
    classes = (codes["query_labels"], codes["base_labels"])
    measured = mean_average_precision(codes["query_codes"], codes["base_codes"], classes, wanted.n_bits)
    seconds["measuring"] = time.perf_counter() - start
    result = {
        "method": wanted.method,
        "n_bits": wanted.n_bits,
        "seed": wanted.seed,
        "validation": wanted.validate,
        "tag": wanted.tag,
        "recipe": asdict(recipe),
        "sizes": {"learn": len(learn), "query": len(query), "base": len(base)},
        "metrics": {"mAP_device": measured, "mAP": None},
        "losses": [epoch.loss for epoch in history],
        "distinct_codes": len(np.unique(codes["base_codes"], axis=0)),
        "times": seconds,
        "machine": {**machine(), "device": deep.device_name(device)},
        "versions": _versions(),
    }
    return result, codes


def _split(images: Images, validate: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to learn from, the queries and what they search."""
    train, test = np.flatnonzero(~images.is_test), np.flatnonzero(images.is_test)
    if not validate:
        return train, test, train
    shuffled = np.random.default_rng(0).permutation(train)
    n_queries = min(N_VALIDATION, len(train) // 10)
    rest = np.sort(shuffled[n_queries:])
    return rest, np.sort(shuffled[:n_queries]), rest


def _network(wanted: Training) -> Any:
    from ... import deep

    arguments = {"width": wanted.recipe.width} if wanted.recipe.network == "resnet" else {"image_size": 32}
    return deep.build_network(
        wanted.recipe.network, wanted.n_bits, seed=wanted.seed, mirror=True, standardized=True, **arguments
    )


def _warmed_up(
    wanted: Training, images: Images, rows: NDArray[np.int64], device: str, warm: dict[Any, Any], told: bool
) -> tuple[Any, dict[str, float]]:
    """Return a network trained as a classifier, and how long that took."""
    from ... import deep

    recipe, network = wanted.recipe, _network(wanted)
    own = ("learning_rate", "epochs", "scale", "n_bins", "memory", "gain", "quantization", "margin")
    shared = tuple((name, value) for name, value in asdict(recipe).items() if name not in own)
    key = (wanted.n_bits, wanted.seed, wanted.validate, shared)
    if recipe.warm_up_epochs and key not in warm:
        loss = deep.ClassificationLoss(wanted.n_bits, int(images.y.max()) + 1, seed=wanted.seed)
        schedule = deep.Schedule("constant", warm_up=0.25)
        trainer = _trainer(wanted, network, loss, recipe.warm_up_epochs, device, schedule)
        history = trainer.fit(images.X[rows], images.y[rows], progress=_teller(trainer, told))
        warm.clear()  # the last one is what the next method needs
        warm[key] = (deep.tensors.arrays_of(network), sum(epoch.seconds for epoch in history))
    if recipe.warm_up_epochs:
        arrays, seconds = warm[key]
        deep.tensors.load_arrays(network, arrays)
        return network, {"warm_up": seconds}
    return network, {"warm_up": 0.0}


def _trainer(
    wanted: Training,
    network: Any,
    loss: Any,
    epochs: int,
    device: str,
    schedule: Any = None,
) -> Any:
    from ... import deep

    recipe = wanted.recipe
    return deep.Trainer(
        network,
        loss,
        epochs=epochs,
        batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate if schedule is None else recipe.warm_up_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        schedule=deep.Schedule("linear", warm_up=0.05) if schedule is None else schedule,
        augmentation=deep.Augmentation(shift=recipe.shift, cutout=recipe.cutout),
        device=device,
        seed=wanted.seed + (0 if schedule is None else 10_000),
    )


def _loss(wanted: Training) -> Any:
    from ... import deep

    recipe, b = wanted.recipe, wanted.n_bits
    if wanted.method == "mihash":
        n_bins = None if recipe.n_bins is None else max(1, round(recipe.n_bins * b))
        return deep.MutualInformationLoss(b, n_bins, memory=recipe.memory)
    if wanted.method == "dpsh":
        return deep.DPSHLoss(b, recipe.quantization or 0.0)
    margin = None if recipe.margin is None else recipe.margin * b
    return deep.DTSHLoss(b, margin, recipe.quantization or 0.0)


def _teller(trainer: Any, told: bool) -> Callable[[int, int], None] | None:
    """Return what prints a line after each epoch, or None."""

    def tell(done: int, total: int) -> None:
        epoch = trainer.history[-1]
        print(f"  epoch {done} of {total}: loss {epoch.loss:.4f}, {epoch.seconds:.2f} s", flush=True)

    return tell if told else None


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in ("mihash", "numpy", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its source
            found[name] = None
    return found
