"""Flip one bit of an index's file, again and again, and check that no answer is wrong in silence.

An index with something in each of its tables is made and closed. Each flip changes one bit of a copy: in a table,
an index of SQLite, the schema or the free pages, each as often as the others, at a place that holds something.
Then a reader and a writer are asked everything. Each answer must be that of the sound index, or a `StoreError`,
after which the writer is not asked on. That a stored key is unknown, or taken twice, is a wrong answer. What is
learned may differ after a warning: then an older checkpoint was read. A filtered search may miss a row whose
metadata is damaged, and then `verify` must find the damage: a filter checks only the rows that it returns.

The flips depend on the seed alone, but for the times that are stored. What a failure leaves is kept.
"""

import argparse
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import mihash
from mihash.errors import StoreError

from .configurations import shrink
from .pages import pages_of
from .report import Failure, console, show_load

__all__ = ["Case", "Flip", "add_arguments", "draw", "flipped", "made", "run", "try_flip"]

D, N_ROWS, BATCH = 8, 1500, 100
DATABASE = "index.db"
FILTERED = ("filtered", "filtered by none")
STRUCTURE = 64  # bytes at the beginning of a page, which say what is where on it

Question = tuple[str, Callable[[mihash.OnlineIndex], Any]]


class Flip(NamedTuple):
    """Which bit is changed, and of what it is a part."""

    relation: str
    offset: int
    bit: int


@dataclass
class Case:
    """A sound index, and what it says.

    Attributes
    ----------
    folder
        Where it is; it is closed.
    reading, writing
        What a reader is asked, and what a writer is asked, in this order.
    right
        The answers, or the errors that are the right answer, by question.
    """

    folder: Path
    reading: list[Question]
    writing: list[Question]
    right: dict[str, Any] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flips", type=int, default=1000, help="how many flips (1000)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--first", type=int, default=0, help="begin with the flip of this number (0)")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")


