"""The command that says what an index will cost."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .arguments import AsJSON
from .program import command
from .show import duration, json_line, note, size, table

if TYPE_CHECKING:
    from ..plan import Plan

__all__ = ["plan"]


@command("This machine", "mihash plan --rows 1e9 --features 128 --bits 64 --nodes 16 --rate 5000")
def plan(
    rows: Annotated[float, typer.Option(help="Vectors in the index; 1e9 is understood.")] = 1e6,
    features: Annotated[int, typer.Option(help="Numbers in a vector.")] = 128,
    bits: Annotated[int, typer.Option(help="Code length.")] = 64,
    rate: Annotated[
        float | None,
        typer.Option(help="Vectors that arrive in a second; what one core takes in.", show_default=False),
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
    sample: Annotated[
        Path | None,
        typer.Option(help="A .npy of vectors as they will come, for the number of rehashes.", show_default=False),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Say what an index will cost before it is built: disk, memory, rehashes, queries.

    A small index on this machine gives the rates, in about ten seconds; the model is in docs/scale.md.
    """
    from ..plan import calibrate
    from ..plan import plan as planned

    vectors = None if sample is None else _vectors(sample)
    n_features = features if vectors is None else int(vectors.shape[-1])
    machine = calibrate(
        n_features, bits, learner=learner, dtype=dtype, sample=vectors,
        progress=lambda what: note(f"Measuring this machine: {what} ..."),
    )  # fmt: skip
    costs = planned(
        machine, _whole(rows), rate=rate, nodes=nodes, cores=cores, interval=interval,
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
        title = f"{_whole(rows):,} vectors of {n_features} numbers, {bits} bits, {nodes} node{'s' * (nodes > 1)}"
        table({"what": "left", "each node" if nodes > 1 else "cost": "right"}, _rows(costs, cores), title)


def _vectors(path: Path):  # type: ignore[no-untyped-def]
    import numpy as np

    from ..errors import InvalidInput

    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as a .npy file: {error}.") from error


def _whole(rows: float) -> int:
    from ..errors import InvalidInput

    if not 1 <= rows < 1e15 or rows != int(rows):
        raise InvalidInput(f"`--rows` must be a whole number from 1 to 1e15; got {rows:g}.")
    return int(rows)


def _rows(costs: "Plan", cores: int) -> list[tuple[str, str]]:
    saved = costs.rehashing_fixed_s / max(costs.rehashing_s, 1e-9)
    return [
        ("vectors", f"{costs.rows_per_node:,}"),
        ("disk", size(costs.disk_bytes)),
        ("memory", size(costs.memory_bytes)),
        ("memory during a rehash", size(costs.memory_peak_bytes)),
        ("memory of multi-index hashing, where it pays", size(costs.multi_index_bytes)),
        ("rows a second that one core learns from", f"{costs.ingest_rate:,.0f}"),
        ("time until all rows are in", duration(costs.ingest_s)),
        ("a rehash of all rows", duration(costs.rehash_s)),
        ("rehashes with the trigger", f"about {costs.updates:,.0f}"),
        ("rehashes at a fixed rate", f"{costs.updates_fixed:,.0f}"),
        ("time spent rehashing, with the trigger", duration(costs.rehashing_s)),
        ("time spent rehashing, at a fixed rate", f"{duration(costs.rehashing_fixed_s)} ({saved:,.0f}x)"),
        ("a query, by a scan", duration(costs.query_s)),
        (f"queries a second on {cores} core{'s' * (cores > 1)}", f"{costs.queries_per_s:,.0f}"),
        ("sent to each node by a rehash", size(costs.broadcast_bytes)),
    ]
