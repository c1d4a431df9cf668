"""The command that says what an index will cost."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import AsJSON
from .output import duration, json_line, note, size, table
from .program import command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..io.readers import Columns
    from ..sizing.plan import Plan

_MOST_ROWS = 1e15
_LONG_S = 1e12


@command("This machine", "mihash plan --rows 1e9 --features 128 --bits 64 --nodes 16 --rate 5000")
def plan(
    rows: Annotated[float, typer.Option(help="Vectors in the index; 1e9 is understood.")] = 1e6,
    features: Annotated[int, typer.Option(help="Numbers in a vector; a sample has its own.")] = 128,
    bits: Annotated[int, typer.Option(help="Code length.")] = 64,
    rate: Annotated[
        float | None,
        typer.Option(help="Vectors that arrive in a second.", show_default="what one core takes in"),
    ] = None,
    nodes: Annotated[int, typer.Option(help="Machines that share the vectors.")] = 1,
    cores: Annotated[int, typer.Option(help="Cores of each that answer queries.")] = 1,
    learner: Annotated[str, typer.Option(help="The learner.")] = "mihash",
    dtype: Annotated[str, typer.Option(help="How vectors are stored: float32 or float16.")] = "float32",
    interval: Annotated[int, typer.Option(help="Rows between two looks of the trigger.")] = 100,
    disk: Annotated[
        float | None,
        typer.Option(help="MB/s that the disk reads, for more vectors than memory.", show_default=False),
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="The vectors will come with labels.")] = False,
    sample: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Vectors as they will come, for the number of rehashes; the first 8,192 are read.",
            show_default="made up",
        ),
    ] = None,
    vector: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The vector in FILE.", show_default="guessed, and told")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The label in FILE.", show_default="no labels")
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="npy, npz, parquet, csv or jsonl.", show_default="by the name of the file"),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Say what an index will cost before it is built: disk, memory, rehashes, queries.

    A small index on this machine gives the rates, in some seconds to a minute; the model is in docs/scale.md. Say
    whether vectors come with labels: learning is several times as fast with them, and rehashes are more or fewer.
    """
    from ..io.readers import Columns
    from ..sizing.calibration import calibrate
    from ..sizing.plan import plan as planned

    n_rows = _whole(rows)
    _check(nodes, cores, rate, disk, features, dtype)
    _check_learning(bits, learner, interval, labels, sample, vector, label, file_format)
    X, y = (None, labels) if sample is None else _read(sample, Columns(vector, label=label), file_format)
    machine = calibrate(
        features if X is None else X.shape[1], bits, learner=learner, dtype=dtype, interval=interval, sample=X,
        labels=y, progress=lambda what: note(f"Measuring this machine: {what} ..."),
    )  # fmt: skip
    costs = planned(
        machine, n_rows, rate=rate, nodes=nodes, cores=cores,
        disk_bytes_per_s=None if disk is None else 1e6 * disk,
    )  # fmt: skip
    if rate is not None and rate > costs.ingest_rate:
        note(
            f"One core learns from {costs.ingest_rate:,.0f} rows a second, fewer than {rate:,.0f}: the stream "
            "would wait. Learn from a part of it, and store the rest."
        )
    if as_json:
        json_line({**asdict(costs), **{f"measured_{name}": value for name, value in asdict(machine).items()}})
    else:
        come = "with labels" if machine.labelled else "without labels"
        title = (
            f"{n_rows:,} vectors of {machine.n_features} numbers {come}, {bits} bits, "
            f"{nodes} node{'s' * (nodes > 1)}"
        )
        table({"what": "left", "each node" if nodes > 1 else "cost": "right"}, _rows(costs, cores), title)


def _whole(rows: float) -> int:
    from ..errors import InvalidInput

    if not 1 <= rows <= _MOST_ROWS or rows != int(rows):
        raise InvalidInput(f"`--rows` must be a whole number from 1 to {_MOST_ROWS:g}; got {rows:g}.")
    return int(rows)


def _check(nodes: int, cores: int, rate: float | None, disk: float | None, features: int, dtype: str) -> None:
    """Refuse before anything is measured what would be refused after it."""
    from .. import validation
    from ..sizing.calibration import DTYPES

    for name, count in (("--nodes", nodes), ("--cores", cores), ("--features", features)):
        validation.integer(name, count, minimum=1)
    for name, speed in (("--rate", rate), ("--disk", disk)):
        if speed is not None:
            validation.number(name, speed, above=0)
    validation.choice("--dtype", dtype, DTYPES)


def _check_learning(
    bits: int,
    learner: str,
    interval: int,
    labels: bool,
    sample: Path | None,
    vector: str | None,
    label: str | None,
    file_format: str | None,
) -> None:
    from ..errors import InvalidInput
    from ..index.options import Options, default_trigger
    from ..online import learner_class

    Options(n_bits=bits, learner=learner, trigger=default_trigger(interval))
    if sample is None:
        for name, given in (("--vector", vector), ("--label", label), ("--format", file_format)):
            if given is not None:
                raise InvalidInput(f"{name} is about the file of --sample, and there is none.")
    elif label is None and (labels or learner_class(learner).needs_labels):
        who = "--labels" if labels else learner
        raise InvalidInput(f"{who} takes a sample with labels: name their column with --label.")


def _read(
    sample: Path, columns: "Columns", file_format: str | None
) -> "tuple[NDArray[np.float32], NDArray[Any] | bool]":
    """Return the first vectors of a file, and their labels or that there are none."""
    import numpy as np

    from ..errors import InvalidInput
    from ..io.readers import open_source
    from ..sizing.calibration import LEARNED

    source = open_source(sample, columns, file_format)
    if source.note:
        note(f"{source.name}: {source.note}")
    chunks = list(source.rows(0, LEARNED))
    if not chunks:
        raise InvalidInput(f"{source.name} has no rows; give a file with vectors.")
    found = [rows.y for rows in chunks if rows.y is not None]
    return np.concatenate([rows.X for rows in chunks]), np.concatenate(found) if found else False


def _time(seconds: float) -> str:
    return duration(seconds) if seconds < _LONG_S else f"more than {duration(_LONG_S)}"


def _rows(costs: "Plan", cores: int) -> list[tuple[str, str]]:
    saved = costs.rehashing_fixed_s / max(costs.rehashing_s, 1e-9)
    return [
        ("vectors", f"{costs.rows_per_node:,}"),
        ("disk", size(costs.disk_bytes)),
        ("memory", size(costs.memory_bytes)),
        ("memory during a rehash", size(costs.memory_peak_bytes)),
        ("memory of multi-index hashing, where it pays", size(costs.multi_index_bytes)),
        ("rows a second that one core learns from", f"{costs.ingest_rate:,.0f}"),
        ("time until all rows are in", _time(costs.ingest_s)),
        ("a rehash of all rows", _time(costs.rehash_s)),
        ("rehashes with the trigger", f"about {costs.updates:,.0f}"),
        ("rehashes at a fixed rate", f"{costs.updates_fixed:,.0f}"),
        ("time spent rehashing, with the trigger", _time(costs.rehashing_s)),
        ("time spent rehashing, at a fixed rate", f"{_time(costs.rehashing_fixed_s)} ({saved:,.0f}x)"),
        ("a query, by a scan", _time(costs.query_s)),
        (f"queries a second on {cores} core{'s' * (cores > 1)}", f"{costs.queries_per_s:,.0f}"),
        ("sent to each node by a rehash", size(costs.broadcast_bytes)),
    ]
