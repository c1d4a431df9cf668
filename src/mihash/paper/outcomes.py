"""Results of the jobs of a definition: read from their files and checked, grouped over the trials."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import CorruptStore, NotReady
from .definition import Definition, load_definition, reproduce_command
from .jobs import Job
from .learning_pass import area_under
from .results import check_origin, check_shape, read_result, root_and_seed
from .scales import REPEATED
from .sources import Source, data_name

MEASURES = ("updates", "area", "final", "learning_s", "deciding_s", "reservoir_s", "update_s", "step_s")
MEASURED = Path(__file__).parent / "measured"
SHARED_TIMES = (
    "They were taken in passes shared with other triggers, which overstates learning and understates what the "
    "trigger adds. Run `{command}` into an empty folder, before the others."
)
_NO_CASES = "all of its methods need labels, and its data sets have none."
_NO_IMAGES = "it trains on images, and its data have none."
_NUMBER = (int, float)
_TIMES = {"learning_s": _NUMBER, "deciding_s": _NUMBER}
_PART = {"p_pos": [_NUMBER], "p_neg": [_NUMBER], "mi": _NUMBER}
_ALL_QUERIES = _PART | {"map": _NUMBER}
_SHAPES: dict[str, dict[str, Any]] = {
    "online": {
        "updates": _NUMBER,
        "area": _NUMBER,
        "final": _NUMBER,
        "precisions": [_NUMBER],
        "data": (str,),
        "protocol": {"rows": (int,), "interval": (int,), "reservoir_size": (int,), "top": (int, type(None))},
        "examples": [_NUMBER],
        "updated_at": [_NUMBER],
        "times": _TIMES,
    },
    "batch": {
        "final": _NUMBER,
        "mapping": (str,),
        "history": [_NUMBER],
        "n_train": (int,),
        "data": (str,),
        "protocol": {"rows": (int,)},
        "times": {"learning_s": _NUMBER, "step_s": _NUMBER},
    },
    "images": {
        "run": {"method": (str,), "n_bits": (int,), "trial": (int,), "recipe": {}},
        "final": _NUMBER,
        "data": (str,),
        "losses": [_NUMBER],
        "sizes": dict.fromkeys(("learn", "query", "base"), (int,)),
        "times": {"training": _NUMBER, "warm_up": _NUMBER},
        "machine": {"device": (str,)},
        "versions": {"torch": (str,)},
    },
    "correlation": {
        **{key: [_NUMBER] for key in ("mi", "ap", "dcg", "ndcg")},
        "pearson": dict.fromkeys(("ap", "dcg", "ndcg"), _NUMBER),
    },
    "distributions": {
        "before": _ALL_QUERIES,
        "after": _ALL_QUERIES,
        "one_query": {"bad": _PART, "good": _PART},
    },
    "drift": {"rows": (int,), "alarms": [{"seen": _NUMBER}], "delays": (list,), "rules": {}},
}
_REFUSED = {"refused": (str,), "n_train": (int,), "data": (str,), "protocol": {"rows": (int,)}}


@dataclass(frozen=True)
class Outcome:
    """One job in all its trials.

    Attributes
    ----------
    trials
        The result of each trial, as it was written; none for a method that cannot be run here.
    job
        The job of the first trial.
    shipped
        Whether the results come with the package.

    Examples
    --------
    >>> job = Job("online", "cifar10", "okh", (), 32, theta=0.0)
    >>> outcome = Outcome(({"updates": 7}, {"updates": 8}, {"updates": 9}), job)
    >>> outcome.mean("updates"), outcome.spread("updates")
    (8.0, 1.0)
    """

    trials: tuple[dict[str, Any], ...]
    job: Job
    shipped: bool = False

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

    def has(self, measure: str) -> bool:
        """Return whether every trial has a time; results of earlier versions have fewer."""
        return all(measure in trial["times"] for trial in self.trials)

    @property
    def curves(self) -> NDArray[np.float64]:
        """The curves: mAP at the checkpoints, a row for each trial."""
        return np.array([trial["precisions"] for trial in self.trials])

    @property
    def missing(self) -> str | None:
        """Why it has no numbers, or None where it has."""
        if not self.trials:
            return f"needs {self.job.lacking}"
        refused = [trial["refused"] for trial in self.trials if "refused" in trial]
        return str(refused[0]) if refused else None

    @property
    def mapping(self) -> str:
        """The kind of a batch method's mapping; nothing where it has no numbers."""
        return "" if self.missing else str(self.trials[0]["mapping"])


