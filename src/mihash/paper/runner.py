"""Runs experiments: only what has no result yet, one learning pass for all its triggers, on several processes."""

import multiprocessing
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import validation
from ..batch import METHODS, lacking
from ..errors import StoreError
from ..kernels import one_thread
from ..online import learner_class
from .datasets import Split, checkpoints
from .definition import Definition, load_parameters
from .fits import fit_once
from .outcomes import check_fit, check_run
from .passes import learn_once, pass_seed
from .results import machine, read_result, versions, write_result
from .runs import Fit, Run
from .scales import Stage, stage
from .sources import Source, find_source

N_CHECKPOINTS = 50
_RELATIVE_COST = {"places205": 6.0, "cifar10": 1.5, "labelme": 1.0}
_COST_OF_FIT = {"fasthash": 60.0, "vdsh": 40.0, "dtsh": 25.0, "dpsh": 6.0, "mihash": 1.5}

Progress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Task:
    """A learning pass that is to be made, and the runs that it serves; or a fit, and the code lengths."""

    source: Source
    learning: Run | Fit
    runs: tuple[Run | Fit, ...]
    scale: str
    data: Path | None
    results: Path
    seed: int

    @property
    def cost(self) -> float:
        """How long it takes, in units of no meaning."""
        if isinstance(self.learning, Fit):
            return _COST_OF_FIT.get(self.learning.method, 1.0)
        small = min((run.every for run in self.runs if isinstance(run, Run)), default=1.0)
        slower = 1.0 + 0.3 / small
        return _RELATIVE_COST.get(self.learning.dataset, 1.0) * slower

    def __str__(self) -> str:
        run = self.learning
        return f"{run.dataset} {run.method} {run.n_bits or 'all'} bits, trial {run.trial}"


def pending(
    definitions: Iterable[Definition], results: Path, scale: str, data: Path | None = None, seed: int = 0
) -> list[Task]:
    """Return the passes and fits that definitions need and whose results are not all there, the longest first.

    A batch method that cannot be had here, for it needs torch, is left out.

    A result that is there and is not whole, or was made with another seed, at another scale or of other data, is
    refused.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> tasks = pending([load_definition("table4")], Path("nowhere"), "smoke")
    >>> len(tasks), len(tasks[0].runs)
    (12, 12)
    """
    parameters = load_parameters()
    passes: defaultdict[Run | Fit, set[Run | Fit]] = defaultdict(set)
    sources: dict[str, Source] = {}
    for definition in definitions:
        sources |= {source.name: source for source in definition.sources}
        for run in definition.runs(parameters):
            path = results / scale / run.path
            result = read_result(path)
            if result is None:
                passes[run.learning].add(run)
            else:
                check_run(path, result, sources[run.dataset], scale, seed)
        for fit in definition.at(scale).fits():
            path = results / scale / fit.path
            result = read_result(path)
            if result is not None:
                check_fit(path, result, sources[fit.dataset], scale, seed)
            elif not lacking(fit.method):
                passes[fit.learning].add(fit)
    where = (scale, data, results, seed)
    tasks = [
        Task(sources[learning.dataset], learning, tuple(sorted(wanted, key=_sort_key)), *where)
        for learning, wanted in passes.items()
    ]
    return sorted(tasks, key=lambda task: (-task.cost, str(task)))


def run_task(task: Task) -> float:
    """Make a pass and write a result for each of its runs; return the seconds that it took."""
    begin = time.perf_counter()
    if find_source(str(task.source)) != task.source:
        raise StoreError(f"The data file {str(task.source)!r} was changed since it was first read. Start again.")
    where = stage(str(task.source), task.scale, task.data, task.seed)
    split = where.split(task.learning.trial)
    made = (
        _fit(task, where, split) if isinstance(task.learning, Fit) else _learn(task, task.learning, where, split)
    )
    for run, result in zip(task.runs, made, strict=True):
        described = asdict(run) | {"parameters": dict(run.parameters)}
        common = {
            "run": described,
            "scale": task.scale,
            "seed": task.seed,
            "data": where.dataset.name,
            "versions": versions(),
            "machine": machine(),
        }
        write_result(task.results / task.scale / run.path, common | result)
    return time.perf_counter() - begin


def run_tasks(
    tasks: Sequence[Task],
    processes: int = 1,
    progress: Progress = lambda done, total, what: None,  # noqa: ARG005 -- nobody listens
) -> None:
    """Make passes on several processes; what is finished stays, so an interrupted run goes on where it was."""
    validation.integer("processes", processes, minimum=1)
    total, done = sum(task.cost for task in tasks), 0.0
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # also for what is not loaded yet, as torch
    if processes == 1:
        for task in tasks:
            progress(done, total, str(task))
            run_task(task)
            done += task.cost
        progress(total, total, "done")
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent) as pool:
        waiting: dict[Future[float], Task] = {pool.submit(run_task, task): task for task in tasks}
        try:
            while waiting:
                finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    task = waiting.pop(future)
                    future.result()
                    done += task.cost
                    progress(done, total, str(task))
        except BrokenProcessPool as error:
            raise StoreError(
                "A process was killed while it worked, perhaps for want of memory. Run the same command again: "
                "what is finished stays. Fewer --processes take less memory."
            ) from error
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """Have this process end when the one that started it is gone, killed or not."""
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _learn(task: Task, run: Run, where: Stage, split: Split) -> list[dict[str, Any]]:
    """Make a learning pass, and return what it was under each trigger."""
    size = max(2, min(len(split.stream), round(run.share * where.protocol.reservoir_size)))
    points = checkpoints(len(split.stream), min(N_CHECKPOINTS, len(split.stream)), seed=task.seed, trial=run.trial)
    learner = learner_class(run.method)(run.n_bits, seed=pass_seed(run.trial, task.seed), **dict(run.parameters))
    runs = [each for each in task.runs if isinstance(each, Run)]
    with one_thread():
        made = learn_once(
            split,
            learner,
            [each.trigger(where.protocol.interval) for each in runs],
            points,
            reservoir_size=size,
            top=where.protocol.top,
            seed=pass_seed(run.trial, task.seed),
        )
    sizes = {"reservoir_size": size, "rows": len(where.dataset.X)}
    return [
        {
            "protocol": asdict(where.protocol) | sizes | {"interval": branch.trigger.interval},
            "examples": made.examples,
            "precisions": branch.precisions,
            "updated_at": branch.updated_at,
            "updates": branch.updates,
            "area": branch.area,
            "final": branch.precisions[-1],
            "bits_recomputed": branch.updates * len(split.X_base) * run.n_bits,
            "times": {"learning_s": made.learning_s, "deciding_s": branch.deciding_s},
        }
        for branch in made.branches
    ]


def _fit(task: Task, where: Stage, split: Split) -> list[dict[str, Any]]:
    """Fit a batch method, and return what its codes of each length gave."""
    fits = [each for each in task.runs if isinstance(each, Fit)]
    protocol = asdict(where.protocol) | {"rows": len(where.dataset.X)}
    found = fit_once(split, fits, task.seed, where.protocol.top)
    more = {} if task.learning.method in METHODS else {"torch": version("torch")}
    return [{"protocol": protocol, "versions": versions() | more} | result for result in found]


def _sort_key(run: Run | Fit) -> tuple[float, float, float]:
    if isinstance(run, Fit):
        return (run.n_bits, 0.0, 0.0)
    return (run.every, run.share, float("-inf") if run.theta is None else run.theta)
