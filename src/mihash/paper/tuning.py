"""The paper's search for parameters: on a validation set that is cut from the stream (App. B.2).

Nothing outside the stream is looked at: its last examples are the queries, the others are streamed and stored.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from .. import validation
from ..errors import InvalidInput
from ..online import learner_class
from ..state import replace_file
from .datasets import checkpoints
from .jobs import Job
from .parameters import check_arguments
from .results import check_results_folder, seeded, versions, write_result
from .scales import OWN, SCALES, stage
from .sources import check_folder, find_source

Grid = Mapping[str, Sequence[Any]]
Progress = Callable[[int, int, str], None]

N_CHECKPOINTS = 10
BUDGET = 9  # settings for each method
GRIDS: dict[str, Grid] = {
    "mihash": {"learning_rate": (0.3, 1.0, 3.0), "scale": (10.0, 20.0, 30.0)},
    "okh": {"C": (1e-5, 1e-4, 1e-3), "alpha": (0.3, 0.7, 0.9)},
    "osh": {"eta": (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0), "loss": ("hinge",)},
    "adapthash": {"alpha": (0.1, 0.7, 0.9), "eta": (0.001, 0.1, 0.3)},
    "sketchhash": {"sketch_size": (40, 60, 80, 100, 150, 200, 250, 300, 400)},
    "hcoh": {"eta": (0.01, 0.03, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)},
    "hmoh": {"lr": (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.0, 3.0, 10.0)},
    "momenthash": {"rate": (2.0, 4.0, 8.0), "correction": (0.03, 0.1, 0.3)},
}


@dataclass(frozen=True)
class Tuned:
    """What a search found: every setting with its score, the best first, and the definition that was written."""

    dataset: str
    method: str
    n_bits: int
    scores: tuple[tuple[dict[str, Any], float], ...]
    path: Path | None = None

    @property
    def best(self) -> dict[str, Any]:
        """The setting with the largest area under the curve of mAP on the validation set."""
        return self.scores[0][0]

    @property
    def n_equal(self) -> int:
        """How many settings are as good as the best; the first of them in the grid is taken."""
        return sum(area == self.scores[0][1] for _, area in self.scores)


def tune(
    dataset: str,
    method: str,
    *,
    n_bits: int = 32,
    grid: Grid | None = None,
    scale: str = "smoke",
    data: Path | None = None,
    results: Path | None = None,
    trials: int = 1,
    seed: int = 0,
    progress: Progress = lambda done, total, what: None,  # noqa: ARG005 -- reports nothing
) -> Tuned:
    """Try every setting of a grid on the validation cut; keep the scores as a result file.

    Parameters
    ----------
    dataset, scale, data, seed
        The data set of the paper and what stands for it; or the path of a file, whose scale is ``"own"``.
    method
        A learner by name.
    n_bits
        The code length.
    grid
        Values to try for each argument; by default `GRIDS`.
    results
        The folder of results, below which a seed other than 0 has its own; None keeps no file.
    trials
        How many divisions of the data are averaged over.
    progress
        Called with how many settings of how many were tried, and the one at hand.

    Examples
    --------
    >>> tuned = tune("cifar10", "hcoh", n_bits=16, grid={"eta": [0.0001, 0.1]})
    >>> tuned.best
    {'eta': 0.1}
    """
    cls, source = learner_class(method), find_source(dataset)
    validation.choice("scale", scale, SCALES)
    scale = scale if source.file is None else OWN
    n_bits = validation.integer("n_bits", n_bits, minimum=1)
    trials = validation.integer("trials", trials, minimum=1)
    seed = validation.integer("seed", seed, minimum=0)
    values = GRIDS.get(method, {}) if grid is None else grid
    settings = [dict(zip(values, choice, strict=True)) for choice in product(*values.values())]
    if not settings:
        raise InvalidInput(f"`grid` must have values for each argument; got {dict(values)}.")
    for setting in settings:
        check_arguments(method, n_bits, setting)  # a bad value is refused before anything is run
    check_folder(source, scale, data)
    where = stage(dataset, scale, data, seed)
    if cls.needs_labels and where.dataset.y is None:
        raise InvalidInput(f"{cls.__name__} learns from class labels, and {where.dataset.name} has none.")
    if results is not None:
        check_results_folder(results)
    scores: dict[int, list[float]] = {index: [] for index in range(len(settings))}
    for trial in range(trials):
        split = where.split(trial).validation(where.protocol.n_validation)
        points = checkpoints(len(split.stream), N_CHECKPOINTS, seed=seed, trial=trial)
        for index, setting in enumerate(settings):
            progress(trial * len(settings) + index, trials * len(settings), _describe(setting))
            job = Job("online", source.name, method, tuple(setting.items()), n_bits, trial, theta=0.0)
            made = where.learn(split, job, [job.trigger(where.protocol.interval)], points)
            scores[index].append(made.branches[0].area)
    progress(trials * len(settings), trials * len(settings), "done")
    ranked = sorted(
        ((settings[i], float(np.mean(found))) for i, found in scores.items()), key=lambda item: -item[1]
    )
    if results is None:
        return Tuned(dataset, method, n_bits, tuple(ranked))
    path = seeded(results, seed) / scale / "tuning" / f"{source.name}-{method}-{n_bits}.toml"
    tuned = Tuned(dataset, method, n_bits, tuple(ranked), path)
    write_result(
        path.with_suffix(".json"),
        {
            "data": where.dataset.name,
            "method": method,
            "n_bits": n_bits,
            "scale": scale,
            "seed": seed,
            "trials": trials,
            "grid": {name: list(tried) for name, tried in values.items()},
            "scores": [{"parameters": setting, "area": area} for setting, area in tuned.scores],
            "versions": versions(),
        },
    )
    replace_file(path, as_definition(tuned).encode())
    return tuned


def parse_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return a grid from texts of the form NAME=VALUE,VALUE.

    Examples
    --------
    >>> parse_grid(["C=0.1,1", "loss=hinge"])
    {'C': [0.1, 1], 'loss': ['hinge']}
    """
    grid: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise InvalidInput(f"Values to try must be NAME=VALUE,VALUE,...; got {text!r}.")
        if name.strip() in grid:
            raise InvalidInput(
                f"Values to try must name {name.strip()} once, with all of its values; got {text!r} as well."
            )
        grid[name.strip()] = [_value(value.strip()) for value in values.split(",")]
    return grid


