"""Mutual information: what it goes with, and what learning it does to distances (Sec. 3.3, 4.3.1)."""

from typing import Any

import numpy as np

from ...errors import CorruptStore
from ..outcomes import Study
from ..published import dataset_title
from .judgement import Judgement, Values


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


def nearer(study: Study, *, dataset: str, method: str) -> Judgement:
    """Check that the mean distance to neighbours falls."""
    result = study.file("distributions", f"{dataset}-{method}.json")
    means = []
    for when in ("before", "after"):
        p_pos = np.asarray(_entry(result, when, "p_pos"), dtype=np.float64)
        means.append(float(np.arange(len(p_pos)) @ p_pos / p_pos.sum()))
    return means[1] < means[0], f"mean distance to neighbours {means[0]:.2f} -> {means[1]:.2f} bits"


def learned(study: Study, *, dataset: str, method: str, at_least: float) -> Judgement:
    """Check by what factor learning raises mAP."""
    result = study.file("distributions", f"{dataset}-{method}.json")
    before, after = (float(_entry(result, when, "map")) for when in ("before", "after"))
    return after >= at_least * before, f"mAP {before:.3f} -> {after:.3f}, {after / before:.2f}x"


def less_overlap(study: Study, *, dataset: str, method: str) -> Judgement:
    """Check that p+ and p- overlap less, as the sum of the smaller of the two."""
    result = study.file("distributions", f"{dataset}-{method}.json")
    overlaps = []
    for when in ("before", "after"):
        p_pos, p_neg = (np.asarray(_entry(result, when, name), dtype=np.float64) for name in ("p_pos", "p_neg"))
        overlaps.append(float(np.minimum(p_pos / p_pos.sum(), p_neg / p_neg.sum()).sum()))
    return overlaps[1] < overlaps[0], f"overlap {overlaps[0]:.3f} -> {overlaps[1]:.3f}"


def _entry(result: dict[str, Any], outer: str, inner: str) -> Any:
    try:
        return result[outer][inner]
    except (KeyError, TypeError) as error:
        raise CorruptStore(f"A result has no {outer}.{inner}. Remove it, and it is made again.") from error
