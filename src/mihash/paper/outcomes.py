"""What runs gave: the results of a definition read from their files, the trials of one run together."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..batch import lacking
from ..errors import CorruptStore, NotReady
from .correlation import correlation_path
from .definition import Definition, load_definition, load_parameters, reproduce_command
from .distributions import distributions_path
from .results import check_origin, check_shape, read_result, root_and_seed
from .runs import Fit, Run
from .setting2.reproduction import Trained, trained
from .sources import Source, data_name

MEASURES = ("updates", "area", "final", "learning_s", "deciding_s", "step_s")
NO_CASES = "none of its methods can do without labels, and its data sets have none."
SHARED_TIMES = (
    "They were taken in passes shared with other triggers, which overstates learning and understates what the "
    "trigger adds. Run `{command}` into an empty folder, before the others."
)
_NUMBER = (int, float)
_TIMES = {"learning_s": _NUMBER, "deciding_s": _NUMBER}
_RUN = {
    "updates": _NUMBER,
    "area": _NUMBER,
    "final": _NUMBER,
    "precisions": [_NUMBER],
    "data": (str,),
    "protocol": {
        "rows": (int,),
        "interval": (int,),
        "reservoir_size": (int,),
        "top": (int, type(None)),
    },
    "examples": [_NUMBER],
    "updated_at": [_NUMBER],
    "times": _TIMES,
}
_FIT = {
    "final": _NUMBER,
    "mapping": (str,),
    "history": [_NUMBER],
    "n_train": (int,),
    "data": (str,),
    "protocol": {"rows": (int,)},
    "times": {"learning_s": _NUMBER, "step_s": _NUMBER},
}
_REFUSED = {"refused": (str,), "n_train": (int,), "data": (str,), "protocol": {"rows": (int,)}}
_PART = {"p_pos": [_NUMBER], "p_neg": [_NUMBER], "mi": _NUMBER}
_ALL_QUERIES = _PART | {"map": _NUMBER}
_FILES = {
    "correlation": {
        **{key: [_NUMBER] for key in ("mi", "ap", "dcg", "ndcg")},
        "pearson": dict.fromkeys(("ap", "dcg", "ndcg"), _NUMBER),
    },
    "distributions": {
        "before": _ALL_QUERIES,
        "after": _ALL_QUERIES,
        "one_query": {"bad": _PART, "good": _PART},
    },
}


@dataclass(frozen=True)
class _Trials:
    trials: tuple[dict[str, Any], ...]

    def values(self, measure: str) -> NDArray[np.float64]:
        """Return a measure of each trial: ``"updates"``, ``"area"``, ``"final"``, or a time in seconds."""
        validation.choice("measure", measure, MEASURES)
        return np.array([(trial["times"] if measure.endswith("_s") else trial)[measure] for trial in self.trials])

    def mean(self, measure: str) -> float:
        """Return the mean of a measure over the trials."""
        return float(self.values(measure).mean())

    def spread(self, measure: str) -> float:
        """Return the standard deviation of a measure over the trials (n - 1 in the divisor), 0 for one trial."""
        return float(self.values(measure).std(ddof=1)) if len(self.trials) > 1 else 0.0


@dataclass(frozen=True)
class Outcome(_Trials):
    """One run in all its trials.

    Attributes
    ----------
    trials
        The result of each trial, as it was written.
    run
        The run of the first trial.

    Examples
    --------
    >>> run = Run("cifar10", "okh", (), 32, 0, 1.0, 0.0, 1.0)
    >>> outcome = Outcome(({"updates": 7}, {"updates": 8}, {"updates": 9}), run)
    >>> outcome.mean("updates"), outcome.spread("updates")
    (8.0, 1.0)
    """

    run: Run

    @property
    def curves(self) -> NDArray[np.float64]:
        """The curves: mAP at the checkpoints, a row for each trial."""
        return np.array([trial["precisions"] for trial in self.trials])


@dataclass(frozen=True)
class Fitted(_Trials):
    """One batch method with its arguments and a code length, in all its trials.

    Attributes
    ----------
    trials
        The result of each trial, as it was written; none where the method cannot be had here.
    fit
        That of the first trial.
    """

    fit: Fit

    @property
    def missing(self) -> str | None:
        """Why it has no numbers, or None where it has."""
        if not self.trials:
            return f"needs {lacking(self.fit.method)}"
        refused = [trial["refused"] for trial in self.trials if "refused" in trial]
        return str(refused[0]) if refused else None

    @property
    def mapping(self) -> str:
        """The kind of its mapping; nothing where it has no numbers."""
        return "" if self.missing else str(self.trials[0]["mapping"])


def check_fit(path: Path, result: dict[str, Any], source: Source, scale: str, seed: int) -> None:
    """Refuse the result of a fit that is not whole, or that has another seed, scale or data."""
    check_shape(path, result, _REFUSED if "refused" in result else _FIT)
    check_origin(path, result, seed=seed, scale=scale, data=data_name(source, scale))


def check_run(path: Path, result: dict[str, Any], source: Source, scale: str, seed: int) -> None:
    """Refuse the result of a run that is not whole, or that has another seed, scale or data."""
    check_shape(path, result, _RUN)
    n_points, n_values = len(result["examples"]), len(result["precisions"])
    if not n_points or n_points != n_values:
        raise CorruptStore(
            f"{path} has {n_values} precisions at {n_points} examples. Remove it, and it is made again."
        )
    check_origin(path, result, seed=seed, scale=scale, data=data_name(source, scale))


def outcomes(definition: Definition, results: Path, scale: str) -> dict[Run, Outcome]:
    """Return what the runs of a definition gave, by the run of the first trial.

    Raises
    ------
    NotReady
        Where results are missing; the message names the command that makes them.
    StoreError
        Where one was made with another seed than the folder's, at another scale or of other data, or is corrupt.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> outcomes(load_definition("table2"), Path("nowhere"), "smoke")
    Traceback (most recent call last):
    mihash.errors.NotReady: 30 of the 30 results of table2 are not in nowhere/smoke. Run `mihash reproduce table2
    --scale smoke --results nowhere`.
    """
    trials: dict[Run, list[dict[str, Any]]] = {}
    n_runs, n_missing = 0, 0
    seed, sources = root_and_seed(results)[1], {source.name: source for source in definition.sources}
    for run in definition.runs(load_parameters()):
        path = results / scale / run.path
        result = read_result(path)
        n_runs += 1
        if result is None:
            n_missing += 1
            continue
        check_run(path, result, sources[run.dataset], scale, seed)
        trials.setdefault(replace(run, trial=0), []).append(result)
    _complete(definition, results, scale, n_runs, n_missing)
    return {run: Outcome(tuple(found), run) for run, found in trials.items()}


def fitted(definition: Definition, results: Path, scale: str) -> dict[Fit, Fitted]:
    """Return what the batch methods of a definition gave, by the fit of the first trial.

    A method that cannot be had here, and of which there are no results from elsewhere, has none.

    Raises
    ------
    NotReady
        Where results are missing; the message names the command that makes them.
    StoreError
        Where one was made with another seed than the folder's, at another scale or of other data, or is corrupt.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> fitted(load_definition("table3-wide"), Path("nowhere"), "smoke")
    Traceback (most recent call last):
    mihash.errors.NotReady: 5 of the 5 results of table3-wide are not in nowhere/smoke. Run `mihash reproduce
    table3-wide --scale smoke --results nowhere`.
    """
    trials: dict[Fit, list[dict[str, Any]]] = {}
    n_fits, n_missing = 0, 0
    seed, sources = root_and_seed(results)[1], {source.name: source for source in definition.sources}
    for fit in definition.at(scale).fits():
        path = results / scale / fit.path
        result = read_result(path)
        n_fits += 1
        found = trials.setdefault(replace(fit, trial=0), [])
        if result is not None:
            check_fit(path, result, sources[fit.dataset], scale, seed)
            found.append(result)
        elif not lacking(fit.method):
            n_missing += 1
    _complete(definition, results, scale, n_fits, n_missing)
    return {fit: Fitted(tuple(found), fit) for fit, found in trials.items()}


def _complete(definition: Definition, results: Path, scale: str, n: int, n_missing: int) -> None:
    """Refuse to go on where results are missing, or where there could be none."""
    if n_missing:
        raise NotReady(
            f"{n_missing} of the {n} results of {definition.name} are not in {results / scale}. "
            f"Run `{definition.command(results, scale)}`."
        )
    if not n:
        raise NotReady(f"{definition.name} has nothing to run: {NO_CASES}")


def missing_files(definition: Definition, results: Path, scale: str) -> list[Source]:
    """Return the data sets of which a definition that is no stream has no result yet; those there are checked.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> [source.name for source in missing_files(load_definition("figure6"), Path("nowhere"), "smoke")]
    ['cifar10']
    """
    paths: list[tuple[Source, Path]] = []
    if definition.kind == "correlation":
        paths = [(source, correlation_path(results, scale, source.name)) for source in definition.sources]
    elif definition.kind == "distributions":
        paths = [
            (source, distributions_path(results, scale, source.name, method))
            for source, method in definition.cases
        ]
    missing = []
    for source, path in paths:
        result = read_result(path)
        if result is None:
            missing.append(source)
            continue
        check_shape(path, result, _FILES[definition.kind])
        seed = root_and_seed(results)[1]
        check_origin(path, result, seed=seed, scale=scale, data=data_name(source, scale))
    return missing


def timed_alone(definition: Definition, results: Path, scale: str) -> bool:
    """Tell whether the learning passes of a definition served no trigger but its own.

    A pass that is shared with short intervals learns in small pieces, and triggers in it share measurements: it
    overstates what learning takes, and understates what a trigger adds. Results of one pass have the same
    ``learning_s``, to the last digit.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> int(timed_alone(load_definition("table2"), Path("nowhere"), "smoke"))
    1
    """
    own = {results / scale / run.path for run in definition.runs(load_parameters())}
    for folder in sorted({path.parent for path in own}):
        times: dict[bool, set[float]] = {True: set(), False: set()}
        for path in folder.glob("*.json"):
            result = read_result(path) or {}
            check_shape(path, result, {"times": _TIMES})
            times[path in own].add(result["times"]["learning_s"])
        if times[True] & times[False]:
            return False
    return True


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
    _fitted: dict[str, dict[Fit, Fitted]] = field(default_factory=dict, repr=False)
    _trained: dict[str, list[Trained]] = field(default_factory=dict, repr=False)

    def outcomes(self, *names: str) -> dict[Run, Outcome]:
        """Return what the runs of definitions gave, by the run of the first trial."""
        for name in names:
            if name not in self._read:
                self._read[name] = outcomes(load_definition(name), self.results, self.scale)
        return {run: outcome for name in names for run, outcome in self._read[name].items()}

    def fits(self, name: str) -> dict[Fit, Fitted]:
        """Return what the batch methods of a definition gave, by the fit of the first trial."""
        if name not in self._fitted:
            self._fitted[name] = fitted(load_definition(name), self.results, self.scale)
        return self._fitted[name]

    def trainings(self, name: str) -> list[Trained]:
        """Return what the networks of a definition gave."""
        if name not in self._trained:
            self._trained[name] = trained(load_definition(name), self.results, self.scale)
        return self._trained[name]

    def file(self, *parts: str) -> dict[str, Any]:
        """Return the content of a result that is no run, by its path below the scale."""
        path = self.results.joinpath(self.scale, *parts)
        result = read_result(path)
        if result is None:
            command = reproduce_command(["--all"], self.results, self.scale)
            raise NotReady(f"There is no {path}. Run `{command}`.")
        check_shape(path, result, _FILES.get(parts[0], {}), partly=True)
        check_origin(path, result, seed=root_and_seed(self.results)[1], scale=self.scale)
        return result
