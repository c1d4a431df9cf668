"""Batch methods compared: with one another on one feature map, and in time (Sec. 4.3.2, Tables 1 and 3)."""

from ...errors import NotReady
from ..fit_tables import MAPS, one_epoch, setting_name
from ..outcomes import Fitted, Study
from ..published import METHOD_NAMES
from .judgement import Judgement, listed, some


def first_on_map(study: Study, *, definition: str, method: str, mapping: str) -> Judgement:
    """Check that a method is before all others whose mapping is of the same kind, at each code length."""
    found = [each for each in study.fits(definition).values() if each.mapping == mapping and not each.missing]
    bad, figures = [], []
    for n_bits in sorted({each.fit.n_bits for each in found}):
        own = _setting(found, method, n_bits)
        others = [each for each in found if each.fit.method != method and each.fit.n_bits == n_bits]
        second = max(others, key=lambda each: each.mean("final"))
        figures.append(
            f"{n_bits} bits {own.mean('final'):.4f}, then {setting_name(second.fit)} {second.mean('final'):.4f}"
        )
        if own.mean("final") <= second.mean("final"):
            bad.append(n_bits)
    names = {METHOD_NAMES[each.fit.method]: None for each in found if each.fit.method != method}
    return not bad, (
        f"{MAPS[mapping]}: {listed(list(some(dict.fromkeys(figures))), len(figures))} (of {', '.join(names)})"
    )


def one_epoch_above(study: Study, *, definition: str, method: str, mapping: str, among: list[str]) -> Judgement:
    """Check that a method after one epoch is before others at each code length."""
    every = study.fits(definition).values()
    absent = {
        METHOD_NAMES[each.fit.method]: each.missing for each in every if each.missing and each.fit.method in among
    }
    found = [each for each in every if not each.missing]
    bad, figures = [], []
    for n_bits in sorted({each.fit.n_bits for each in found}):
        own = _setting([each for each in found if each.mapping == mapping], method, n_bits, epochs=1)
        others = [each for each in found if each.fit.method in among and each.fit.n_bits == n_bits]
        if len(others) < len(among):
            raise NotReady("; ".join(f"{name} {reason}" for name, reason in absent.items()))
        scores = ", ".join(f"{METHOD_NAMES[each.fit.method]} {each.mean('final'):.3f}" for each in others)
        figures.append(f"{n_bits} bits {own.mean('final'):.3f} against {scores}")
        if any(own.mean("final") <= each.mean("final") for each in others):
            bad.append(n_bits)
    return not bad, listed(figures, len(figures))


def training_time(
    study: Study, *, definition: str, method: str, mapping: str, than: str, factor: float
) -> Judgement:
    """Check that a method takes at most so many times the CPU time of another."""
    found = [each for each in study.fits(definition).values() if not each.missing]
    own = _setting([each for each in found if each.mapping == mapping], method)
    other = _setting(found, than)
    ratio = own.mean("learning_s") / other.mean("learning_s")
    names = (METHOD_NAMES[method], METHOD_NAMES[than])
    return ratio <= factor, (
        f"{names[0]} {own.mean('learning_s'):.1f} s, {names[1]} {other.mean('learning_s'):.1f} s: {ratio:.2f}x"
    )


def step_faster(study: Study, *, definition: str, method: str, than_s: float, factor: float) -> Judgement:
    """Check that a step of a method is so many times faster than the paper's; sizes must be the paper's too."""
    own = _setting([each for each in study.fits(definition).values() if not each.missing], method)
    size = (own.trials[0]["n_train"], own.fit.n_features, own.fit.n_bits)
    if study.scale != "full":
        raise NotReady(f"It is about 5,000 x 4,096 and 48 bits, and these results are of {size[0]:,} examples.")
    faster = than_s / own.mean("step_s")
    return faster >= factor, (
        f"{own.mean('step_s'):.3f} s for {size[0]:,} x {size[1]:,} and {size[2]} bits: {faster:.1f}x faster; "
        f"all of it {own.mean('learning_s'):.1f} s"
    )


def _setting(found: list[Fitted], method: str, n_bits: int | None = None, epochs: int | None = None) -> Fitted:
    """Return the outcome of a method, after one epoch or after all of them."""
    for each in found:
        same = each.fit.method == method and n_bits in (None, each.fit.n_bits)
        if same and one_epoch(each.fit) == (epochs == 1):
            return each
    raise NotReady(f"There is no result of {METHOD_NAMES[method]} among them.")