def read_job(job: Job, path: Path, source: Source, scale: str, seed: int) -> dict[str, Any] | None:
    """Return the result of a job, or None where there is none.

    Raises
    ------
    StoreError
        Where it lacks values, or was made with another seed, at another scale, of other data or by another recipe.
    """
    result = read_result(path)
    if result is None:
        return None
    check_shape(path, result, _REFUSED if job.kind == "batch" and "refused" in result else _SHAPES[job.kind])
    if job.kind == "online":
        n_points, n_values = len(result["examples"]), len(result["precisions"])
        if not n_points or n_points != n_values:
            raise CorruptStore(
                f"{path} has {n_values} precisions at {n_points} examples. Remove it, and it is made again."
            )
    if job.kind == "drift":
        check_origin(path, result, seed=seed + job.trial, scale=scale, dataset=job.dataset)
    else:
        own = {"run": job.described} if job.kind == "images" else {"data": data_name(source, scale)}
        check_origin(path, result, seed=seed, scale=scale, **own)
    return result


def comes_with_package(job: Job, scale: str, seed: int) -> bool:
    """Tell whether the package has the result of a batch method that takes hours without a GPU.

    Examples
    --------
    >>> job = Job("batch", "cifar10", "vdsh", (("rho", 0.3),), 32)
    >>> comes_with_package(job, "full", 0), comes_with_package(job, "small", 0)
    (True, False)
    """
    return job.kind == "batch" and scale == "full" and seed == 0 and _measured(job).exists()


def _measured(job: Job) -> Path:
    """Return where the package would have a result."""
    if job.kind == "batch":
        wide = f"-{job.n_features}" if job.n_features else ""
        return MEASURED / f"setting1-{job.path.parent.name}-{job.n_bits}-{job.trial}{wide}.json"
    return MEASURED / job.path.name


def outcomes(definition: Definition, results: Path, scale: str) -> dict[Job, Outcome]:
    """Return what the jobs of a definition gave, by the job of the first trial.

    A batch method that cannot be run here, and of which there are no results from elsewhere, has none. At full
    scale, networks that were not trained here have the results that come with the package; so has VDSH.

    Raises
    ------
    NotReady
        Where results are missing; the message names the command that makes them.
    StoreError
        Where one was made with another seed than the folder's, at another scale or of other data, or is corrupt.

    Examples
    --------
    >>> outcomes(load_definition("table2"), Path("nowhere"), "smoke")
    Traceback (most recent call last):
    mihash.errors.NotReady: 36 of the 36 results of table2 are not in nowhere/smoke. Run `mihash reproduce table2
    --scale smoke --results nowhere`.
    """
    seed, sources = root_and_seed(results)[1], {source.name: source for source in definition.sources}
    found = {
        job: read_job(job, results / scale / job.path, sources[job.dataset], scale, seed)
        for job in definition.jobs(scale)
    }
    images = definition.kind == "images"
    shipped = images and scale == "full" and seed == 0 and not any(found.values())
    if shipped:
        found = {job: read_job(job, _measured(job), sources[job.dataset], scale, seed) for job in found}
    brought = {job for job, made in found.items() if made is None and comes_with_package(job, scale, seed)}
    found |= {job: read_job(job, _measured(job), sources[job.dataset], scale, seed) for job in brought}
    missing = [job for job, result in found.items() if result is None and (images or not job.lacking)]
    if missing and missing[0].lacking:
        raise NotReady(f"{definition.name} needs {missing[0].lacking}.")
    if missing:
        more = " with `--device cuda`" if images and scale == "full" else ""
        raise NotReady(
            f"{len(missing)} of the {len(found)} results of {definition.name} are not in {results / scale}. "
            f"Run `{definition.command(results, scale)}`{more}."
        )
    if not found:
        raise NotReady(f"{definition.name} has nothing to run: {_NO_IMAGES if images else _NO_CASES}")
    if definition.auc != "mean":
        for made in filter(None, found.values()):
            made["area"] = area_under(made["examples"], made["precisions"], definition.auc)
    trials: dict[Job, list[dict[str, Any]]] = {}
    for job, result in found.items():
        trials.setdefault(replace(job, trial=0), []).extend([] if result is None else [result])
    return {job: Outcome(tuple(own), job, shipped or job in brought) for job, own in trials.items()}


