"""Commands of the paper: a demo of its idea, its experiments, and a search for parameters."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from .arguments import Bits, Seed
from .output import say, table, work_progress
from .program import command

_PANEL = "The paper"
_DRIFT = "drift"

Scale = Annotated[str, typer.Option(help="smoke (included digits), small (generated) or full (--data).")]
Data = Annotated[Path | None, typer.Option(help="Folder of features for --scale full (or MIHASH_DATA).")]
SeedFolder = Annotated[
    int,
    typer.Option(min=0, help="Seeds everything random; results of a seed other than 0 go to their own folder."),
]


@command(_PANEL, "mihash demo --bits 16 --output /tmp/demo")
def demo(
    dataset: Annotated[
        str, typer.Option(help="'digits', which is included, another data set by name, or a file of vectors.")
    ] = "digits",
    bits: Bits = 32,
    theta: Annotated[
        float, typer.Option(help="Gain in bits of mutual information that an update must bring.")
    ] = 0.0,
    seed: Seed = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of named data sets (or set MIHASH_DATA).")] = None,
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo-output"),
) -> None:
    """Stream a data set through MomentHash with and without the trigger; show a table and a picture."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    from ..errors import NotReady
    from ..paper.demo import draw, run_demo

    columns = (TextColumn("{task.description:>18}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, completed=bars.tasks[task].total)
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        result = run_demo(dataset, n_bits=bits, theta=theta, seed=seed, data=data, progress=progress)
    rows = []
    for name, branch in (("fixed rate", result.fixed), ("trigger", result.triggered)):
        figures = (branch.precisions[0], branch.precisions[-1], branch.area)
        counts = (branch.updates, branch.updates * result.n_items, round(result.rate(branch)))
        rows.append([name, *(f"{figure:.3f}" for figure in figures), *(f"{count:,}" for count in counts)])
    names = ("update", "mAP before", "after", "mean", "updates", "codes made", "examples/s")
    title = f"MomentHash on {result.dataset}: {bits} bits, {result.n_stream:,} examples, theta {theta:g}"
    table({name: "left" if name == "update" else "right" for name in names}, rows, title)
    path = output / "mihash-demo.png"
    try:
        draw(result, path)
    except NotReady as error:
        typer.echo(f"mihash: no picture: {error}", err=True)
    else:
        say(f"The picture is in {path}")


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
            help="Instead of the experiment's data sets: a file of vectors, in any format that add accepts, or "
            "cifar10, places205 or labelme; may be repeated. A file is used whole at every scale; with files "
            "only, results and report go to the folder 'own'."
        ),
    ] = None,
    scale: Scale = "smoke",
    data: Data = None,
    results: Annotated[Path, typer.Option(help="Folder for results; existing ones are reused.")] = Path("results"),
    processes: Annotated[int, typer.Option(min=1, help="How many tasks run at a time.")] = 2,
    seed: SeedFolder = 0,
    device: Annotated[
        str,
        typer.Option(
            help="Where networks are trained (Setting 2): cuda, cpu, or auto for a GPU if there is one. At full "
            "scale without a GPU, auto shows the results that are included in mihash. VDSH in Setting 1 is "
            "trained only on a device that is given."
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
    page: Annotated[
        Path | None,
        typer.Option(
            help="A Markdown page to update as well: claims and tables go between its lines <!-- tables --> and "
            "<!-- end of tables -->, and figures to images/results beside it."
        ),
    ] = None,
) -> None:
    """Run the paper's experiments, and make tables, figures and a report.

    'drift' runs the benchmark of streams that change instead, at the scales smoke and full; its seeds count up
    from --seed (docs/drift.md).

    After an interruption, run the same command: it continues with the results that are missing.
    """
    from ..errors import InvalidInput, UnknownName
    from ..paper.definition import definition_names, load_definition
    from ..paper.drawing import require_matplotlib
    from ..paper.drift_benchmark import drift_definitions
    from ..paper.drift_report import make_drift_report
    from ..paper.report import check_page, make_report
    from ..paper.results import check_results_folder, seeded
    from ..paper.runner import check_data, pending, run_tasks
    from ..paper.scales import scale_of, stage

    chosen, known = definition_names() if everything else names or [], [*definition_names(), _DRIFT]
    if not chosen:
        raise InvalidInput(f"Name an experiment, or give --all; known: {', '.join(known)}.")
    if unknown := [name for name in chosen if name not in known and not name.endswith(".toml")]:
        raise UnknownName(f"There is no experiment {unknown[0]!r}; known: {', '.join(known)}.")
    if _DRIFT in chosen:
        if chosen != [_DRIFT]:
            raise InvalidInput(f"{_DRIFT} is a benchmark of its own: run it without other experiments.")
        if validate or device != "auto" or page is not None:
            what = "trains no networks and fills no page: leave --device, --validate and --page out."
            raise InvalidInput(f"{_DRIFT} {what}")
        definitions = drift_definitions(scale, dataset or (), data)
    else:
        definitions = [replace(load_definition(name), data=data) for name in chosen]
        definitions = [definition.on(dataset) for definition in definitions] if dataset else definitions
    if validate:
        definitions = [definition.for_validation() for definition in definitions]
    scale = scale_of([name for definition in definitions for name in definition.datasets], scale)
    for source in dict.fromkeys(source for definition in definitions for source in definition.sources):
        if source.file is not None:  # a bad file is refused before anything runs
            stage(str(source), scale, data, seed)
    require_matplotlib()
    if page is not None:
        check_page(page)
    check_results_folder(results)
    results = seeded(results, seed)
    tasks = pending(definitions, results, scale, data, seed, device)
    check_data(tasks)
    with work_progress() as progress:
        run_tasks(tasks, processes, progress)
    if chosen == [_DRIFT]:
        files = make_drift_report(definitions, results, scale)
    else:
        files = make_report(definitions, results, scale, page)
    n_jobs = sum(len(each.jobs) for each in tasks)
    say(f"{n_jobs} results from {len(tasks)} tasks; the report is {' and '.join(map(str, files))}")


@command(
    _PANEL,
    "mihash tune okh --dataset cifar10 --try C=0.0001,0.001 --try alpha=0.3,0.9",
)
def tune(
    methods: Annotated[list[str], typer.Argument(metavar="METHOD", help="Learners by name, such as okh.")],
    dataset: Annotated[
        str,
        typer.Option(help="cifar10, places205 or labelme, or a file of vectors, in any format that add accepts."),
    ] = "cifar10",
    bits: Bits = 32,
    tried: Annotated[
        list[str] | None,
        typer.Option("--try", help="NAME=VALUE,VALUE,...: values to try, instead of the usual nine settings."),
    ] = None,
    scale: Scale = "smoke",
    data: Data = None,
    results: Annotated[Path, typer.Option(help="Folder for scores and the definition found.")] = Path("results"),
    trials: Annotated[int, typer.Option(help="How many splits of the data to average over.")] = 1,
    seed: SeedFolder = 0,
) -> None:
    """Search parameters of methods on a validation set from the stream, and save the best as a definition.

    Every method has the same budget. With several methods, one definition holds the best settings of all.
    """
    from rich.markup import escape

    from ..errors import InvalidInput
    from ..paper.definition import load_definition
    from ..paper.results import seeded
    from ..paper.sources import is_file
    from ..paper.tuning import parse_grid, write_common
    from ..paper.tuning import tune as search

    if len(methods) > len(set(methods)):
        raise InvalidInput(f"Name each method once; got {', '.join(methods)}.")
    if tried and len(methods) > 1:
        raise InvalidInput("--try names parameters of one method: give one, or leave --try out.")
    grid = parse_grid(tried) if tried else None
    where, every = "" if is_file(dataset) else f" ({scale})", []
    for method in methods:
        with work_progress() as progress:
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
        every.append(found)
        rows = [
            (", ".join(f"{name}={value}" for name, value in setting.items()), f"{area:.4f}")
            for setting, area in found.scores[:10]
        ]
        title = f"{method} on {escape(dataset)}{where}, validation set: best first"
        table({"parameters": "left", "AUC": "right"}, rows, title)
        if found.n_equal > 1:
            say(f"{found.n_equal} settings are equally good. The first of them is taken.")
    path = every[0].path if len(every) == 1 else write_common(every)
    command = replace(load_definition(str(path)), data=data).command(seeded(results, seed), scale)
    say(f"The best is in {path}; run it with: {command}")
