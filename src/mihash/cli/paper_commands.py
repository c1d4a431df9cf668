"""Commands around the paper: its idea on shipped data, its experiments, and a search for parameters."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from .program import command

_PANEL = "The paper"


@command(_PANEL, "mihash demo --bits 16 --output /tmp/demo")
def demo(
    dataset: Annotated[
        str, typer.Option(help="'digits', which ships, another data set by name, or a file of features.")
    ] = "digits",
    bits: Annotated[int, typer.Option(help="Code length.")] = 32,
    theta: Annotated[
        float, typer.Option(help="Improvement, in bits of information, that an update must bring.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seeds everything random.")] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of named data sets (or set MIHASH_DATA).")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo-output"),
) -> None:
    """Stream a data set through MIHash with and without the trigger; end with a table and a picture."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from ..paper.demo import draw, run_demo

    console = Console()
    columns = (TextColumn("{task.description:>18}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, completed=bars.tasks[task].total)
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        result = run_demo(dataset, n_bits=bits, theta=theta, seed=seed, data=data, progress=progress)
    table = Table(title=f"MIHash on {result.dataset}: {bits} bits, {result.n_stream:,} examples, theta {theta:g}")
    for name in ("update", "mAP before", "after", "mean", "updates", "codes made", "examples/s"):
        table.add_column(name, justify="left" if name == "update" else "right")
    for name, branch in (("fixed rate", result.fixed), ("trigger", result.triggered)):
        figures = (branch.precisions[0], branch.precisions[-1], branch.area)
        counts = (branch.updates, branch.updates * result.n_items, round(result.rate(branch)))
        table.add_row(name, *(f"{figure:.3f}" for figure in figures), *(f"{count:,}" for count in counts))
    console.print(table)
    path = output / "mihash-demo.png"
    draw(result, path)
    console.print(f"The picture is in {path}", highlight=False)


@command(
    _PANEL,
    "mihash reproduce table4 figure4 --scale smoke, or with --dataset mine.npz",
)
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments by name, or TOML files.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every experiment of the paper.")] = False,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Run on this in place of the experiment's data sets: a file of vectors, in any format that add "
            "takes, or cifar10, places205 or labelme; give it again for more. A file is used whole, whatever the "
            "scale; with files alone, results and report go to the folder 'own'."
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="smoke (shipped digits), small (generated) or full (--data).")
    ] = "smoke",
    data: Annotated[
        Path | None, typer.Option(help="Folder of features for --scale full (or MIHASH_DATA).")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder for results; what is there is not run again.")] = Path(
        "results"
    ),
    processes: Annotated[int, typer.Option(help="How many passes at a time.")] = 2,
    seed: Annotated[
        int, typer.Option(help="Seeds everything random; others than 0 have folders of their own.")
    ] = 0,
    device: Annotated[
        str,
        typer.Option(
            help="Where networks are trained (Setting 2): cuda, cpu, or auto, a GPU where there is one. At full "
            "scale, auto shows the results that come with mihash where there is none."
        ),
    ] = "auto",
    validate: Annotated[
        bool,
        typer.Option(
            "--validate",
            help="Measure networks on a part of the training images, to choose parameters; the test images are "
            "not used.",
        ),
    ] = False,
) -> None:
    """Run the paper's experiments, and make tables, figures and a report. Interrupted, it goes on later."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from .. import validation
    from ..errors import InvalidInput
    from ..paper.definition import definition_names, load_definition
    from ..paper.report import make_report
    from ..paper.results import check_results_folder, seeded
    from ..paper.runner import check_data, pending, run_tasks
    from ..paper.scales import scale_of, stage

    chosen = definition_names() if everything else names or []
    if not chosen:
        raise InvalidInput(f"Name an experiment, or give --all; known: {', '.join(definition_names())}.")
    validation.integer("processes", processes, minimum=1)
    validation.integer("seed", seed, minimum=0)
    definitions = [replace(load_definition(name), data=data) for name in chosen]
    if dataset:
        definitions = [definition.on(dataset) for definition in definitions]
    if validate:
        definitions = [definition.for_validation() for definition in definitions]
    scale = scale_of([name for definition in definitions for name in definition.datasets], scale)
    for source in dict.fromkeys(source for definition in definitions for source in definition.sources):
        if source.file is not None:  # one that cannot be used is refused before anything is run
            stage(str(source), scale, data, seed)
    check_results_folder(results)
    results = seeded(results, seed)
    tasks = pending(definitions, results, scale, data, seed, device)
    check_data(tasks)
    console = Console()
    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None)
        run_tasks(
            tasks,
            processes,
            lambda done, total, what: bar.update(task, completed=done, total=total, description=escape(what)),
        )
    page, text = make_report(definitions, results, scale)
    n_jobs = sum(len(each.jobs) for each in tasks)
    told = f"{n_jobs} results from {len(tasks)} tasks; the report is {page} and {text}"
    console.print(told, highlight=False, markup=False)


@command(
    _PANEL,
    "mihash tune okh --dataset cifar10 --try C=0.0001,0.001 --try alpha=0.3,0.9",
)
def tune(
    method: Annotated[str, typer.Argument(help="A learner by name, such as okh.")],
    dataset: Annotated[
        str,
        typer.Option(help="cifar10, places205 or labelme, or a file of vectors, in any format that add takes."),
    ] = "cifar10",
    bits: Annotated[int, typer.Option(help="Code length.")] = 32,
    tried: Annotated[
        list[str] | None, typer.Option("--try", help="NAME=VALUE,VALUE,...: values to try, in place of the usual.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="smoke (shipped digits), small (generated) or full (--data).")
    ] = "smoke",
    data: Annotated[
        Path | None, typer.Option(help="Folder of features for --scale full (or MIHASH_DATA).")
    ] = None,
    results: Annotated[Path, typer.Option(help="Folder for scores and the definition found.")] = Path("results"),
    trials: Annotated[int, typer.Option(help="How many divisions of the data to average over.")] = 1,
    seed: Annotated[
        int, typer.Option(help="Seeds everything random; others than 0 have folders of their own.")
    ] = 0,
) -> None:
    """Search a method's parameters on a validation set cut from the stream; keep the best as a definition."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress
    from rich.table import Table

    from ..paper.definition import load_definition
    from ..paper.results import check_results_folder, seeded
    from ..paper.sources import is_file
    from ..paper.tuning import parse_grid
    from ..paper.tuning import tune as search

    grid = parse_grid(tried) if tried else None
    console = Console()
    bar = Progress(console=console)
    task = bar.add_task("", total=None)

    def progress(done: int, total: int, what: str) -> None:
        if not bar.live.is_started:  # what is refused, is refused before there is a bar
            check_results_folder(results)
            bar.start()
        bar.update(task, completed=done, total=total, description=escape(what))

    try:
        found = search(
            dataset,
            method,
            n_bits=bits,
            grid=grid,
            scale=scale,
            data=data,
            results=results,
            trials=trials,
            seed=seed,
            progress=progress,
        )
    finally:
        if bar.live.is_started:
            bar.stop()
    where = "" if is_file(dataset) else f" ({scale})"
    table = Table(title=f"{method} on {escape(dataset)}{where}, validation set: the best first")
    table.add_column("parameters")
    table.add_column("AUC", justify="right")
    for setting, area in found.scores[:10]:
        table.add_row(", ".join(f"{name}={value}" for name, value in setting.items()), f"{area:.4f}")
    console.print(table)
    command = replace(load_definition(str(found.path)), data=data).command(seeded(results, seed), scale)
    console.print(
        f"The best is in {found.path}; run it with: {command}", highlight=False, markup=False, soft_wrap=True
    )
