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
from pathlib import Path
from typing import Any

from .. import validation
from ..datasets import checkpoints
from ..errors import StoreError
from ..kernels import one_thread
from ..online import learner_class
from .definition import Definition, Run, load_parameters
from .outcomes import check_run
from .passes import Pass, learn_once, pass_seed
from .results import machine, read_result, versions, write_result
from .scales import Stage, stage
from .sources import Source, find_source

__all__ = ["Task", "pending", "run_task", "run_tasks"]

N_CHECKPOINTS = 50
_RELATIVE_COST = {"places205": 6.0, "cifar10": 1.5, "labelme": 1.0}

Progress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Task:
    """A learning pass that is to be made, and the runs that it serves."""

    source: Source
    learning: Run
    runs: tuple[Run, ...]
    scale: str
    data: Path | None
    results: Path
    seed: int

    @property
    def cost(self) -> float:
        """How long it takes, in units of no meaning."""
        small = min((run.every for run in self.runs), default=1.0)
        slower = 1.0 + 0.3 / small
        return _RELATIVE_COST.get(self.learning.dataset, 1.0) * slower

    def __str__(self) -> str:
        run = self.learning
        return f"{run.dataset} {run.method} {run.n_bits} bits, trial {run.trial}"


def pending(
    definitions: Iterable[Definition], results: Path, scale: str, data: Path | None = None, seed: int = 0
) -> list[Task]:
    """Return the passes that definitions need and whose results are not all there, the longest first.

    A result that is there and is not whole, or was made with another seed, at another scale or of other data, is
    refused.

    Examples
    --------
    >>> from mihash.experiments.definition import load_definition
    >>> tasks = pending([load_definition("table4")], Path("nowhere"), "smoke")
    >>> len(tasks), len(tasks[0].runs)
    (12, 12)
    """
    parameters = load_parameters()
    passes: defaultdict[Run, set[Run]] = defaultdict(set)
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
    order = {run: _sort_key(run) for runs in passes.values() for run in runs}
    tasks = [
        Task(
            sources[learning.dataset],
            learning,
            tuple(sorted(runs, key=order.__getitem__)),
            scale,
            data,
            results,
            seed,
        )
        for learning, runs in passes.items()
    ]
    return sorted(tasks, key=lambda task: (-task.cost, str(task)))


def run_task(task: Task) -> float:
    """Make a pass and write a result for each of its runs; return the seconds that it took."""
    begin = time.perf_counter()
    if find_source(str(task.source)) != task.source:
        raise StoreError(f"The data file {str(task.source)!r} was changed since it was first read. Start again.")
    where = stage(str(task.source), task.scale, task.data, task.seed)
    run = task.learning
    split = where.split(run.trial)
    size = max(2, min(len(split.stream), round(run.share * where.protocol.reservoir_size)))
    points = checkpoints(len(split.stream), min(N_CHECKPOINTS, len(split.stream)), seed=task.seed, trial=run.trial)
    learner = learner_class(run.method)(run.n_bits, seed=pass_seed(run.trial, task.seed), **dict(run.parameters))
    with one_thread():
        made = learn_once(
            split,
            learner,
            [each.trigger(where.protocol.interval) for each in task.runs],
            points,
            reservoir_size=size,
            top=where.protocol.top,
            seed=pass_seed(run.trial, task.seed),
        )
    for index, each in enumerate(task.runs):
        write_result(
            task.results / task.scale / each.path, _result(each, index, made, where, size, len(split.X_base), task)
        )
    return time.perf_counter() - begin


def run_tasks(
    tasks: Sequence[Task],
    processes: int = 1,
    progress: Progress = lambda done, total, what: None,  # noqa: ARG005 -- nobody listens
) -> None:
    """Make passes on several processes; what is finished stays, so an interrupted run goes on where it was."""
    validation.integer("processes", processes, minimum=1)
    total, done = sum(task.cost for task in tasks), 0.0
    if processes == 1:
        for task in tasks:
            progress(done, total, str(task))
            run_task(task)
            done += task.cost
        progress(total, total, "done")
        return
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
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


def _result(run: Run, index: int, made: Pass, where: Stage, size: int, n_items: int, task: Task) -> dict[str, Any]:
    branch = made.branches[index]
    trigger = branch.trigger
    rows = len(where.dataset.X)
    described = asdict(run)
    described["parameters"] = dict(run.parameters)
    return {
        "run": described,
        "scale": task.scale,
        "seed": task.seed,
        "data": where.dataset.name,
        "protocol": asdict(where.protocol) | {"reservoir_size": size, "interval": trigger.interval, "rows": rows},
        "examples": made.examples,
        "precisions": branch.precisions,
        "updated_at": branch.updated_at,
        "updates": branch.updates,
        "area": branch.area,
        "final": branch.precisions[-1],
        "bits_recomputed": branch.updates * n_items * run.n_bits,
        "versions": versions(),
        "machine": machine(),
        "times": {"learning_s": made.learning_s, "deciding_s": branch.deciding_s},
    }


def _sort_key(run: Run) -> tuple[float, float, float]:
    return (run.every, run.share, float("-inf") if run.theta is None else run.theta)
