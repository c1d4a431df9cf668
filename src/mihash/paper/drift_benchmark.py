"""The drift benchmark: its jobs at each scale, their results, and the claims that were fixed before the runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInput
from .datasets import open_dataset
from .datasets.dataset import Dataset
from .drift_run import SYSTEMS, run_stream
from .drift_streams import KINDS, NEED_LABELS, make_stream
from .parameters import read_toml
from .results import machine, read_result, versions, write_result
from .runner import Progress, in_processes
from .sources import check_folder, find_source

CLAIMS = Path(__file__).with_name("drift_claims.toml")
WHOLE = "whole"  # every row of a data set in random order, to count false alarms
NOT_TESTED = "not tested"
N_BITS = 32
_SEEDS = {"smoke": (0,), "full": (0, 1, 2)}
_LENGTH = {"smoke": 4000, "full": 20_000}
_SETS = {"smoke": ("digits",), "full": ("cifar10", "labelme", "places205")}
_RESERVOIR = {"digits": 300, "cifar10": 1000, "places205": 5000, "labelme": 2000}
_TOP = {"places205": 1000}
_ONE_SEED = ("still", "paper")  # systems to compare with, on the first seed


@dataclass(frozen=True)
class DriftJob:
    """One stream of a data set through one system.

    Attributes
    ----------
    dataset, stream, system, seed
        The names of what is run.
    scale
        ``"smoke"`` or ``"full"``.
    data
        The folder of features at full scale.
    """

    dataset: str
    stream: str
    system: str
    seed: int
    scale: str
    data: Path | None = None

    @property
    def path(self) -> Path:
        """Where its result is, below the folder of results."""
        return Path(self.scale, "drift", self.dataset, f"{self.stream}-{self.system}-{self.seed}.json")

    def run(self) -> dict[str, Any]:
        """Make the stream, send it through the system, and return the result."""
        whole = self.stream == WHOLE
        dataset = _open(self.dataset, self.data)
        length = len(dataset) if whole else _LENGTH[self.scale]
        stream = make_stream(dataset, "none" if whole else self.stream, length, self.seed)
        found = run_stream(
            stream,
            self.system,
            n_bits=N_BITS,
            reservoir_size=_RESERVOIR[self.dataset],
            top=_TOP.get(self.dataset),
            seed=self.seed,
            measured=not whole,
        )
        about = {"scale": self.scale, "dataset": self.dataset, "versions": versions(), "machine": machine()}
        return found | about | {"stream": self.stream}


@lru_cache(maxsize=1)
def _open(name: str, data: Path | None) -> Dataset:
    return open_dataset(name, data)


def drift_jobs(scale: str, data: Path | None = None, only: Sequence[str] = ()) -> list[DriftJob]:
    """Return the jobs of a scale; ``only`` names data sets to keep.

    Examples
    --------
    >>> jobs = drift_jobs("smoke")
    >>> len(jobs), str(jobs[0].path)
    (12, 'smoke/drift/digits/none-follows-0.json')
    """
    if scale not in _SETS:
        raise InvalidInput(f"The drift benchmark has the scales {' and '.join(_SETS)}; got {scale!r}.")
    unknown = [name for name in only if name not in _SETS[scale]]
    if unknown:
        raise InvalidInput(f"At this scale the data sets are {', '.join(_SETS[scale])}; got {unknown[0]!r}.")
    jobs = []
    for dataset in only or _SETS[scale]:
        image = dataset == "digits"
        kinds = [
            kind
            for kind in KINDS
            if (image or kind != "turn") and not (dataset == "labelme" and kind in NEED_LABELS)
        ]
        jobs += [DriftJob(dataset, kind, "follows", seed, scale, data) for kind in kinds for seed in _SEEDS[scale]]
        if scale == "full":
            jobs += [DriftJob(dataset, WHOLE, "follows", 0, scale, data)]
            jobs += [DriftJob(dataset, kind, system, 0, scale, data) for kind in kinds for system in _ONE_SEED]
        else:
            jobs += [DriftJob(dataset, kind, "paper", 0, scale) for kind in ("none", "classes", "turn")]
    return jobs


def run_drift(
    jobs: Sequence[DriftJob],
    results: Path,
    processes: int = 1,
    progress: Progress = lambda done, total, what: None,  # noqa: ARG005 -- nobody listens
) -> int:
    """Run the jobs whose results are not there, and return how many those were."""
    waiting = [job for job in jobs if read_result(results / job.path) is None]
    for dataset in {job.dataset for job in waiting} - {"digits"}:
        check_folder(find_source(dataset), "full", waiting[0].data)
    one_by_one = processes == 1 or len(waiting) < 2
    write = partial(_write, results)
    done = map(write, waiting) if one_by_one else in_processes(write, waiting, processes)
    for n_done, job in enumerate(done, start=1):
        progress(n_done, len(waiting), f"{job.dataset} {job.stream} {job.system} {job.seed}")
    return len(waiting)


def _write(results: Path, job: DriftJob) -> DriftJob:
    write_result(results / job.path, job.run())
    return job


@dataclass(frozen=True)
class DriftClaim:
    """A statement about the benchmark, fixed before the full run.

    Attributes
    ----------
    id, statement
        Its name, and what it says.
    dataset, streams, rule, measure
        What it is about; ``"*"`` stands for every stream.
    at_least, at_most
        The bar; one of them.
    """

    id: str
    statement: str
    dataset: str
    streams: tuple[str, ...]
    measure: str
    rule: str = "price"
    at_least: float | None = None
    at_most: float | None = None

    def judge(self, results: "Results") -> tuple[bool | None, str]:
        """Return whether it held, and the figures of each stream.

        None where results are missing, or where a ratio of costs has no meaning, as they are not positive. There
        the costs are subtracted; a bar of 1 becomes a difference of 0, and no other bar can be judged.
        """
        streams = results.streams(self.dataset) if self.streams == ("*",) else list(self.streams)
        found = [self._judge_one(results, stream) for stream in streams]
        figures = [figure for _, figure in found if figure is not None]
        if not figures or len(figures) < len(found):
            return None, NOT_TESTED
        verdicts = {held for held, _ in found}
        return False if False in verdicts else None if None in verdicts else True, ", ".join(figures)

    def _judge_one(self, results: "Results", stream: str) -> tuple[bool | None, str | None]:
        """Return whether it held on a stream, and the figure as text; None where there is none."""
        value = results.figure(self.dataset, stream, self.measure, self.rule)
        if value is not None:
            return self._is_within(value), f"{stream} {value:.4g}"
        more = results.cost_difference(self.dataset, stream, self.measure, self.rule)
        if more is None:
            return None, None
        is_judged = 1.0 in (self.at_least, self.at_most)
        text = f"{stream} {more:+,.0f} queries (no ratio: costs are not positive)"
        return self._is_within(1.0 + more) if is_judged else None, text

    def _is_within(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)


def load_drift_claims() -> list[DriftClaim]:
    """Return the claims in the order of the file.

    Examples
    --------
    >>> load_drift_claims()[0].id
    'cifar10-share'
    """
    entries = read_toml(CLAIMS)["claim"]
    return [DriftClaim(**(entry | {"streams": tuple(entry["streams"])})) for entry in entries]


class Results:
    """The results of jobs, and the figures of them: means over seeds, and the worst delay.

    Parameters
    ----------
    jobs
        The jobs.
    folder
        The folder of results; jobs without a result are left out.
    """

    def __init__(self, jobs: Sequence[DriftJob], folder: Path) -> None:
        self._found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for job in jobs:
            result = read_result(folder / job.path)
            if result is not None:
                self._found.setdefault((job.dataset, job.stream, job.system), []).append(result)

    @property
    def datasets(self) -> list[str]:
        """The data sets that have results."""
        return list(dict.fromkeys(dataset for dataset, _, _ in self._found))

    def streams(self, dataset: str) -> list[str]:
        """Return the streams of a data set that the first system has results of, but for the whole set."""
        found = [stream for name, stream, system in self._found if (name, system) == (dataset, "follows")]
        return [stream for stream in found if stream != WHOLE]

    def of(self, dataset: str, stream: str, system: str = "follows") -> list[dict[str, Any]]:
        """Return the results of a stream, one for each seed."""
        return self._found.get((dataset, stream, system), [])

    def figure(
        self, dataset: str, stream: str, measure: str, rule: str = "price", system: str = "follows"
    ) -> float | None:
        """Return a figure of a stream; None where it has no result. Without an alarm, a delay is infinite."""
        found = self.of(dataset, stream, system)
        if not found or rule not in SYSTEMS[system].rules:
            return None
        if measure == "delay":
            delays = [delay for result in found for delay in result["delays_of_new"]]
            return max((float("inf") if delay is None else float(delay) for delay in delays), default=0.0)
        if measure == "alarms":
            return float(max(len(result["alarms"]) for result in found))
        if measure in ("us_observing", "us_learning", "false_alarms"):
            return float(np.mean([result[measure] for result in found]))
        values = [_of_rules(result["rules"], measure, rule) for result in found]
        return None if None in values else float(np.mean([value for value in values if value is not None]))

    def cost_difference(self, dataset: str, stream: str, measure: str, rule: str = "price") -> float | None:
        """Return by how much the first cost of a ratio is above the second; None where it has no result."""
        found = [_costs(result["rules"], measure, rule) for result in self.of(dataset, stream)]
        pairs = [costs for costs in found if costs is not None]
        return float(np.mean([cost - other for cost, other in pairs])) if pairs else None


def _costs(rules: dict[str, dict[str, Any]], measure: str, rule: str) -> tuple[float, float] | None:
    """Return the two costs whose ratio a measure is; None of other measures, and where none were measured."""
    if measure not in ("cost_of_share", "cost_ratio") or "cost" not in rules[rule]:
        return None
    other = rules["share"]["cost"] if measure == "cost_of_share" else rules[rule]["best_cost"]
    return float(rules[rule]["cost"]), float(other)


def _of_rules(rules: dict[str, dict[str, Any]], measure: str, rule: str) -> float | None:
    """Return a figure of one trigger, or of one compared with another."""
    if measure == "share_of_always":
        return float(rules[rule]["area"] / rules["always"]["area"])
    if costs := _costs(rules, measure, rule):
        return costs[0] / costs[1] if min(costs) > 0 else None
    value = rules[rule].get(measure)
    return None if value is None else float(value)