def write_common(found: Sequence[Tuned]) -> Path:
    """Write one definition with the best settings of several methods, beside those of each; return its path."""
    first = found[0]
    if first.path is None or any((each.dataset, each.n_bits) != (first.dataset, first.n_bits) for each in found):
        raise InvalidInput("`found` must be searches on one data set, at one code length, that were kept.")
    path = first.path.with_name(f"{find_source(first.dataset).name}-{first.n_bits}.toml")
    replace_file(path, as_definition(*found).encode())
    return path


def as_definition(*found: Tuned) -> str:
    """Return the best settings as a definition, which `mihash reproduce` takes: curves, or a table of learners.

    A file is named by its absolute path, so that the definition may lie anywhere.

    Examples
    --------
    >>> print(as_definition(Tuned("cifar10", "okh", 32, (({"C": 0.1}, 0.3),))))
    title = "okh on cifar10 with the parameters found on the validation set"
    kind = "online"
    draws = "curves"
    datasets = ["cifar10"]
    methods = ["okh"]
    bits = [32]
    <BLANKLINE>
    [parameters.okh]
    C = 0.1
    <BLANKLINE>
    """
    first, methods = found[0], [each.method for each in found]
    listed = ", ".join(methods)
    file = find_source(first.dataset).file
    dataset, name = (first.dataset, first.dataset) if file is None else (str(file.absolute()), file.name)
    lines = [
        f"title = {_quoted(f'{listed} on {name} with the parameters found on the validation set')}",
        'kind = "online"',
        *(['draws = "curves"'] if len(found) == 1 else ['draws = "learners"', "thetas = []"]),
        f"datasets = [{_quoted(dataset)}]",
        f"methods = {json.dumps(methods)}",
        f"bits = [{first.n_bits}]",
    ]
    for each in found:
        values = (f"{name} = {json.dumps(value)}" for name, value in each.best.items())
        lines += ["", f"[parameters.{each.method}]", *values]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as TOML writes it, which is as JSON does."""
    return json.dumps(text, ensure_ascii=False)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _describe(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in setting.items()) or "defaults"