def timed_alone(definition: Definition, results: Path, scale: str) -> bool:
    """Tell whether the learning passes of a definition served no trigger but its own.

    A pass that is shared with short intervals learns in small pieces, and triggers in it share measurements: it
    overstates what learning takes, and understates what a trigger adds. Results of one pass have the same
    ``learning_s``, to the last digit.

    Examples
    --------
    >>> int(timed_alone(load_definition("table2"), Path("nowhere"), "smoke"))
    1
    """
    own = {results / scale / job.path for job in definition.jobs(scale)}
    for folder in sorted({path.parent for path in own}):
        times: dict[bool, set[float]] = {True: set(), False: set()}
        for path in folder.glob("*.json"):
            result = read_result(path) or {}
            check_shape(path, result, {"times": _TIMES})
            times[path in own].add(result["times"]["learning_s"])
        if times[True] & times[False]:
            return False
    return True


def _repeated(found: dict[Job, Outcome], same: dict[str, str]) -> set[tuple[str, str]]:
    """Return the data sets and methods whose runs are those on the same data under another name."""
    alike: dict[tuple[str, str], bool] = {}
    for job, outcome in found.items():
        twin = found.get(replace(job, dataset=same[job.dataset])) if job.dataset in same else None
        if twin is not None and job.kind == "online":
            equal = [each["updated_at"] for each in twin.trials] == [each["updated_at"] for each in outcome.trials]
            equal &= np.array_equal(twin.values("updates"), outcome.values("updates"))
            key = (job.dataset, job.method)
            alike[key] = alike.get(key, True) and equal
    return {key for key, equal in alike.items() if equal}


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
    _read: dict[str, dict[Job, Outcome]] = field(default_factory=dict, repr=False)

    def outcomes(self, *names: str, repeated: bool = False) -> dict[Job, Outcome]:
        """Return what the jobs of definitions gave, by the job of the first trial.

        Where two data sets are the same data at this scale and a method's runs on both are the same, those on the
        second are left out unless ``repeated``: they are no further evidence.
        """
        for name in names:
            if name not in self._read:
                self._read[name] = outcomes(load_definition(name), self.results, self.scale)
        found = {job: outcome for name in names for job, outcome in self._read[name].items()}
        left_out = set() if repeated else _repeated(found, REPEATED.get(self.scale, {}))
        return {job: outcome for job, outcome in found.items() if (job.dataset, job.method) not in left_out}

    def file(self, *parts: str) -> dict[str, Any]:
        """Return the result of a study without a trigger, by its path below the scale."""
        path = self.results.joinpath(self.scale, *parts)
        result = read_result(path)
        if result is None:
            command = reproduce_command(["--all"], self.results, self.scale)
            raise NotReady(f"There is no {path}. Run `{command}`.")
        check_shape(path, result, _SHAPES.get(parts[0], {}), partly=True)
        check_origin(path, result, seed=root_and_seed(self.results)[1], scale=self.scale)
        return result
