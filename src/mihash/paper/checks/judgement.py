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
from ..paper_numbers import DATASET_NAMES, dataset_title, row_name

_NAMED = 4  # how many exceptions are named before the rest is counted
_SKETCH_BATCH = inspect.signature(SketchHash).parameters["batch_size"].default

Judgement = tuple[bool | None, str]  # None: within the noise, not settled
Values = dict[str, float]
Leads = dict[str, tuple[float, float]]  # a lead, and the noise that it is compared with
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


def leading(leads: Leads, deviations: float) -> bool | None:
    """Tell whether every lead is clear: None where one is within the noise, False where one is clearly behind.

    A lead is clear that is more than so many standard deviations over the trials, which come with it.

    Examples
    --------
    >>> [leading({"32 bits": lead}, 2) for lead in ((0.05, 0.02), (0.03, 0.02), (-0.05, 0.02))]
    [True, None, False]
    """
    if any(lead < -deviations * noise for lead, noise in some(leads).values()):
        return False
    return True if all(lead > deviations * noise for lead, noise in leads.values()) else None


def margins(leads: Leads, deviations: float, form: str) -> Judgement:
    """Check that every number is above 0 by a margin; name the others with their deviations."""
    values = {name: lead for name, (lead, _) in leads.items()}
    figures = bounded(values, "median", form=form)[1]
    others = [
        f"{name} {form.format(lead)} (deviation {noise:.4f})"
        for name, (lead, noise) in leads.items()
        if lead <= deviations * noise
    ]
    return leading(leads, deviations), figures + (f"; not clearly so: {listed(others)}" if others else "")


def ahead(own: Outcome, other: Outcome, measure: str = "final") -> tuple[float, float]:
    """Return by how much one is above another, and the larger standard deviation over trials of the two."""
    noise = max(own.spread(measure), other.spread(measure))
    return own.mean(measure) - other.mean(measure), noise


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
    """Return the name of a run without default settings.

    Examples
    --------
    >>> label(Job("online", "cifar10", "okh", (), 64, theta=0.0, every=0.5))
    'OKH on CIFAR-10, 64 bits, U x 0.5'
    """
    name = f"{row_name(job)} on {dataset_title(job.dataset)}"
    name += "" if job.n_bits == 32 else f", {job.n_bits} bits"
    name += "" if job.every == 1 else f", U x {job.every:g}"
    name += f", {100 * job.missing:g} % of the labels missing" if job.missing else ""
    return name + ("" if job.share == 1 else f", reservoir x {job.share:g}")
