"""The paper's statements as checks on results: held, not held, or not known yet (Sec. 3.3, 4, App. C, D).

``claims.toml`` lists them, fixed before the runs; a claim names a kind of check, as below, and its parameters.
"""

import inspect
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .. import validation
from ..errors import CorruptStore, InvalidInput, MIHashError, NotReady, StoreError
from ..hashing import OnlineHashing
from ..online import learner_class
from ..trigger import TriggerUpdate
from .definition import Run, load_definition
from .results import read_result
from .tables import DATASET_NAMES, METHOD_NAMES, SHARED_TIMES, Outcome, outcomes, timed_alone

__all__ = ["CHECKS", "CLAIMS", "Claim", "Study", "Verdict", "judge", "judge_all", "load_claims"]

CLAIMS = Path(__file__).with_name("claims.toml")
_KEYS = ("id", "statement", "where", "check", "with")
_NAMED = 4  # how many exceptions are named before the rest is counted

Judgement = tuple[bool, str]
Values = dict[str, float]
T = TypeVar("T")


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that can be tested.

    Attributes
    ----------
    id
        Its name.
    statement
        What the paper says, in its sense.
    where
        Where it says so.
    check
        A kind of check, a key of `CHECKS`.
    parameters
        What the check is called with.
    """

    id: str
    statement: str
    where: str
    check: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What results say about a claim.

    Attributes
    ----------
    id, statement, where
        Those of the claim.
    held
        Whether it held; None where results are missing, or cannot tell.
    figures
        The numbers that decided, or what is missing.
    """

    id: str
    statement: str
    held: bool | None
    figures: str
    where: str = ""


@dataclass
class Study:
    """The results of a scale, each definition read once.

    Attributes
    ----------
    results
        The folder of results.
    scale
        The scale at which they were made.
    """

    results: Path
    scale: str
    _read: dict[str, dict[Run, Outcome]] = field(default_factory=dict, repr=False)

    def outcomes(self, *names: str) -> dict[Run, Outcome]:
        """Return what the runs of definitions gave, by the run of the first trial."""
        for name in names:
            if name not in self._read:
                self._read[name] = outcomes(load_definition(name), self.results, self.scale)
        return {run: outcome for name in names for run, outcome in self._read[name].items()}

    def file(self, *parts: str) -> dict[str, Any]:
        """Return the content of a result that is no run, by its path below the scale."""
        path = self.results.joinpath(self.scale, *parts)
        result = read_result(path)
        if result is None:
            raise NotReady(f"There is no {path}. Run `mihash reproduce --all --scale {self.scale}`.")
        return result


