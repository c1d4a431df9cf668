"""Plays a runbook for `mihash bench --runbook`, and shows how each contestant did."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .arguments import open_vectors
from .output import json_line, note, size, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..runbooks.playback import Played
    from ..runbooks.workload import Workload

_QUERIES = 100
_FOUND = ("system", "recall", "by codes", "rehashes", "encoded", "cost")
_TOOK = ("system", "CPU", "memory", "search", "p95")


class RunbookOptions(NamedTuple):
    """Options of a run."""

    steps: int
    most: int | None
    only: list[str] | None
    seed: int
    as_json: bool


def play_runbook(
    runbook: str, data: str | None, queries: str | None, file_format: str | None, options: RunbookOptions
) -> None:
    """Play a runbook with each contestant, and print a table, or a line of JSON for each."""
    from ..errors import InvalidInput, UnknownName
    from ..runbooks.contestants import CONTESTANTS
    from ..runbooks.playback import check_data, play

    if data is None:
        raise InvalidInput("A runbook needs DATA, a file of vectors: mihash bench --runbook sliding-window DATA")
    chosen = options.only or list(CONTESTANTS)
    for name in chosen:
        if name not in CONTESTANTS:
            raise UnknownName(f"--only must be one of {', '.join(CONTESTANTS)}; got {name!r}.")
    workload = _workload(runbook, data, queries, file_format, options)
    check_data(workload)
    note(f"Playing {workload.runbook.shown()} ...")
    found = []
    for played in play(workload, chosen):
        found.append(played)
        if options.as_json:
            json_line(asdict(played))
        elif played.skipped is not None:
            note(f"{played.name}: {played.skipped}")
    if not options.as_json:
        done = [each for each in found if each.skipped is None]
        for names, row in ((_FOUND, _found), (_TOOK, _took)):
            table({name: "left" if name == "system" else "right" for name in names}, [row(each) for each in done])


def _workload(
    runbook: str, data: str, queries: str | None, file_format: str | None, options: RunbookOptions
) -> "Workload":
    from ..errors import InvalidInput
    from ..runbooks.runbook import Runbook
    from ..runbooks.workload import KINDS, Workload, made

    X = _vectors(data, file_format, options.most)
    asked = None if queries is None else _vectors(queries, None, None)
    if runbook in KINDS:
        n = min(_QUERIES, len(X) // 10) if asked is None else 1
        workload = made(runbook, X, options.steps, n, options.seed, Path(data).stem)
        return workload if asked is None else workload._replace(queries=asked)
    steps = Runbook.read(runbook)
    if asked is None:
        asked = X[steps.n_rows :][:_QUERIES]
        if not len(asked):
            raise InvalidInput(
                f"The runbook inserts all {len(X):,} rows of {data}: give the queries with --queries."
            )
    return Workload(steps, X, asked)


def _vectors(file: str, file_format: str | None, most: int | None) -> "NDArray[np.float32]":
    import numpy as np

    from ..errors import InvalidInput
    from ..io.readers import Columns

    source = open_vectors(file, Columns(), file_format)
    chunks = list(source.rows(0, most)) if most is not None else list(source.rows())
    if not chunks:
        raise InvalidInput(f"{source.name} has no rows; give a file with vectors.")
    return np.concatenate([rows.X for rows in chunks])


def _found(played: "Played") -> list[str]:
    codes, ratio = played.code_recall, played.hindsight
    hashed = ["", "", ""] if codes is None else [f"{codes:.3f}", f"{played.rehashes}", f"{played.encoded:,}"]
    return [played.name, f"{played.recall:.3f}", *hashed, "" if ratio is None else f"{ratio:.2f}"]


def _took(played: "Played") -> list[str]:
    times = (f"{played.latency_ms:.2f} ms", f"{played.late_ms:.2f} ms")
    return [played.name, f"{played.cpu_s:.1f} s", size(played.memory or 0), *times]