def run(arguments: argparse.Namespace) -> bool:
    shrink()
    base = Path(tempfile.mkdtemp(prefix="mihash-flips-", dir=arguments.folder))
    began = time.perf_counter()
    cases = [made(base / name, name == "named", arguments.seed) for name in ("plain", "named")]
    tally: dict[str, Counter[str]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    numbers = range(arguments.first, arguments.first + arguments.flips)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("flips", total=arguments.flips)
        for number in numbers:
            case, rng = cases[number % 2], np.random.default_rng([arguments.seed, number])
            flip = draw(case, rng)
            try:
                noticed = try_flip(case, flip, base / "flipped")
            except Failure as failure:
                progress.stop()
                console.print(f"[red]Failed[/red] at flip {number}, seed {arguments.seed}: {flip}", soft_wrap=True)
                console.print(str(failure), markup=False, soft_wrap=True)
                console.print(f"Kept in {base / 'flipped'}; the sound index is {case.folder}.", soft_wrap=True)
                _show(tally)
                return False
            tally.setdefault(flip.relation, Counter())["noticed" if noticed else "no matter"] += 1
            progress.update(task, advance=1, description=f"{flip.relation:<24}")
    shutil.rmtree(base)
    _show(tally)
    n = sum(counts.total() for counts in tally.values())
    console.print(f"Silent wrong answers: 0 in {n:,} flips; {time.perf_counter() - began:.0f} s.")
    show_load()
    return True


def _show(tally: dict[str, Counter[str]]) -> None:
    table = Table(title="Flips by what they met", title_justify="left", title_style="bold")
    for column in ("table or index", "flips", "noticed", "every answer right"):
        table.add_column(column, justify="left" if column == "table or index" else "right")
    total: Counter[str] = Counter()
    for relation, counts in sorted(tally.items()):
        table.add_row(relation, *(f"{n:,}" for n in (counts.total(), counts["noticed"], counts["no matter"])))
        total += counts
    table.add_section()
    table.add_row("all", *(f"{n:,}" for n in (total.total(), total["noticed"], total["no matter"])))
    console.print(table)


def made(folder: Path, named: bool, seed: int) -> Case:
    """Make an index with something in each table, its own keys or running numbers, and ask it everything."""
    rng = np.random.default_rng([seed, named])
    X = rng.standard_normal((N_ROWS, D)).astype(np.float32)
    keys: list[int | str] = list(range(N_ROWS))
    if named:
        keys = [f"key {rng.integers(2**40):x}" if row % 3 else 10**6 + row for row in range(N_ROWS)]
    options: dict[str, Any] = {
        "n_bits": 32,
        "reservoir_size": 60,
        "seed": 3,
        "trigger": mihash.TriggerUpdate(-1.0, 10),
    }
    with mihash.OnlineIndex.create(folder, **options) as index:
        for start in range(0, N_ROWS, BATCH):
            part = slice(start, start + BATCH)
            metadata = [
                {"a": row % 3, "b": "x" * (row % 5)} if row % 7 else None for row in range(start, part.stop)
            ]
            source = (f"file {start // 500}.csv", part.stop)
            index.add(X[part], np.arange(N_ROWS)[part] % 4, keys[part] if named else None, metadata, source=source)
        index.wait()
        gone = [keys[row] for row in rng.permutation(N_ROWS)[:90]]
        index.delete(gone[:60])
        index.compact()
        index.delete(gone[60:])
        index.rehash()
        index.wait()
    stored = [key for key in keys if key not in set(gone)]
    some = [stored[place] for place in rng.permutation(len(stored))[:12]]
    Q = rng.standard_normal((4, D)).astype(np.float32)
    case = Case(folder, _reading(Q, stored, gone, some), _writing(Q, X, some, gone))
    copy = folder.with_name("asked")
    case.right = _answers(_copied(case, copy), case.reading, read_only=True)[0]
    case.right |= _answers(copy, case.writing, read_only=False)[0]
    return case


def _reading(Q: Any, stored: list[Any], gone: list[Any], some: list[Any]) -> list[Question]:
    """Return what a reader is asked: searches of every kind, every key, and all that is known of the index."""
    shown = ("items", "deleted", "n_features", "metric", "dtype", "labels", "version", "decisions", "updates")
    questions: list[Question] = [
        ("search", lambda index: _plain(index.search(Q, 10))),
        ("radius", lambda index: _plain(index.search(Q, radius=8))),
        ("rescored", lambda index: _plain(index.search(Q, 5, rescore=40))),
        ("filtered", lambda index: _plain(index.search(Q, 10, where={"a": 1}))),
        ("filtered by none", lambda index: _plain(index.search(Q, 10, where={"b": None}))),
        ("len", len),
        ("contains", lambda index: index.contains([*stored, *gone, "never", -5]).tolist()),
        ("metadata", lambda index: index.metadata(stored)),
        ("history", lambda index: index.history()),
        ("versions", lambda index: index.versions()),
        ("stats", lambda index: {name: index.stats()[name] for name in shown}),
        ("positions", lambda index: [index.position(f"file {n}.csv") for n in range(4)]),
    ]
    return questions + [
        (f"get {key!r}", lambda index, key=key: _item(index.get(key))) for key in (*some, *gone[-2:])
    ]


def _writing(Q: Any, X: Any, some: list[Any], gone: list[Any]) -> list[Question]:
    """Return what a writer is asked: what was learned, keys that are taken, and changes."""
    return [
        ("learned", lambda index: index.current.fingerprint),
        *((f"add {key!r}", lambda index, key=key: index.add(X[:1], [0], [key])) for key in some),
        ("add", lambda index: index.add(X[:3], [0, 1, 2])),
        ("add what was deleted", lambda index: index.add(X[:2], [0, 1], gone[:2])),
        ("delete", lambda index: index.delete(some[:3])),
        ("delete what is gone", lambda index: index.delete(gone[5])),
        ("search after", lambda index: _plain(index.search(Q, 10))),
        ("contains after", lambda index: index.contains([*some, *gone]).tolist()),
        ("decided", lambda index: [row["number"] for row in index.history()]),
    ]


def _plain(hits: Any) -> Any:
    return [keys.tolist() for keys in hits.keys], [each.tolist() for each in hits.distances], hits.version


def _item(item: Any) -> Any:
    return item.key, item.vector.tolist(), int(item.label), item.metadata


def draw(case: Case, rng: np.random.Generator) -> Flip:
    """Return a bit to change: of any table or index alike, where there is something; often in a page's header."""
    path = case.folder / DATABASE
    size, pages = pages_of(path)
    relation = sorted(pages)[int(rng.integers(len(pages)))]
    page = int(rng.choice(pages[relation]))
    start = (page - 1) * size
    held = np.frombuffer(path.read_bytes()[start : start + size], dtype=np.uint8)
    used = np.flatnonzero(held)
    if rng.random() < 0.25 or not len(used):
        used = np.arange(STRUCTURE)
    return Flip(relation, start + int(rng.choice(used)), int(rng.integers(8)))


def flipped(case: Case, flip: Flip, folder: Path) -> Path:
    """Copy an index, and change a bit of the copy."""
    path = _copied(case, folder) / DATABASE
    with path.open("r+b") as file:
        file.seek(flip.offset)
        (byte,) = file.read(1)
        file.seek(flip.offset)
        file.write(bytes([byte ^ (1 << flip.bit)]))
    return folder


def try_flip(case: Case, flip: Flip, folder: Path) -> bool:
    """Change a bit and ask everything; return whether it was noticed. A wrong answer raises `Failure`."""
    noticed = False
    for questions, read_only in ((case.reading, True), (case.writing, False)):
        answers, warned = _answers(flipped(case, flip, folder), questions, read_only)
        noticed |= warned
        for name, answer in answers.items():
            right = case.right[name]
            if answer == right:
                continue
            named = isinstance(answer, type) and issubclass(answer, StoreError)
            if named or (name in FILTERED and _verify_fails(flipped(case, flip, folder))):
                noticed = True
            elif not (warned and name in ("learned", "decided", "search after")):
                raise Failure(f"{name}: {answer!r:.300} in place of {right!r:.300}.")
    return noticed


def _answers(folder: Path, questions: list[Question], read_only: bool) -> tuple[dict[str, Any], bool]:
    """Return the answer to each question, the class of an error in its place, and whether there was a warning."""
    answers: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            index = mihash.OnlineIndex.open(folder, read_only)
        except Exception as error:
            return dict.fromkeys((name for name, _ in questions), type(error)), False
        try:
            for name, ask in questions:
                try:
                    answers[name] = ask(index)
                except Exception as error:
                    answers[name] = type(error)
                    if not read_only and isinstance(error, StoreError):
                        break
        finally:
            with suppress(StoreError):
                index.close()
    return answers, bool(caught)


def _verify_fails(folder: Path) -> bool:
    try:
        with mihash.OnlineIndex.open(folder, read_only=True) as index:
            index.verify()
    except StoreError:
        return True
    return False


def _copied(case: Case, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copyfile(case.folder / DATABASE, folder / DATABASE)
    return folder