def load_claims(path: Path = CLAIMS) -> tuple[Claim, ...]:
    """Read a list of claims; an unknown key, check or parameter is refused.

    Examples
    --------
    >>> claims = load_claims()
    >>> claims[0].id, claims[0].parameters["above"]
    ('reduction', 10)
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}.") from error
    entries = values.get("claim", [])
    if set(values) - {"claim"} or not isinstance(entries, list):
        raise InvalidInput(f"{path.name} must be a list of [[claim]]; got the keys {', '.join(sorted(values))}.")
    claims = tuple(_claim(entry, path.name) for entry in entries)
    names = [claim.id for claim in claims]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(f"{path.name} has the id {repeated[0]!r} more than once.")
    return claims


def judge(claim: Claim, study: Study) -> Verdict:
    """Say whether a claim holds on results.

    Examples
    --------
    >>> claim = {each.id: each for each in load_claims()}["osh-labels"]
    >>> verdict = judge(claim, Study(Path("nowhere"), "smoke"))
    >>> verdict.held, verdict.figures
    (True, 'OSH refuses a stream without labels, and 0 of the 24 runs of figure4 on LabelMe are its.')
    """
    try:
        held, figures = CHECKS[claim.check](study, **claim.parameters)
    except NotReady as error:
        return Verdict(claim.id, claim.statement, None, str(error), claim.where)
    except MIHashError:
        raise
    except KeyError as error:
        raise InvalidInput(f"The claim {claim.id!r} is about {error}, which its results do not have.") from error
    return Verdict(claim.id, claim.statement, bool(held), figures, claim.where)


def judge_all(results: Path, scale: str, path: Path = CLAIMS) -> list[Verdict]:
    """Return a verdict on every claim.

    Examples
    --------
    >>> verdicts = judge_all(Path("nowhere"), "smoke")
    >>> [sum(verdict.held is held for verdict in verdicts) for held in (True, False)]
    [1, 0]
    """
    study = Study(results, scale)
    return [judge(claim, study) for claim in load_claims(path)]


def _claim(entry: dict[str, Any], file: str) -> Claim:
    unknown, missing = sorted(set(entry) - set(_KEYS)), [key for key in _KEYS if key not in entry]
    if unknown or missing:
        name = entry.get("id", "without an id")
        raise InvalidInput(
            f"The claim {name!r} in {file} must have {', '.join(_KEYS)} and no more; "
            f"got {', '.join(entry) or 'nothing'}."
        )
    validation.choice(f"check of {entry['id']}", entry["check"], tuple(CHECKS))
    claim = Claim(entry["id"], entry["statement"], entry["where"], entry["check"], entry["with"])
    signature = inspect.signature(CHECKS[claim.check])
    try:
        signature.bind(None, **claim.parameters)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:])
        raise InvalidInput(
            f"The claim {claim.id!r} in {file} does not fit its check: {error}; the parameters are {known}."
        ) from error
    return claim


# --- with the trigger against the fixed rate ---


def _reduction(study: Study, *, definitions: list[str], methods: list[str], over: str, above: float) -> Judgement:
    """Check by how much the trigger reduces the updates."""
    values = {
        name: fixed.mean("updates") / triggered.mean("updates")
        for name, fixed, triggered in _pairs(study.outcomes(*definitions), methods)
    }
    return _bounded(values, over, above=above, form="{:.1f}x")


def _area_change(
    study: Study,
    *,
    definitions: list[str],
    methods: list[str],
    over: str,
    above: float | None = None,
    below: float | None = None,
    datasets: list[str] | None = None,
    theta: float = 0.0,
) -> Judgement:
    """Check by how many per cent AUC is higher with the trigger."""
    values = {
        name: 100 * (triggered.mean("area") / fixed.mean("area") - 1)
        for name, fixed, triggered in _pairs(study.outcomes(*definitions), methods, theta)
        if datasets is None or triggered.run.dataset in datasets
    }
    return _bounded(values, over, above=above, below=below, form="{:+.1f} %")


def _steadier(study: Study, *, definition: str, methods: list[str]) -> Judgement:
    """Check that curves with the trigger fall less, summed over all falls between two checkpoints."""
    falls = {
        name: (_fall(fixed), _fall(triggered))
        for name, fixed, triggered in _pairs(study.outcomes(definition), methods)
    }
    bad = [name for name, (fixed, triggered) in _some(falls).items() if triggered >= fixed]
    figures = _listed([f"{name} {fixed:.3f} -> {after:.3f}" for name, (fixed, after) in falls.items()], 6)
    return not bad, f"sum of the falls of mAP, fixed rate -> trigger: {figures}"


def _overhead(study: Study, *, definition: str, methods: list[str], below: float) -> Judgement:
    """Check what the trigger adds, in per cent of the time of learning."""
    found = study.outcomes(definition)
    if not timed_alone(load_definition(definition), study.results, study.scale):
        message = SHARED_TIMES.format(name=definition, scale=study.scale)
        raise NotReady(f"The times of {definition} do not say. {message}")
    values = {
        name: 100 * triggered.mean("deciding_s") / triggered.mean("learning_s")
        for name, _, triggered in _pairs(found, methods)
    }
    return _bounded(values, "median", below=below, form="{:.1f} %")


def _reservoir(study: Study, *, definition: str, methods: list[str], percent: float, within: float) -> Judgement:
    """Compare the size that is nearest to a share of the stream with the one nearest to its double."""
    found = study.outcomes(definition)
    sizes: dict[str, dict[float, Outcome]] = {}
    for name, _, outcome in _pairs(found, methods):
        share = 100 * outcome.trials[0]["protocol"]["reservoir_size"] / outcome.trials[0]["examples"][-1]
        sizes.setdefault(name.split(", reservoir")[0], {})[share] = outcome
    values, shares = {}, (0.0, 0.0)
    for name, by_share in sizes.items():
        small = min(by_share, key=lambda share: abs(share - percent))
        large = min((share for share in by_share if share > small), key=lambda share: abs(share - 2 * small))
        shares = small, large
        values[name] = 100 * (by_share[small].mean("area") / by_share[large].mean("area") - 1)
    held, figures = _bounded({name: abs(value) for name, value in values.items()}, "each", at_most=within)
    return held, f"AUC with {shares[0]:.1f} % against {shares[1]:.1f} % of the stream, in %: {figures}"


# --- methods and code lengths ---


def _first(study: Study, *, definition: str, method: str, among: list[str], measures: list[str]) -> Judgement:
    """Check that a method is before all others on each data set, in each measure."""
    found = study.outcomes(definition)
    bad, figures = [], []
    for dataset in _datasets(found):
        for measure in measures:
            scores = {
                run.method: outcome.mean(measure)
                for run, outcome in found.items()
                if run.dataset == dataset and run.theta is not None and run.method in (method, *among)
            }
            own = scores.pop(method)
            second = max(scores, key=scores.__getitem__)
            figures.append(
                f"{DATASET_NAMES[dataset]} {_MEASURES[measure]} {own:.3f}, then {METHOD_NAMES[second]} "
                f"{scores[second]:.3f}"
            )
            if own <= scores[second]:
                bad.append(dataset)
    return not bad, _listed(figures, len(figures))


def _rising(study: Study, *, definitions: list[str], method: str) -> Judgement:
    """Check that the last quarter of a curve lies above its third."""
    values = {}
    for run, outcome in study.outcomes(*definitions).items():
        if run.method == method and run.theta is not None:
            third, last = np.array_split(outcome.curves.mean(axis=0), 4)[2:]
            values[_label(run)] = float(last.mean() - third.mean())
    return _bounded(values, "each", above=0, form="{:+.4f}")


def _longer_codes(study: Study, *, shorter: str, longer: str, methods: list[str]) -> Judgement:
    """Check that the final mAP is higher with longer codes."""
    short, long = ({_key(run): each for run, each in study.outcomes(name).items()} for name in (shorter, longer))
    values = {
        _label(outcome.run): long[key].mean("final") - outcome.mean("final")
        for key, outcome in short.items()
        if outcome.run.method in methods and outcome.run.theta is not None
    }
    return _bounded(values, "each", above=0, form="{:+.3f}")


def _alike(study: Study, *, definition: str, dataset: str, methods: list[str], within: float) -> Judgement:
    """Check that methods differ by at most some per cent of the best."""
    scores = {
        METHOD_NAMES[run.method]: outcome.mean("area")
        for run, outcome in study.outcomes(definition).items()
        if run.dataset == dataset and run.method in methods and run.theta is not None
    }
    gap = 100 * (1 - min(_some(scores).values()) / max(scores.values()))
    figures = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    return gap <= within, f"AUC {figures}: {gap:.1f} % apart"


def _needs_labels(study: Study, *, method: str, definition: str, dataset: str) -> Judgement:  # noqa: ARG001 -- the class says it, not the results
    """Check that a method refuses a stream without labels, and is not run where there are none."""
    runs = [run for run in load_definition(definition).runs({}) if run.dataset == dataset]
    own = sum(run.method == method for run in runs)
    X = np.random.default_rng(0).standard_normal((20, 4))
    try:
        OnlineHashing(learner_class(method)(4, seed=0), TriggerUpdate(), 10).feed(X)
    except MIHashError as error:
        refused = "label" in str(error)
    else:
        refused = False
    return refused and own == 0, (
        f"{METHOD_NAMES[method]} {'refuses' if refused else 'takes'} a stream without labels, and {own} of the "
        f"{len(runs)} runs of {definition} on {DATASET_NAMES[dataset]} are its."
    )


# --- theta ---


def _theta_fewer(study: Study, *, definitions: list[str], noise_updates: float, noise_percent: float) -> Judgement:
    """Check that updates do not rise with theta, but for noise."""
    found = study.outcomes(*definitions)
    series = {
        name: [each.mean("updates") for each in sorted(group, key=_threshold)]
        for name, group in _groups(found, lambda run: replace(run, theta=None))
    }
    return _falling(series, noise_updates, noise_percent, "theta grows")


def _theta_infinite(study: Study, *, definitions: list[str], forced: dict[str, int]) -> Judgement:
    """Check that nothing but what is forced is updated at an infinite theta."""
    counts = {
        _label(run): (outcome.mean("updates"), forced.get(run.method, 1))
        for run, outcome in study.outcomes(*definitions).items()
        if run.theta == np.inf
    }
    bad = [f"{name} {n:g}" for name, (n, most) in _some(counts).items() if n > most or (most > 1 and n <= 1)]
    more = [f"{name} {n:g}" for name, (n, most) in counts.items() if most > 1]
    return not bad, f"{len(counts)} runs; forced: {_listed(more)}" + (f"; not so: {_listed(bad)}" if bad else "")


def _theta_low(study: Study, *, definitions: list[str], at_most: float, within: float) -> Judgement:
    """Check that a low theta updates as often as the fixed rate does."""
    found = study.outcomes(*definitions)
    values = {
        f"{_label(run)} at {run.theta:g}": 100
        * abs(outcome.mean("updates") / found[replace(run, theta=None)].mean("updates") - 1)
        for run, outcome in found.items()
        if run.theta is not None and run.theta <= at_most
    }
    return _bounded(values, "each", at_most=within, form="{:.1f} %")


def _theta_default(study: Study, *, definitions: list[str], over: str, within: float) -> Judgement:
    """Check how far AUC at theta = 0 is below the best of all thetas and the fixed rate."""
    values = {}
    for name, group in _groups(study.outcomes(*definitions), lambda run: replace(run, theta=None)):
        areas = {outcome.run.theta: outcome.mean("area") for outcome in group}
        values[name] = 100 * (1 - areas[0.0] / max(areas.values()))
    return _bounded(values, over, at_most=within, form="{:.1f} %")


# --- the update interval ---


def _interval_growth(
    study: Study, *, definition: str, method: str, shortest: float, longest: float, at_most: float
) -> Judgement:
    """Check by how much updates with the trigger grow from the longest interval to the shortest."""
    updates = {
        run.every: outcome.mean("updates")
        for run, outcome in study.outcomes(definition).items()
        if run.method == method and run.theta is not None
    }
    growth = updates[shortest] / updates[longest]
    return growth <= at_most, (
        f"{updates[longest]:.1f} -> {updates[shortest]:.1f} updates, {growth:.1f}x while U shrinks "
        f"{longest / shortest:g}x"
    )


def _interval_more(
    study: Study, *, definitions: list[str], noise_updates: float, noise_percent: float
) -> Judgement:
    """Check that updates do not rise with the interval, but for noise."""
    series = {
        name: [each.mean("updates") for each in sorted(group, key=lambda outcome: outcome.run.every)]
        for name, group in _groups(study.outcomes(*definitions), lambda run: replace(run, every=1.0))
    }
    return _falling(series, noise_updates, noise_percent, "U grows")


def _spread(
    study: Study, *, definitions: list[str], measure: str, below: float, below_at_smoke: float
) -> Judgement:
    """Check the standard deviation over the trials."""
    values = {
        _label(run) + (", fixed rate" if run.theta is None else ""): outcome.spread(measure)
        for run, outcome in study.outcomes(*definitions).items()
    }
    bound = below_at_smoke if study.scale == "smoke" else below
    return _bounded(values, "each", below=bound, form="{:.4f}")


# --- mutual information ---


def _correlation(study: Study, *, datasets: list[str], at_least: float) -> Judgement:
    """Check Pearson's r of mutual information with each ranking measure."""
    values: Values = {}
    for dataset in datasets:
        result = study.file("correlation", f"{dataset}.json")
        values |= {
            f"{name.upper()} on {DATASET_NAMES[dataset]}": float(_entry(result, "pearson", name))
            for name in ("ap", "dcg", "ndcg")
        }
    figures = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
    return all(value >= at_least for value in values.values()), f"r with {figures}"


