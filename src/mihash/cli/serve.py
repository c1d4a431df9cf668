"""The command that serves an index over HTTP."""

import os
import tempfile
from contextlib import ExitStack
from functools import partial as partial_call
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import Partial, Ray, check_index, open_index, open_reader
from .output import note, say
from .program import command

if TYPE_CHECKING:
    from ..index.online_index import OnlineIndex
    from ..service import Replay

_TOKEN = "MIHASH_TOKEN"
_DIGITS, _SIDE = "digits", 8
_DEMO_BITS, _DEMO_RESERVOIR = 32, 1000
_RATE, _DRIFT = 200, 5000


@command("An index", "mihash serve photos --port 8000, or mihash serve --demo")
def serve(
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="The folder of the index.", show_default=False)
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; an address that other machines can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for a free one.", min=0, max=65535)] = 8000,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", help="Only search; follow the process that writes to the index, if there is one."
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With --read-only, the number of processes that answer; one that ends is restarted.",
            show_default="this process alone",
            min=1,
            max=1000,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the bearer token that clients must send.",
            show_default="MIHASH_TOKEN, if set",
        ),
    ] = None,
    max_body: Annotated[
        float,
        typer.Option(metavar="MB", help="The largest request body, in MiB; JSON bodies may have at most 8."),
    ] = 32,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long a request may take.")] = 60,
    searchers: Annotated[
        int | None, typer.Option(help="Searches that run at a time.", show_default="one per core, 2 to 8")
    ] = None,
    waiting: Annotated[int, typer.Option(help="Writes that may wait in the queue; further writes get 503.")] = 32,
    max_metadata: Annotated[
        float, typer.Option(metavar="KB", help="The largest metadata of an item, in KiB of JSON.")
    ] = 64,
    max_answer_metadata: Annotated[
        float, typer.Option(metavar="MB", help="The most metadata in one response, in MiB of JSON.")
    ] = 32,
    max_features: Annotated[
        int, typer.Option(metavar="N", help="The widest vectors that an empty index accepts.")
    ] = 16_384,
    max_conditions: Annotated[
        int, typer.Option(metavar="N", help="The most conditions of a filter, at most 500.")
    ] = 100,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="An origin whose pages may use the service, such as https://photos.example; may be repeated. "
            "With a token also '*', for all.",
            show_default="none",
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a new index that is filled from a data set, instead of PATH.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(help="With --demo, rows per second.", show_default=str(_RATE))
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --demo, 'digits', another data set by name, or a file.",
            show_default=_DIGITS,
        ),
    ] = None,
    drift: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS",
            help="With --demo, turn the digits by 90 degrees after this many; 0 for never.",
            show_default=str(_DRIFT),
        ),
    ] = None,
    ray: Ray = None,
    partial: Partial = False,
) -> None:
    """Serve an index over HTTP, with a page that shows how it learns and decides.

    Ctrl-C or SIGTERM stops it: accepted requests are answered, and the index is closed. Routes, errors and limits
    are in docs/service.md.

    One process writes to an index. With --read-only, other processes serve searches of the same index on another
    port, and answer changes with 403. With --workers N, N processes share that port.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # searches run in parallel; read when NumPy is loaded
    from ..errors import InvalidInput
    from ..service import Limits, read_token, serve_readers
    from ..service import serve as run_server

    if (path is None) != demo:
        raise InvalidInput("Give either the PATH of an index or --demo.")
    for name, value in (("--rate", rate), ("--data", data), ("--drift", drift)):
        if value is not None and not demo:
            raise InvalidInput(f"{name} is an option of the demo: give it with --demo, or leave it out.")
    if read_only and demo:
        raise InvalidInput("The demo writes to its index: leave --read-only out.")
    if workers is not None and not read_only:
        raise InvalidInput("--workers needs --read-only: only one process may write to an index.")
    if path is not None:
        check_index(path)
        if not read_only:
            _check_free(path)
    token = os.environ.get(_TOKEN) if token_file is None else read_token(token_file)
    given = {} if searchers is None else {"searchers": searchers}
    limits = Limits(
        max_body=_n_bytes("--max-body", max_body, 2**20),
        timeout_s=timeout,
        waiting_writes=waiting,
        item_metadata=_n_bytes("--max-metadata", max_metadata, 2**10),
        answer_metadata=_n_bytes("--max-answer-metadata", max_answer_metadata, 2**20),
        features=max_features,
        conditions=max_conditions,
        **given,
    )
    shared: dict[str, Any] = {"limits": limits, "token": token or None, "cors_origins": cors_origin or ()}
    if path is not None and workers is not None:
        serve_readers(
            partial_call(open_reader, path, ray, partial or None),
            workers,
            host,
            port,
            **shared,
            announce=lambda url: say(
                f"Serving {path} for reading at {url}, by {workers} workers. Stop with Ctrl-C."
            ),
            report=note,
        )
        note("Closed.")
        return
    with ExitStack() as stack:
        replay: Replay | None = None
        if path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mihash-demo-"))
            replay = _replay(data or _DIGITS, _RATE if rate is None else rate, _DRIFT if drift is None else drift)
        what = f"a demo of {data or _DIGITS}" if path is None else f"{path}{' for reading' if read_only else ''}"

        def opening() -> "OnlineIndex":
            from ..index.online_index import OnlineIndex

            if path is None:
                return OnlineIndex.create(folder, _DEMO_BITS, reservoir_size=_DEMO_RESERVOIR)
            opened = open_reader if read_only else open_index
            return opened(path, ray=ray, partial=partial or None)

        run_server(
            opening,
            host,
            port,
            **shared,
            background=replay,
            announce=lambda url: say(f"Serving {what} at {url} (page) and {url}/docs. Stop with Ctrl-C."),
        )
    note("Closed." if path is None or read_only else "Closed; everything that was acknowledged is on disk.")


def _n_bytes(option: str, value: float, unit: int) -> int:
    from .. import validation

    return int(validation.number(option, value, above=0) * unit)


def _check_free(path: Path) -> None:
    """Refuse an index that another process has open for writing, before the server listens."""
    from ..errors import InvalidInput, StoreLocked
    from ..store.sqlite.writer_lock import check_free

    try:
        check_free(path)
    except StoreLocked:
        raise InvalidInput(
            f"{path} is in use: another process serves it or writes to it, and only one may. Stop that one first."
        ) from None


def _replay(data: str, rate: float, drift: int) -> "Replay":
    from ..paper.datasets import open_dataset
    from ..service import Replay

    dataset = open_dataset(data)
    if data != _DIGITS:
        return Replay(dataset.X, dataset.y, rate)
    return Replay(dataset.X, dataset.y, rate, side=_SIDE, turn_after=drift)
