"""The drift benchmark as an experiment: its jobs on each data set, and the run of one (docs/drift.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from .datasets import find_protocol, open_dataset
from .definition import Definition
from .drift_run import run_stream
from .drift_streams import KINDS, NEED_LABELS, make_stream
from .jobs import Job
from .results import machine
from .sources import Source

WHOLE = "whole"  # every row of a data set in random order, to count false alarms
N_BITS = 32
TITLES = {
    "digits": "Digits",
    "cifar10": "CIFAR-10 features",
    "places205": "Tiny-ImageNet features (mAP@1000)",
    "labelme": "GIST, without labels",
}
_DIGITS, _UNLABELLED = "digits", "labelme"
_SETS = {"smoke": (_DIGITS,), "full": ("cifar10", _UNLABELLED, "places205")}
_RESERVOIR = {_DIGITS: 300, _UNLABELLED: 2000}  # where it is not the protocol's
_open = lru_cache(maxsize=1)(open_dataset)


@dataclass(frozen=True)
class DriftDefinition(Definition):
    """The drift benchmark on one data set: each kind of stream through each system."""

    def __post_init__(self) -> None:
        """Check nothing: its values are set by `drift_definitions` alone."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """Its data set."""
        (name,) = self.datasets
        return (Source(name, name != _UNLABELLED),)

    def jobs(self, scale: str = "full") -> Iterator[Job]:  # noqa: ARG002 -- the data sets of the scales differ
        """Yield every job: MomentHash with the watch in all trials, what it is compared with in the first one.

        Examples
        --------
        >>> jobs = list(drift_definitions("smoke")[0].jobs())
        >>> len(jobs), jobs[0].path.as_posix()
        (12, 'drift/digits/none-follows-0.json')
        """
        (source,) = self.sources
        shipped = source.name == _DIGITS
        left_out = (() if shipped else ("turn",)) + (() if source.has_labels else NEED_LABELS)
        streams = [kind for kind in KINDS if kind not in left_out]
        cases = [*product(streams, ("follows",), range(self.trials))]
        if shipped:
            cases += product(("none", "classes", "turn"), ("paper",), (0,))
        else:
            cases += [(WHOLE, "follows", 0), *product(streams, ("still", "paper"), (0,))]
        for stream, system, trial in cases:
            yield Job(self.kind, source.name, system, (), N_BITS, trial, stream=stream)


def drift_definitions(scale: str, datasets: Sequence[str] = (), data: Path | None = None) -> list[Definition]:
    """Return the benchmark on each data set of a scale, or on those that are named.

    Examples
    --------
    >>> [definition.name for definition in drift_definitions("full")]
    ['drift-cifar10', 'drift-labelme', 'drift-places205']
    """
    if scale not in _SETS:
        raise InvalidInput(f"The drift benchmark has the scales {' and '.join(_SETS)}; got {scale!r}.")
    for name in datasets:
        if name not in _SETS[scale]:
            raise InvalidInput(f"At this scale the data sets are {', '.join(_SETS[scale])}; got {name!r}.")
    return [
        DriftDefinition(
            f"drift-{name}",
            TITLES[name],
            "drift",
            "streams",
            (name,),
            trials=1 if name == _DIGITS else 3,
            typed=("drift", "--dataset", name),
            data=data,
        )
        for name in dict.fromkeys(datasets or _SETS[scale])
    ]


def measure_drift(job: Job, data: Path | None, seed: int) -> dict[str, Any]:
    """Make the stream of a job, send it through the system, and return the result.

    Parameters
    ----------
    job
        A job of `DriftDefinition`.
    data
        The folder of features at full scale.
    seed
        The seed of the first trial; those of the others follow.
    """
    dataset, protocol = _open(job.dataset, data), find_protocol(job.dataset)
    whole, seed = job.stream == WHOLE, seed + job.trial
    n_rows = len(dataset) if whole else 4000 if job.dataset == _DIGITS else 20_000
    found = run_stream(
        make_stream(dataset, "none" if whole else job.stream, n_rows, seed),
        job.method,
        n_bits=job.n_bits,
        reservoir_size=_RESERVOIR.get(job.dataset, protocol.reservoir_size),
        top=protocol.top,
        seed=seed,
        measured=not whole,
    )
    return found | {"stream": job.stream, "dataset": job.dataset, "machine": machine()}
