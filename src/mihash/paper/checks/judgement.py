"""How numbers become a judgement, and which outcomes are compared with one another."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ... import validation
from ...errors import InvalidInput
from ...online import SketchHash
from ..datasets import find_protocol
from ..jobs import Job
from ..outcomes import Outcome
from ..published import DATASET_NAMES, METHOD_NAMES, dataset_title

_NAMED = 4  # how many exceptions are named before the rest is counted
_SKETCH_BATCH = inspect.signature(SketchHash).parameters["batch_size"].default

Judgement = tuple[bool, str]
Values = dict[str, float]
T = TypeVar("T")


def bounded(
    values: Values,
    over: str,
    *,
    above: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    form: str = "{:.2f}",
) -> Judgement:
    """Check the median of values, or each of them, against bounds."""
    validation.choice("over", over, ("median", "each"))
    median = float(np.median(list(some(values).values())))

    def good(value: float) -> bool:
        return (
            (above is None or value > above)
            and (below is None or value < below)
            and (at_most is None or value <= at_most)
        )

    least, most = (pick(values, key=values.__getitem__) for pick in (min, max))
    figures = f"median {form.format(median)}, from {form.format(values[least])} ({least})"
    figures += f" to {form.format(values[most])} ({most})"
    if over == "median":
        return good(median), figures
    bad = [f"{name} {form.format(value)}" for name, value in values.items() if not good(value)]
    return not bad, figures + (f"; not so: {listed(bad)}" if bad else "")


def falling(series: dict[str, list[float]], noise_updates: float, noise_percent: float, when: str) -> Judgement:
    """Check that no number of a series is above the one before it by more than the noise."""
    steps, bad = 0, []
    for name, updates in some(series).items():
        for before, after in pairwise(updates):
            steps += 1
            if after - before > max(noise_updates, noise_percent / 100 * before):
                bad.append(f"{name} {before:.1f} -> {after:.1f}")
    figures = f"{steps - len(bad)} of {steps} steps do not rise as {when}"
    return not bad, figures + (f"; rising: {listed(bad)}" if bad else "")


def some(values: dict[str, T]) -> dict[str, T]:
    """Refuse an empty collection, of which anything would hold."""
    if not values:
        raise InvalidInput("A claim must be about at least one run; no result fits its parameters.")
    return values


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the first names, and how many more there are.

    Examples
    --------
    >>> listed(["OKH", "OSH", "LSH"], most=2)
    'OKH; OSH; and 1 more'
    """
    rest = len(names) - most
    return "; ".join(names[:most]) + (f"; and {rest} more" if rest > 0 else "")


def pairs(
    found: dict[Job, Outcome], methods: Sequence[str], theta: float = 0.0
) -> Iterator[tuple[str, Outcome, Outcome]]:
    """Yield label, fixed rate and trigger for each run with a threshold."""
    for job, outcome in found.items():
        if job.theta == theta and job.method in methods and whole_batches(job):
            yield label(job), found[replace(job, theta=None)], outcome


def groups(found: dict[Job, Outcome], same: Callable[[Job], Job]) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield the outcomes whose runs become the same."""
    gathered: dict[Job, list[Outcome]] = {}
    for job, outcome in found.items():
        if not whole_batches(job):
            continue
        gathered.setdefault(same(job), []).append(outcome)
    for job, group in gathered.items():
        rule = ", fixed rate" if all(each.job.theta is None for each in group) else ""
        yield label(job) + rule, group


def whole_batches(job: Job) -> bool:
    """Tell whether U is no less than a batch at the paper's sizes: SketchHash has no U below 50 (Tables 7 and 8).

    Examples
    --------
    >>> [whole_batches(Job("online", "cifar10", "sketchhash", (), 32, every=every)) for every in (0.1, 0.5)]
    [False, True]
    """
    if job.method != "sketchhash" or job.dataset not in DATASET_NAMES:
        return True
    batch_size = dict(job.parameters).get("batch_size", _SKETCH_BATCH)
    return bool(job.every * find_protocol(job.dataset).interval >= batch_size)


def label(job: Job) -> str:
    """Return what a run is called, its usual settings left out.

    Examples
    --------
    >>> label(Job("online", "cifar10", "okh", (), 64, theta=0.0, every=0.5))
    'OKH on CIFAR-10, 64 bits, U x 0.5'
    """
    name = f"{METHOD_NAMES.get(job.method, job.method)} on {dataset_title(job.dataset)}"
    name += "" if job.n_bits == 32 else f", {job.n_bits} bits"
    name += "" if job.every == 1 else f", U x {job.every:g}"
    name += f", {100 * job.missing:g} % of the labels missing" if job.missing else ""
    return name + ("" if job.share == 1 else f", reservoir x {job.share:g}")
