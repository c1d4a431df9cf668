"""Runs jobs: only those without a result, with what they share learned once, in several processes."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from .. import validation
from ..batch import METHODS
from ..errors import StoreError
from .correlation import measure_correlation
from .datasets import checkpoints
from .definition import Definition
from .distributions import measure_distributions
from .drift_benchmark import measure_drift
from .fits import can_choose_device, fit_once
from .jobs import Job
from .outcomes import comes_with_package, read_job
from .results import machine, versions, write_result
from .scales import Stage, images_of, stage
from .sources import Source, check_folder, find_source
from .training import device_of, train_jobs

N_CHECKPOINTS = 50
_COST_OF_STREAM = {"places205": 6.0, "cifar10": 1.5, "labelme": 1.0}
_COST_OF_FIT = {"fasthash": 60.0, "vdsh": 40.0, "dtsh": 25.0, "dpsh": 6.0, "mihash": 1.5}
_COST_OF_TRAINING = 100.0

Progress = Callable[[float, float, str], None]
Work = TypeVar("Work")


@dataclass(frozen=True)
class Task:
    """What is learned once, and the jobs that it serves."""

    source: Source
    jobs: tuple[Job, ...]
    scale: str
    data: Path | None
    results: Path
    seed: int
    device: str = "auto"

    @property
    def kind(self) -> str:
        """The kind of its jobs."""
        return self.jobs[0].kind

    @property
    def cost(self) -> float:
        """How long it takes compared with others."""
        job = self.jobs[0]
        if job.kind == "images":
            return _COST_OF_TRAINING * len(self.jobs)
        if job.kind == "batch":
            return _COST_OF_FIT.get(job.method, 1.0)
        slower = 1.0 + 0.3 / min(each.every for each in self.jobs)
        return _COST_OF_STREAM.get(job.dataset, 1.0) * slower

    def __str__(self) -> str:
        return str(self.jobs[0].shared)


def pending(
    definitions: Iterable[Definition],
    results: Path,
    scale: str,
    data: Path | None = None,
    seed: int = 0,
    device: str = "auto",
) -> list[Task]:
    """Return what definitions need and whose results are not all there, the longest first.

    Methods that need PyTorch are left out where it is not installed. At full scale networks are left out on a CPU
    that was not asked for, where training takes days, and VDSH on any device that was not: the results that come
    with the package are shown. A result that lacks values, or was made with another seed, at another scale or of
    other data, is an error.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> tasks = pending([load_definition("table4")], Path("nowhere"), "smoke")
    >>> len(tasks), len(tasks[0].jobs)
    (12, 12)
    """
    wanted: dict[Job, dict[Job, Source]] = {}
    for definition in definitions:
        sources = {source.name: source for source in definition.sources}
        for job in definition.jobs(scale):
            if job.kind == "images" and (job.lacking or (scale == "full" and _only_cpu(device))):
                continue
            if device == "auto" and comes_with_package(job, scale, seed):
                continue
            source = sources[job.dataset]
            if read_job(job, results / scale / job.path, source, scale, seed) is None and not job.lacking:
                wanted.setdefault(job.shared, {})[job] = source
    tasks = [
        Task(next(iter(jobs.values())), tuple(sorted(jobs, key=_order)), scale, data, results, seed, device)
        for jobs in wanted.values()
    ]
    if any(task.kind == "images" or _on_device(task) for task in tasks):
        device_of(device)  # an unknown one is an error before anything is run
    return sorted(tasks, key=lambda task: (-task.cost, str(task)))


def check_data(tasks: Iterable[Task]) -> None:
    """Raise before anything is run where the folder of features or of images is missing."""
    for task in tasks:
        if task.kind == "images":
            images_of(task.scale, task.data)
        else:
            check_folder(task.source, task.scale, task.data)


def run_task(task: Task) -> None:
    """Run the jobs of a task, and write the result of each as soon as it is there."""
    if task.source.file is not None and find_source(str(task.source)) != task.source:
        raise StoreError(f"The data file {str(task.source)!r} was changed since it was first read. Start again.")
    for job, result in zip(task.jobs, _results(task), strict=True):
        common: dict[str, Any] = {"scale": task.scale, "seed": task.seed, "versions": versions()}
        if job.described:
            common |= {"run": job.described, "machine": machine()}
        write_result(task.results / task.scale / job.path, common | result)


def run_tasks(
    tasks: Sequence[Task],
    processes: int = 1,
    progress: Progress = lambda done, total, what: None,  # noqa: ARG005 -- reports nothing
) -> None:
    """Run tasks in several processes; what is finished stays, so an interrupted run can be continued."""
    validation.integer("processes", processes, minimum=1)
    total, done = sum(task.cost for task in tasks), 0.0
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # also for what is not loaded yet, as torch
    here = [task for task in tasks if processes == 1 or task.kind == "images"]  # a network has the device alone
    pooled = [task for task in tasks if task not in here]
    if pooled:
        progress(done, total, f"{len(pooled)} tasks in {processes} processes")
    for task in in_processes(run_task, pooled, processes) if pooled else ():
        done += task.cost
        progress(done, total, str(task))
    for task in here:
        progress(done, total, str(task))
        run_task(task)
        done += task.cost
    progress(total, total, "done")


def in_processes(run: Callable[[Work], object], tasks: Sequence[Work], processes: int) -> Iterator[Work]:
    """Run tasks in processes of their own, and yield each that is done."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent) as pool:
        waiting: dict[Future[object], Work] = {pool.submit(run, task): task for task in tasks}
        try:
            for future in as_completed(waiting):
                future.result()
                yield waiting[future]
        except BrokenProcessPool as error:
            raise StoreError(
                "A worker process was killed, perhaps because memory ran out. Start again: finished results are "
                "kept. Fewer `processes` take less memory."
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


def _results(task: Task) -> Iterator[dict[str, Any]]:
    """Yield the result of each job of a task, in their order."""
    if task.kind == "images":
        yield from train_jobs(task.jobs, images_of(task.scale, task.data), device_of(task.device), task.seed)
        return
    if task.kind == "drift":
        yield from (measure_drift(job, task.data, task.seed) for job in task.jobs)
        return
    where = stage(str(task.source), task.scale, task.data, task.seed)
    made = _fit(where, task) if task.kind == "batch" else _MAKERS[task.kind](where, task.jobs)
    for result in made:
        yield {"data": where.dataset.name} | result


def _learn(where: Stage, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Make a learning pass, and return what it was under each trigger."""
    first = jobs[0]
    split = where.split(first.trial)
    n_stream = len(split.stream)
    points = checkpoints(n_stream, min(N_CHECKPOINTS, n_stream), seed=where.seed, trial=first.trial)
    made = where.learn(split, first, [job.trigger(where.protocol.interval) for job in jobs], points)
    sizes = {"reservoir_size": where.reservoir_size(split, first.share), "rows": len(where.dataset.X)}
    return [
        {
            "protocol": asdict(where.protocol) | sizes | {"interval": branch.trigger.interval},
            "examples": made.examples,
            "precisions": branch.precisions,
            "updated_at": branch.updated_at,
            "updates": branch.updates,
            "area": branch.area,
            "final": branch.precisions[-1],
            "bits_recomputed": branch.updates * len(split.X_base) * first.n_bits,
            "times": {
                "learning_s": made.learning_s,
                "deciding_s": branch.deciding_s,
                "reservoir_s": made.reservoir_s,
                "update_s": made.update_s,
            },
        }
        for branch in made.branches
    ]


def _fit(where: Stage, task: Task) -> list[dict[str, Any]]:
    """Fit a batch method, and return what its codes of each length gave."""
    jobs = task.jobs
    found = fit_once(where.split(jobs[0].trial), jobs, where.seed, where.protocol.top, task.device)
    torch = {} if jobs[0].method in METHODS else {"torch": version("torch")}
    common = {
        "protocol": asdict(where.protocol) | {"rows": len(where.dataset.X)},
        "versions": versions() | torch,
    }
    if _on_device(task):
        from ..deep.device import device_name

        common["machine"] = machine() | {"device": device_name(task.device)}
    return [common | result for result in found]


_MAKERS: dict[str, Callable[[Stage, Sequence[Job]], list[dict[str, Any]]]] = {
    "online": _learn,
    "correlation": lambda where, jobs: [measure_correlation(where, job) for job in jobs],
    "distributions": lambda where, jobs: [measure_distributions(where, job) for job in jobs],
}


def _on_device(task: Task) -> bool:
    """Tell whether a batch method learns on a device that was asked for."""
    return task.kind == "batch" and task.device != "auto" and can_choose_device(task.jobs[0].method)


def _only_cpu(device: str) -> bool:
    return device == "auto" and device_of(device) == "cpu"


def _order(job: Job) -> tuple[float, ...]:
    """Return what orders the jobs of a task; networks stay as they come."""
    return (job.n_bits, job.every, job.share, job.missing, float("-inf") if job.theta is None else job.theta)
