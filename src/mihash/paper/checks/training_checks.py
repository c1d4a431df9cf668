"""Networks trained end to end, compared (Sec. 4.3.2, Table 1, Setting 2)."""

from ...errors import NotReady
from ..outcomes import Study
from ..published import METHOD_NAMES
from .judgement import Judgement, listed


def above_end_to_end(study: Study, *, definition: str, method: str, than: list[str]) -> Judgement:
    """Check that a method is above others at each code length, in the mean over seeds."""
    found = {(each.method, each.n_bits): each for each in study.trainings(definition)}
    bad, figures = [], []
    for n_bits in sorted({n_bits for _, n_bits in found}):
        own = found[method, n_bits]
        others = [found[name, n_bits] for name in than]
        scores = ", ".join(f"{METHOD_NAMES[each.method]} {each.mean:.4f}" for each in others)
        figures.append(f"{n_bits} bits {own.mean:.4f} against {scores}")
        if any(own.mean <= each.mean for each in others):
            bad.append(n_bits)
    return not bad, listed(figures, len(figures))


def reaches_end_to_end(study: Study, *, definition: str, method: str, n_bits: int, at_least: float) -> Judgement:
    """Check that mAP of a method reaches a number at a code length; that is about CIFAR-10 itself."""
    if study.scale != "full":
        raise NotReady("It is about CIFAR-10's own images, and these results are of other data.")
    for each in study.trainings(definition):
        if (each.method, each.n_bits) == (method, n_bits):
            seeds = ", ".join(f"{value:.4f}" for value in each.values)
            return each.mean >= at_least, f"{each.mean:.4f} in the mean of {seeds}"
    raise NotReady(f"There is no result of {METHOD_NAMES[method]} with {n_bits} bits.")
