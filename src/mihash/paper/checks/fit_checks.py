"""Batch methods and networks compared, and what mutual information goes with (Sec. 3.3, 4.3, Tables 1 and 3)."""

from typing import Any

import numpy as np

from ...errors import CorruptStore, NotReady
from ..fit_tables import MAPS, one_epoch, setting_name
from ..outcomes import Outcome, Study
from ..published import METHOD_NAMES, dataset_title
from .judgement import Judgement, Values, listed, some


def first_on_map(study: Study, *, definition: str, method: str, mapping: str) -> Judgement:
    """Check that a method is before all others whose mapping is of the same kind, at each code length."""
    found = [each for each in study.outcomes(definition).values() if each.mapping == mapping and not each.missing]
    bad, figures = [], []
    for n_bits in sorted({each.job.n_bits for each in found}):
        own = _setting(found, method, n_bits)
        others = [each for each in found if each.job.method != method and each.job.n_bits == n_bits]
        second = max(others, key=lambda each: each.mean("final"))
        figures.append(
            f"{n_bits} bits {own.mean('final'):.4f}, then {setting_name(second.job)} {second.mean('final'):.4f}"
        )
        if own.mean("final") <= second.mean("final"):
            bad.append(n_bits)
    names = {METHOD_NAMES[each.job.method]: None for each in found if each.job.method != method}
    return not bad, (
        f"{MAPS[mapping]}: {listed(list(some(dict.fromkeys(figures))), len(figures))} (of {', '.join(names)})"
    )


def one_epoch_above(study: Study, *, definition: str, method: str, mapping: str, among: list[str]) -> Judgement:
    """Check that a method after one epoch is before others at each code length."""
    every = study.outcomes(definition).values()
    absent = {
        METHOD_NAMES[each.job.method]: each.missing for each in every if each.missing and each.job.method in among
    }
    found = [each for each in every if not each.missing]
    bad, figures = [], []
    for n_bits in sorted({each.job.n_bits for each in found}):
        own = _setting([each for each in found if each.mapping == mapping], method, n_bits, epochs=1)
        others = [each for each in found if each.job.method in among and each.job.n_bits == n_bits]
        if len(others) < len(among):
            raise NotReady("; ".join(f"{name} {reason}" for name, reason in absent.items()))
        scores = ", ".join(f"{setting_name(each.job)} {each.mean('final'):.3f}" for each in others)
        figures.append(f"{n_bits} bits {own.mean('final'):.3f} against {scores}")
        if any(own.mean("final") <= each.mean("final") for each in others):
            bad.append(n_bits)
    return not bad, listed(figures, len(figures))


def step_faster(study: Study, *, definition: str, method: str, than_s: float, factor: float) -> Judgement:
    """Check that a step of a method is so many times faster than the paper's; sizes must be the paper's too."""
    own = _setting([each for each in study.outcomes(definition).values() if not each.missing], method)
    size = (own.trials[0]["n_train"], own.job.n_features, own.job.n_bits)
    if study.scale != "full":
        raise NotReady(f"It is about 5,000 x 4,096 and 48 bits, and these results are of {size[0]:,} examples.")
    faster = than_s / own.mean("step_s")
    return faster >= factor, (
        f"{own.mean('step_s'):.3f} s for {size[0]:,} x {size[1]:,} and {size[2]} bits: {faster:.1f}x faster; "
        f"all of it {own.mean('learning_s'):.1f} s"
    )


def _setting(found: list[Outcome], method: str, n_bits: int | None = None, epochs: int | None = None) -> Outcome:
    """Return the outcome of a method, after one epoch or after all of them."""
    for each in found:
        same = each.job.method == method and n_bits in (None, each.job.n_bits)
        if same and one_epoch(each.job) == (epochs == 1):
            return each
    raise NotReady(f"There is no result of {METHOD_NAMES[method]} among them.")


def above_end_to_end(study: Study, *, definition: str, method: str, than: list[str]) -> Judgement:
    """Check that a method is above others at each code length, in the mean over seeds."""
    found = {(job.method, job.n_bits): each for job, each in study.outcomes(definition).items()}
    bad, figures = [], []
    for n_bits in sorted({n_bits for _, n_bits in found}):
        own = found[method, n_bits]
        others = [found[name, n_bits] for name in than]
        scores = ", ".join(f"{METHOD_NAMES[each.job.method]} {each.mean('final'):.4f}" for each in others)
        figures.append(f"{n_bits} bits {own.mean('final'):.4f} against {scores}")
        if any(own.mean("final") <= each.mean("final") for each in others):
            bad.append(n_bits)
    return not bad, listed(figures, len(figures))


def reaches_end_to_end(study: Study, *, definition: str, method: str, n_bits: int, at_least: float) -> Judgement:
    """Check that mAP of a method reaches a number at a code length; that is about CIFAR-10 itself."""
    if study.scale != "full":
        raise NotReady("It is about CIFAR-10's own images, and these results are of other data.")
    for job, each in study.outcomes(definition).items():
        if (job.method, job.n_bits) == (method, n_bits):
            seeds = ", ".join(f"{value:.4f}" for value in each.values("final"))
            return each.mean("final") >= at_least, f"{each.mean('final'):.4f} in the mean of {seeds}"
    raise NotReady(f"There is no result of {METHOD_NAMES[method]} with {n_bits} bits.")


def correlation(study: Study, *, datasets: list[str], at_least: float) -> Judgement:
    """Check Pearson's r of mutual information with each ranking measure."""
    values: Values = {}
    for dataset in datasets:
        result = study.file("correlation", f"{dataset}.json")
        values |= {
            f"{name.upper()} on {dataset_title(dataset)}": float(_entry(result, "pearson", name))
            for name in ("ap", "dcg", "ndcg")
        }
    figures = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
    return all(value >= at_least for value in values.values()), f"r with {figures}"


def separated(study: Study, *, dataset: str, method: str) -> Judgement:
    """Check that the mean distance to neighbours falls, and that p+ and p- overlap less."""
    result = study.file("distributions", f"{dataset}-{method}.json")
    means, overlaps = [], []
    for when in ("before", "after"):
        p_pos, p_neg = (np.asarray(_entry(result, when, name), dtype=np.float64) for name in ("p_pos", "p_neg"))
        means.append(float(np.arange(len(p_pos)) @ p_pos / p_pos.sum()))
        overlaps.append(float(np.minimum(p_pos / p_pos.sum(), p_neg / p_neg.sum()).sum()))
    return means[1] < means[0] and overlaps[1] < overlaps[0], (
        f"mean distance to neighbours {means[0]:.2f} -> {means[1]:.2f} bits; "
        f"overlap {overlaps[0]:.3f} -> {overlaps[1]:.3f}"
    )


def learned(study: Study, *, dataset: str, method: str, at_least: float) -> Judgement:
    """Check by what factor learning raises mAP."""
    result = study.file("distributions", f"{dataset}-{method}.json")
    before, after = (float(_entry(result, when, "map")) for when in ("before", "after"))
    return after >= at_least * before, f"mAP {before:.3f} -> {after:.3f}, {after / before:.2f}x"


def _entry(result: dict[str, Any], outer: str, inner: str) -> Any:
    try:
        return result[outer][inner]
    except (KeyError, TypeError) as error:
        raise CorruptStore(f"A result has no {outer}.{inner}. Remove it, and it is made again.") from error
