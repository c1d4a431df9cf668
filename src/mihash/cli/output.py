"""Output of commands: tables and JSON lines on the standard output, progress and notes on the standard error."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import typer

from ..records import to_json

if TYPE_CHECKING:
    from ..io.ingest import Progress
    from ..paper.runner import Progress as WorkProgress

_NAME_WIDTH = 24
LINE_S = 5.0
"""Seconds between two lines of progress where there is no terminal."""


def say(text: str) -> None:
    """Print a result."""
    typer.echo(text)


def note(text: str) -> None:
    """Print a note on the standard error, so that it does not get into a pipe."""
    typer.echo(text, err=True)


def json_line(value: Mapping[str, Any]) -> None:
    """Print an object as one line of JSON."""
    typer.echo(json_text(value))


def json_text(value: Mapping[str, Any] | None) -> str:
    """Return an object as JSON, "" for None; NaN becomes null and an infinity a string."""
    return "" if value is None else to_json(value, spaced=True)


def table(columns: Mapping[str, str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table; ``columns`` maps names to ``"left"`` or ``"right"``."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    shown = Table(title=title, title_justify="left")
    for name, justify in columns.items():
        shown.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(escape(cell) for cell in row))
    Console().print(shown)


def counted(n: int, noun: str) -> str:
    """Return a number and a noun in singular or plural.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "rehash")
    ('1 row', '2,000 rows', '2 rehashes')
    """
    plural = f"{noun}es" if noun.endswith("sh") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else plural}"


def size(n_bytes: float) -> str:
    """Return a number of bytes with a unit.

    Examples
    --------
    >>> size(512), size(12_345_678)
    ('512 B', '12.3 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def duration(seconds: float) -> str:
    """Return a duration with a unit.

    Examples
    --------
    >>> duration(0.0123), duration(12.3), duration(3725), duration(1e6), duration(1e9)
    ('12.3 ms', '12.3 s', '1 h 2 min', '11.6 days', '31.7 years')
    """
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    days = seconds / 86_400
    if days < 2:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{days:,.1f} days" if days < 365 else f"{days / 365:,.1f} years"


@contextmanager
def rows_progress() -> "Iterator[Progress]":
    """Show the progress of an ingest, with its rate and the time left; a line now and then without a terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
    from rich.table import Column

    class RowRate(ProgressColumn):
        def render(self, task: Task) -> str:
            speed = task.finished_speed or task.speed
            return "" if speed is None else f"{counted(round(speed), 'row')}/s"

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines().tell
        return
    count = TextColumn("{task.completed:,.0f}/{task.total:,.0f}", justify="right")
    rate, left = RowRate(Column(no_wrap=True)), TimeRemainingColumn(table_column=Column(no_wrap=True))
    columns = (TextColumn("{task.description}"), BarColumn(None), count, rate, left)
    with Progress(*columns, console=console, expand=True) as bars:
        tasks: dict[tuple[str, str], TaskID] = {}

        def update(what: str, source: str, done: int, total: int | None) -> None:
            known = total or done
            if (what, source) not in tasks:
                name = PurePath(source).name
                short = name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 3]}..."
                tasks[what, source] = bars.add_task(escape(f"{what} {short}"), total=known, completed=done)
            bars.update(tasks[what, source], completed=done, total=known)

        yield update


@contextmanager
def work_progress() -> "Iterator[WorkProgress]":
    """Show which share of a long work is done and the time left; a line now and then without a terminal.

    The bar appears with the first call, so there is none where arguments are refused.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _WorkLines().tell
        return
    bar = Progress(
        BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"), console=console
    )
    task = bar.add_task("", total=None)

    def update(done: float, total: float, what: str) -> None:
        bar.start()
        bar.update(task, completed=done, total=total, description=escape(what))

    try:
        yield update
    finally:
        bar.stop()


class _WorkLines:
    """Notes the progress of a long work in a line each few seconds, for a log.

    Parameters
    ----------
    every_s
        How many seconds pass between two lines.
    """

    def __init__(self, every_s: float = LINE_S) -> None:
        self._every_s = every_s
        self._begin, self._first, self._last = 0.0, 0.0, -inf

    def tell(self, done: float, total: float, what: str) -> None:
        """Take over how far it is."""
        now = time.monotonic()
        if self._last == -inf:
            self._begin, self._first = now, done
        if now - self._last >= self._every_s:
            self._last = now
            gained = done - self._first
            left = f", about {duration((now - self._begin) * (total - done) / gained)} left" if gained > 0 else ""
            note(f"{done / total if total else 1:.0%} done{left}: {what}")


class _Lines:
    """Notes the progress of an ingest in a line each few seconds, for a log.

    Parameters
    ----------
    every_s
        How many seconds pass between two lines, and before the first.
    """

    def __init__(self, every_s: float = LINE_S) -> None:
        self._every_s = every_s
        self._task: tuple[str, str] | None = None
        self._begin = self._last = time.monotonic()
        self._first = 0

    def tell(self, what: str, source: str, done: int, total: int | None) -> None:
        """Take over how far it is."""
        now = time.monotonic()
        if (what, source) != self._task:
            self._task, self._begin, self._last, self._first = (what, source), now, now, done
        elif now - self._last >= self._every_s:
            self._last = now
            of = "" if total is None else f" of {total:,}"
            rate = (done - self._first) / max(now - self._begin, 1e-9)
            note(f"{what} {PurePath(source).name}: {done:,}{of} rows, {counted(round(rate), 'row')}/s")