def _nearer(study: Study, *, dataset: str, method: str) -> Judgement:
    """Check that the mean distance to neighbours falls."""
    result = study.file("distributions", f"{dataset}-{method}.json")
    means = []
    for when in ("before", "after"):
        p_pos = np.asarray(_entry(result, when, "p_pos"), dtype=np.float64)
        means.append(float(np.arange(len(p_pos)) @ p_pos / p_pos.sum()))
    return means[1] < means[0], f"mean distance to neighbours {means[0]:.2f} -> {means[1]:.2f} bits"


def _less_overlap(study: Study, *, dataset: str, method: str) -> Judgement:
    """Check that p+ and p- overlap less, as the sum of the smaller of the two."""
    result = study.file("distributions", f"{dataset}-{method}.json")
    overlaps = []
    for when in ("before", "after"):
        p_pos, p_neg = (np.asarray(_entry(result, when, name), dtype=np.float64) for name in ("p_pos", "p_neg"))
        overlaps.append(float(np.minimum(p_pos / p_pos.sum(), p_neg / p_neg.sum()).sum()))
    return overlaps[1] < overlaps[0], f"overlap {overlaps[0]:.3f} -> {overlaps[1]:.3f}"


CHECKS: dict[str, Callable[..., Judgement]] = {
    "reduction": _reduction,
    "area-change": _area_change,
    "steadier": _steadier,
    "overhead": _overhead,
    "reservoir": _reservoir,
    "first": _first,
    "rising": _rising,
    "longer-codes": _longer_codes,
    "alike": _alike,
    "needs-labels": _needs_labels,
    "theta-fewer": _theta_fewer,
    "theta-infinite": _theta_infinite,
    "theta-low": _theta_low,
    "theta-default": _theta_default,
    "interval-growth": _interval_growth,
    "interval-more": _interval_more,
    "spread": _spread,
    "correlation": _correlation,
    "nearer": _nearer,
    "less-overlap": _less_overlap,
}
_MEASURES = {"final": "final mAP", "area": "AUC"}


