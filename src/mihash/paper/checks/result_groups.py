"""Outcomes that are compared with one another: with the trigger and without it, or all but one setting alike."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...online import SketchHash
from ..datasets import find_protocol
from ..outcomes import Outcome
from ..published import DATASET_NAMES, METHOD_NAMES, dataset_title
from ..runs import Run

_SKETCH_BATCH = inspect.signature(SketchHash).parameters["batch_size"].default


def pairs(
    found: dict[Run, Outcome], methods: Sequence[str], theta: float = 0.0
) -> Iterator[tuple[str, Outcome, Outcome]]:
    """Yield label, fixed rate and trigger for each run with a threshold."""
    for run, outcome in found.items():
        if run.theta == theta and run.method in methods and whole_batches(run):
            yield label(run), found[replace(run, theta=None)], outcome


def groups(found: dict[Run, Outcome], same: Callable[[Run], Run]) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield the outcomes whose runs become the same."""
    gathered: dict[Run, list[Outcome]] = {}
    for run, outcome in found.items():
        if not whole_batches(run):
            continue
        gathered.setdefault(same(run), []).append(outcome)
    for run, group in gathered.items():
        rule = ", fixed rate" if all(each.run.theta is None for each in group) else ""
        yield label(run) + rule, group


def whole_batches(run: Run) -> bool:
    """Tell whether U is no less than a batch at the paper's sizes: SketchHash has no U below 50 (Tables 7 and 8).

    Examples
    --------
    >>> [whole_batches(Run("cifar10", "sketchhash", (), 32, 0, 1.0, 0.0, every)) for every in (0.1, 0.5)]
    [False, True]
    """
    if run.method != "sketchhash" or run.dataset not in DATASET_NAMES:
        return True
    batch_size = dict(run.parameters).get("batch_size", _SKETCH_BATCH)
    return bool(run.every * find_protocol(run.dataset).interval >= batch_size)


def label(run: Run) -> str:
    """Return what a run is called, its usual settings left out.

    Examples
    --------
    >>> label(Run("cifar10", "okh", (), 64, 0, 1.0, 0.0, 0.5))
    'OKH on CIFAR-10, 64 bits, U x 0.5'
    """
    name = f"{METHOD_NAMES.get(run.method, run.method)} on {dataset_title(run.dataset)}"
    name += "" if run.n_bits == 32 else f", {run.n_bits} bits"
    name += "" if run.every == 1 else f", U x {run.every:g}"
    return name + ("" if run.share == 1 else f", reservoir x {run.share:g}")
