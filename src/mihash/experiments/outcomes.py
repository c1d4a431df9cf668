"""What runs gave: the results of a definition read from their files, the trials of one run together."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import CorruptStore, NotReady
from .definition import Definition, Run, load_definition, load_parameters
from .results import read_result

__all__ = ["MEASURES", "NO_CASES", "SHARED_TIMES", "Outcome", "Study", "outcomes", "timed_alone"]

MEASURES = ("updates", "area", "final", "learning_s", "deciding_s")
NO_CASES = "none of its methods can do without labels, and its data sets have none."
SHARED_TIMES = (
    "They were taken in passes shared with other triggers, which overstates learning and understates what the "
    "trigger adds. Run `{command}` into an empty folder, before the others."
)


@dataclass(frozen=True)
class Outcome:
    """One run in all its trials.

    Attributes
    ----------
    run
        The run of the first trial.
    trials
        The result of each trial, as it was written.
    """

    run: Run
    trials: tuple[dict[str, Any], ...]

    def values(self, measure: str) -> NDArray[np.float64]:
        """Return a measure of each trial: ``"updates"``, ``"area"``, ``"final"``, or a time in seconds."""
        validation.choice("measure", measure, MEASURES)
        return np.array([(trial["times"] if measure.endswith("_s") else trial)[measure] for trial in self.trials])

    def mean(self, measure: str) -> float:
        """Return the mean of a measure over the trials.

        Examples
        --------
        >>> run = Run("cifar10", "okh", (), 32, 0, 1.0, 0.0, 1.0)
        >>> outcome = Outcome(run, ({"updates": 7}, {"updates": 8}, {"updates": 9}))
        >>> outcome.mean("updates"), outcome.spread("updates")
        (8.0, 1.0)
        """
        return float(self.values(measure).mean())

    def spread(self, measure: str) -> float:
        """Return the standard deviation of a measure over the trials (n - 1 in the divisor), 0 for one trial."""
        return float(self.values(measure).std(ddof=1)) if len(self.trials) > 1 else 0.0

    @property
    def curves(self) -> NDArray[np.float64]:
        """The curves: mAP at the checkpoints, a row for each trial."""
        return np.array([trial["precisions"] for trial in self.trials])


def outcomes(definition: Definition, results: Path, scale: str) -> dict[Run, Outcome]:
    """Return what the runs of a definition gave, by the run of the first trial.

    Raises
    ------
    NotReady
        Where results are missing; the message names the command that makes them.

    Examples
    --------
    >>> from mihash.experiments.definition import load_definition
    >>> outcomes(load_definition("table2"), Path("nowhere"), "smoke")
    Traceback (most recent call last):
    mihash.errors.NotReady: 30 of the 30 results of table2 are not in nowhere/smoke. Run `mihash reproduce table2
    --scale smoke --results nowhere`.
    """
    trials: dict[Run, list[dict[str, Any]]] = {}
    n_runs, n_missing = 0, 0
    for run in definition.runs(load_parameters()):
        path = results / scale / run.path
        result = read_result(path)
        n_runs += 1
        if result is None:
            n_missing += 1
            continue
        try:
            for name in ("updates", "area", "final", "precisions", "data", "protocol", "examples"):
                _ = result[name]
            _ = result["times"]["learning_s"], result["times"]["deciding_s"]
        except KeyError as error:
            raise CorruptStore(f"{path} has no {error}. Remove it, and it is made again.") from error
        trials.setdefault(replace(run, trial=0), []).append(result)
    if n_missing:
        raise NotReady(
            f"{n_missing} of the {n_runs} results of {definition.name} are not in {results / scale}. "
            f"Run `{definition.command(results, scale)}`."
        )
    if not n_runs:
        raise NotReady(f"{definition.name} has nothing to run: {NO_CASES}")
    return {run: Outcome(run, tuple(found)) for run, found in trials.items()}


def timed_alone(definition: Definition, results: Path, scale: str) -> bool:
    """Tell whether the learning passes of a definition served no trigger but its own.

    A pass that is shared with short intervals learns in small pieces, and triggers in it share measurements: it
    overstates what learning takes, and understates what a trigger adds. Results of one pass have the same
    ``learning_s``, to the last digit.

    Examples
    --------
    >>> from mihash.experiments.definition import load_definition
    >>> int(timed_alone(load_definition("table2"), Path("nowhere"), "smoke"))
    1
    """
    own = {results / scale / run.path for run in definition.runs(load_parameters())}
    for folder in sorted({path.parent for path in own}):
        times: dict[bool, set[float]] = {True: set(), False: set()}
        for path in folder.glob("*.json"):
            result = read_result(path) or {}
            times[path in own].add(result.get("times", {}).get("learning_s"))
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