def _pairs(
    found: dict[Run, Outcome], methods: Sequence[str], theta: float = 0.0
) -> Iterator[tuple[str, Outcome, Outcome]]:
    """Yield label, fixed rate and trigger for each run with a threshold."""
    for run, outcome in found.items():
        if run.theta == theta and run.method in methods:
            yield _label(run), found[replace(run, theta=None)], outcome


def _groups(found: dict[Run, Outcome], same: Callable[[Run], Run]) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield the outcomes whose runs become the same."""
    groups: dict[Run, list[Outcome]] = {}
    for run, outcome in found.items():
        groups.setdefault(same(run), []).append(outcome)
    for run, group in groups.items():
        rule = ", fixed rate" if all(each.run.theta is None for each in group) else ""
        yield _label(run) + rule, group


def _threshold(outcome: Outcome) -> float:
    """Return theta; the fixed rate is a theta of -inf."""
    return -np.inf if outcome.run.theta is None else outcome.run.theta


def _fall(outcome: Outcome) -> float:
    """Return how much mAP falls between checkpoints, summed, in the mean over the trials."""
    steps = np.diff(outcome.curves, axis=1)
    return float(-np.minimum(steps, 0).sum(axis=1).mean())


def _falling(series: dict[str, list[float]], noise_updates: float, noise_percent: float, when: str) -> Judgement:
    """Check that no number of a series is above the one before it by more than the noise."""
    steps, bad = 0, []
    for name, updates in _some(series).items():
        for before, after in pairwise(updates):
            steps += 1
            if after - before > max(noise_updates, noise_percent / 100 * before):
                bad.append(f"{name} {before:.1f} -> {after:.1f}")
    figures = f"{steps - len(bad)} of {steps} steps do not rise as {when}"
    return not bad, figures + (f"; rising: {_listed(bad)}" if bad else "")


def _bounded(
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
    median = float(np.median(list(_some(values).values())))

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
    return not bad, figures + (f"; not so: {_listed(bad)}" if bad else "")


def _some(values: dict[str, T]) -> dict[str, T]:
    """Refuse an empty collection, of which anything would hold."""
    if not values:
        raise InvalidInput("A claim must be about at least one run; no result fits its parameters.")
    return values


def _listed(names: Sequence[str], most: int = _NAMED) -> str:
    rest = len(names) - most
    return "; ".join(names[:most]) + (f"; and {rest} more" if rest > 0 else "")


def _label(run: Run) -> str:
    label = f"{METHOD_NAMES.get(run.method, run.method)} on {DATASET_NAMES[run.dataset]}"
    label += "" if run.n_bits == 32 else f", {run.n_bits} bits"
    label += "" if run.every == 1 else f", U x {run.every:g}"
    return label + ("" if run.share == 1 else f", reservoir x {run.share:g}")


def _key(run: Run) -> tuple[Any, ...]:
    return (run.dataset, run.method, run.theta, run.every, run.share)


def _datasets(found: dict[Run, Outcome]) -> list[str]:
    return list(dict.fromkeys(run.dataset for run in found))


def _entry(result: dict[str, Any], outer: str, inner: str) -> Any:
    try:
        return result[outer][inner]
    except (KeyError, TypeError) as error:
        raise CorruptStore(f"A result has no {outer}.{inner}. Remove it, and it is made again.") from error
