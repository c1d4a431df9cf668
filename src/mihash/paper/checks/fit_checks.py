"""Batch methods and networks compared, and what mutual information goes with (Sec. 3.3, 4.3, Tables 1 and 3)."""

from typing import Any

import numpy as np

from ...errors import CorruptStore, NotReady
from ..fit_tables import MAPS, one_epoch, papers_settings, setting_name
from ..outcomes import Outcome, Study
from ..paper_numbers import METHOD_NAMES, as_published, dataset_title
from .judgement import Judgement, Leads, Values, ahead, leading, listed, some


def first_on_map(study: Study, *, definition: str, method: str, mapping: str, deviations: float) -> Judgement:
    """Check that a method is before all others whose mapping is of the same kind, at each code length.

    The lead must be more than so many standard deviations over the draws, the larger one of the two methods.
    """
    found = [each for each in study.outcomes(definition).values() if each.mapping == mapping and not each.missing]
    leads: Leads = {}
    figures = []
    for n_bits in sorted({each.job.n_bits for each in found}):
        own = _setting(found, method, n_bits)
        others = [each for each in found if each.job.method != method and each.job.n_bits == n_bits]
        second = max(others, key=lambda each: each.mean("final"))
        lead, noise = leads[f"{n_bits} bits"] = ahead(own, second)
        figures.append(
            f"{n_bits} bits {own.mean('final'):.4f}, {'then' if lead > 0 else 'behind'} "
            f"{setting_name(second.job)} {second.mean('final'):.4f} (deviation {noise:.4f})"
        )
    names = {METHOD_NAMES[each.job.method]: None for each in found if each.job.method != method}
    return leading(leads, deviations), (
        f"{MAPS[mapping]}: {listed(figures, len(figures))} (of {', '.join(names)})"
    )


def one_epoch_above(
    study: Study, *, definition: str, method: str, mapping: str, among: list[str], deviations: float
) -> Judgement:
    """Check that a method after one epoch is before others at each code length, as in `first_on_map`."""
    every = study.outcomes(definition).values()
    absent = {
        METHOD_NAMES[each.job.method]: each.missing for each in every if each.missing and each.job.method in among
    }
    found = [each for each in every if not each.missing]
    leads: Leads = {}
    figures = []
    for n_bits in sorted({each.job.n_bits for each in found}):
        own = _setting([each for each in found if each.mapping == mapping], method, n_bits, epochs=1)
        others = [each for each in found if each.job.method in among and each.job.n_bits == n_bits]
        if len(others) < len(among):
            raise NotReady("; ".join(f"{name} {reason}" for name, reason in absent.items()))
        scores = ", ".join(f"{setting_name(each.job)} {each.mean('final'):.3f}" for each in others)
        figures.append(f"{n_bits} bits {own.mean('final'):.3f} against {scores}")
        leads |= {f"{n_bits} bits, {setting_name(each.job)}": ahead(own, each) for each in others}
    return leading(leads, deviations), listed(figures, len(figures))


def _setting(found: list[Outcome], method: str, n_bits: int | None = None, epochs: int | None = None) -> Outcome:
    """Return the outcome of a method with the paper's settings, after one epoch or after all of them."""
    for each in found:
        same = each.job.method == method and n_bits in (None, each.job.n_bits) and papers_settings(each.job)
        if same and one_epoch(each.job) == (epochs == 1):
            return each
    raise NotReady(f"There is no result of {METHOD_NAMES[method]} among them.")


def above_end_to_end(
    study: Study, *, definition: str, method: str, than: list[str], deviations: float
) -> Judgement:
    """Check that a method is above others at each code length, by a margin as in `first_on_map`."""
    found = {(job.method, job.n_bits): each for job, each in study.outcomes(definition).items()}
    leads: Leads = {}
    figures = []
    for n_bits in sorted({n_bits for _, n_bits in found}):
        own = found[method, n_bits]
        others = [found[name, n_bits] for name in than]
        scores = ", ".join(f"{METHOD_NAMES[each.job.method]} {each.mean('final'):.4f}" for each in others)
        figures.append(f"{n_bits} bits {own.mean('final'):.4f} against {scores}")
        leads |= {f"{n_bits} bits, {each.job.method}": ahead(own, each) for each in others}
    noise = max(noise for _, noise in some(leads).values())
    return leading(leads, deviations), f"{listed(figures, len(figures))} (deviations up to {noise:.4f})"


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


def learned(study: Study, *, definition: str, method: str, at_least: float) -> Judgement:
    """Check by what factor learning raises mAP, that neighbours come nearer, and that p+ and p- overlap less."""
    for job, each in study.outcomes(definition).items():
        if job.method == method and as_published(job):
            return _separated(each.trials[0], at_least)
    raise NotReady(f"There is no result of {METHOD_NAMES[method]} as published in {definition}.")


def _separated(result: dict[str, Any], at_least: float) -> Judgement:
    precisions, means, overlaps = [], [], []
    for when in ("before", "after"):
        p_pos, p_neg = (np.asarray(result[when][name], dtype=np.float64) for name in ("p_pos", "p_neg"))
        precisions.append(float(result[when]["map"]))
        means.append(float(np.arange(len(p_pos)) @ p_pos / p_pos.sum()))
        overlaps.append(float(np.minimum(p_pos / p_pos.sum(), p_neg / p_neg.sum()).sum()))
    raised = precisions[1] >= at_least * precisions[0]
    return raised and means[1] < means[0] and overlaps[1] < overlaps[0], (
        f"mAP {precisions[0]:.3f} -> {precisions[1]:.3f}, {precisions[1] / precisions[0]:.2f}x; mean distance to "
        f"neighbours {means[0]:.2f} -> {means[1]:.2f} bits; overlap {overlaps[0]:.3f} -> {overlaps[1]:.3f}"
    )


def _entry(result: dict[str, Any], outer: str, inner: str) -> Any:
    try:
        return result[outer][inner]
    except (KeyError, TypeError) as error:
        raise CorruptStore(f"A result has no {outer}.{inner}. Remove it, and it is made again.") from error
