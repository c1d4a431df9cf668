"""Exact Hamming search, per query: ours against FAISS, usearch and NumPy.

Codes of 32 to 256 bits, random, clustered and learned (`search_codes`), 1 million and 10 million of them: the 10
and the 100 nearest and all within 2, in batches, and one query a call. FAISS is `IndexBinaryFlat` with one thread;
"counting" is its other way to select. usearch and NumPy answer few queries, being slow; where multi-index hashing
pays it answers many, so that what one round read is not in the cache for the next. ``auto`` has been asked a
thousand queries before, so its choice is made. Before the clock starts, all must give the same answers.

``MIHASH_BENCH_ROWS`` makes the largest set smaller, to try this out. The numbers of a full run go to
``docs/images/search.json``, the figure is drawn from them: ``python -m benchmarks.search_figure`` draws it again.
"""

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import mihash
from mihash.search import MultiIndex, Searcher, as_bitmap, as_columns

from . import search_figure
from .clock import best, timed
from .report import Target, console, number, show, show_grid, show_load, verdict
from .search_check import check_all, same_answers, same_lists, same_neighbors
from .search_codes import CodeSet, code_sets, random
from .search_peers import Faiss, as_lists, missing, numpy_nearest, numpy_within, usearch_nearest

LARGEST = 10_000_000
SEARCHES = ("k = 10", "k = 100", "radius 2")
CONTENDERS = ("scan", "auto", "multi-index", "FAISS", "FAISS, counting", "usearch", "NumPy")
OVER_FAISS = {n_bits: Target(least=least) for n_bits, least in ((32, 5), (64, 4), (128, 2.5), (256, 1.5))}
OVER_SCAN = Target(least=5)
AUTO = Target(most=1.1)
LATENCY = Target(least=1)
FILTERED = {"1 % out": Target(most=1.1), "99 % out": Target(most=1)}
ROUNDS = 3
N_SLOW = 2
_SHORT = 64  # longer codes are not searched by multi-index hashing here: its tables would not fit
_WARM_UP = 1024

Record = dict[str, Any]


class Findings:
    """What was measured, and which targets were held."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.missed: list[str] = []
        self.n_judged = 0

    def add(self, section: str, given: CodeSet, times: dict[str, float], **more: str) -> dict[str, float]:
        """Keep the seconds of each contender, and return them."""
        about = {"section": section, "codes": given.name, "n": len(given.codes), "bits": given.n_bits, **more}
        self.records += [{**about, "contender": name, "ms": 1e3 * seconds} for name, seconds in times.items()]
        return times

    def judge(self, what: str, ratio: float, target: Target | None) -> str:
        """Return a ratio with its verdict, as a cell."""
        if target is None:
            return f"{number(ratio)}x"
        held = target.held(0, ratio)
        self.n_judged += 1
        if not held:
            self.missed.append(f"{what}: {number(ratio)}x, {target}")
        return f"{number(ratio)}x {verdict(held)}"


class Contest:
    """All contenders on one set of codes."""

    def __init__(self, given: CodeSet) -> None:
        self.given = given
        self.n = len(given.codes)
        self.columns = as_columns(given.codes)
        self.faiss = Faiss(given.codes)
        self.searcher = Searcher(given.n_bits)
        self.batch = given.queries[: 32 if self.n > 2_000_000 else 128]
        self.few = self.batch[:N_SLOW]

        for start in range(0, _WARM_UP, 256):  # ``auto`` finds out what pays
            self.searcher.nearest(as_columns(given.queries[start : start + 256]), self.columns, 10)
        self.many = self.batch if self.searcher.index is None else given.queries

    def works(self, search: str) -> dict[str, Callable[[], Any]]:
        """Return what each contender does for a kind of search, on the whole batch or, if it is slow, on a few."""
        methods = CONTENDERS[:3] if self.given.n_bits <= _SHORT else CONTENDERS[:2]
        what, reach = search.replace(" = ", " ").split()
        if what == "radius":
            ask: Callable[..., Any] = self.searcher.within
            theirs: dict[str, Callable[[], Any]] = {
                "FAISS": lambda: self.faiss.within(self.batch, int(reach)),
                "NumPy": lambda: numpy_within(as_columns(self.few), self.columns, int(reach)),
            }
        else:
            ask = self.searcher.nearest
            theirs = {
                "FAISS": lambda: self.faiss.nearest(self.batch, int(reach)),
                "FAISS, counting": lambda: self.faiss.nearest(self.batch, int(reach), counting=True),
                "usearch": lambda: usearch_nearest(self.few, self.given.codes, int(reach)),
                "NumPy": lambda: numpy_nearest(as_columns(self.few), self.columns, int(reach)),
            }
        ours = {
            method: lambda method=method: ask(
                as_columns(self.asked(method)), self.columns, int(reach), method=method
            )
            for method in methods
        }
        return ours | theirs

    def asked(self, name: str) -> np.ndarray:
        """Return the queries that a contender answers."""
        return {"auto": self.many, "multi-index": self.many, "usearch": self.few, "NumPy": self.few}.get(
            name, self.batch
        )

    def times(self, search: str) -> dict[str, float]:
        """Return each contender's CPU seconds per query, after a look at its answers."""
        works = self.works(search)
        wanted = works["scan"]()
        for name, work in works.items():
            n = min(len(self.asked(name)), len(self.batch))
            found = work()
            if search == "radius 2":
                found = as_lists(found) if name == "FAISS" else found
                same_lists(found[:n], wanted[:n], name)
            else:
                same = same_answers if name in ("auto", "multi-index") else same_neighbors
                same((found[0][:n], found[1][:n]), (wanted[0][:n], wanted[1][:n]), name)
        return best({name: timed(work, len(self.asked(name))) for name, work in works.items()}, ROUNDS)


def run() -> None:
    if missing():
        console.print(f"{' and '.join(missing())} not installed: pip install 'mihash[bench]'. Search is skipped.")
        return
    largest = int(os.environ.get("MIHASH_BENCH_ROWS", LARGEST))
    findings = Findings()
    checked = check_all(largest // 10 if largest == LARGEST else largest)
    for group in code_sets(largest):
        _compare(group, findings)
    _show_latency(findings)
    _show_filters(findings)
    _two_threads(largest, findings)
    console.print(f"{findings.n_judged - len(findings.missed)} of {findings.n_judged} targets held.")
    for line in findings.missed:
        console.print(f"  [red]not held[/red] {line}")
    _write(findings, checked, largest == LARGEST)


def _compare(group: Iterator[CodeSet], findings: Findings) -> None:
    """Print the times of all contenders on codes of one kind and number, and what their ratios are worth."""
    rows, ratios, builds, title = [], [], [], ""
    for given in group:
        contest = Contest(given)
        title = f"{given.name}, {contest.n:,} codes"
        for search in SEARCHES:
            times = findings.add("batch", given, contest.times(search), search=search)
            rows.append(
                [str(given.n_bits), search, *(number(1e3 * times[c]) if c in times else "" for c in CONTENDERS)]
            )
            ratios.append([str(given.n_bits), search, *_judged(given, search, times, findings)])
        if given.name == "random":
            _latency(contest, findings)
            _filters(contest, findings)
        if given.is_learned and given.n_bits <= _SHORT:
            seconds = timed(lambda columns=contest.columns, b=given.n_bits: MultiIndex(columns, b))()
            findings.add("build", given, {"multi-index": seconds})
            builds.append(f"{1e6 * seconds / contest.n:.2f} s with {given.n_bits} bits")
    show_grid(f"Search: {title}, one thread, ms CPU per query", ("bits", "search", *CONTENDERS), rows)
    header = ("bits", "search", "FAISS / scan", "auto / scan", "scan / multi-index", "scan / auto")
    show_grid(f"Ratios: {title}", header, ratios)
    if builds:
        console.print(f"Tables of multi-index hashing, built, per million codes: {', '.join(builds)}")


def _judged(given: CodeSet, search: str, times: dict[str, float], findings: Findings) -> list[str]:
    about = f"{given.name}, {len(given.codes):,} x {given.n_bits} bits, {search}"
    wanted = OVER_FAISS[given.n_bits] if search == "k = 10" and not given.is_learned else None
    cells = [
        findings.judge(f"FAISS / scan, {about}", times["FAISS"] / times["scan"], wanted),
        findings.judge(f"auto / scan, {about}", times["auto"] / times["scan"], AUTO),
        "",
        f"{number(times['scan'] / times['auto'])}x",
    ]
    if "multi-index" in times:
        wanted = OVER_SCAN if given.is_learned and given.name != "learned, real rows" else None
        cells[2] = findings.judge(f"scan / multi-index, {about}", times["scan"] / times["multi-index"], wanted)
    return cells


def _latency(contest: Contest, findings: Findings) -> None:
    """One query a call, through what users call."""
    given = contest.given
    table = mihash.MemoryTable.from_codes(given.codes, given.n_bits)
    queries = [contest.batch[q : q + 1] for q in range(16)]
    works: dict[str, Callable[[], Any]] = {
        "MemoryTable, scan": lambda: [table.search_codes(query, 10, method="scan") for query in queries],
        "FAISS": lambda: [contest.faiss.nearest(query, 10) for query in queries],
    }
    clocks = {"CPU": time.process_time, "wall": time.perf_counter}
    contenders = {
        f"{name}, {clock}": timed(works[name], len(queries), clock=clocks[clock])
        for name, clock in product(works, clocks)
    }
    findings.add("latency", given, best(contenders, ROUNDS))


def _filters(contest: Contest, findings: Findings) -> None:
    """Scan where some codes, spread at random, may not be found."""
    rng = np.random.default_rng(0)
    lives = {"plain": None}
    lives |= {
        name: as_bitmap(rng.random(contest.n) < kept) for name, kept in (("1 % out", 0.99), ("99 % out", 0.01))
    }
    batch = as_columns(contest.batch)
    parts = {"batch": [batch], "single": [batch[q : q + 1] for q in range(16)]}

    def ask(how: str, name: str) -> None:
        for queries in parts[how]:
            contest.searcher.nearest(queries, contest.columns, 10, lives[name], method="scan")

    for how, asked in parts.items():
        n_queries = sum(len(queries) for queries in asked)
        contenders = {name: timed(lambda how=how, name=name: ask(how, name), n_queries) for name in lives}
        findings.add("filters", contest.given, best(contenders, 2 * ROUNDS), how=how)


def _tables(findings: Findings, section: str) -> Iterator[tuple[str, dict[str, float], list[str]]]:
    """Yield what the records of a section were measured on, their ms by contender, and first cells of a row."""
    groups: dict[tuple[Any, ...], dict[str, float]] = {}
    for record in findings.records:
        if record["section"] == section:
            name = (record["n"], record["bits"], record.get("how", ""))
            groups.setdefault(name, {})[record["contender"]] = record["ms"]
    for (n, bits, how), times in groups.items():
        cells = [f"{n:,}", str(bits), *([how] if how else [])]
        yield f"{section}, {n:,} x {bits} bits {how}".rstrip(), times, cells


def _show_latency(findings: Findings) -> None:
    rows = []
    for about, times, cells in _tables(findings, "latency"):
        judged = [
            findings.judge(
                f"{about}, {clock}", times[f"FAISS, {clock}"] / times[f"MemoryTable, scan, {clock}"], LATENCY
            )
            for clock in ("CPU", "wall")
        ]
        rows.append([*cells, *map(number, times.values()), *judged])
    header = ("codes", "bits", "ours, CPU", "ours, wall", "FAISS, CPU", "FAISS, wall", "ratio, CPU", "ratio, wall")
    show_grid("One query a call, random codes, k = 10: ms", header, rows)


def _show_filters(findings: Findings) -> None:
    rows = []
    for about, times, cells in _tables(findings, "filters"):
        judged = [
            findings.judge(f"{about}, {name}", times[name] / times["plain"], target)
            for name, target in FILTERED.items()
        ]
        rows.append([*cells, *map(number, times.values()), *judged])
    names = ("plain", *FILTERED)
    header = ("codes", "bits", "queries", *names, *(f"{name} / plain" for name in FILTERED))
    show_grid("Scan with a filter, random codes, k = 10: ms CPU per query", header, rows)


def _two_threads(largest: int, findings: Findings) -> None:
    """Two threads against one, on the wall; FAISS's threads wait passively (`benchmarks.__main__`)."""
    given = random(largest, 64)
    contest = Contest(given)
    one, two = "scan, one thread", "scan, two threads"

    def faiss(queries: np.ndarray, n_threads: int) -> None:
        contest.faiss.use_threads(n_threads)
        contest.faiss.nearest(queries, 10)
        contest.faiss.use_threads(1)

    for how, queries in (("batch", contest.batch), ("single", contest.batch[:1])):
        ours = as_columns(queries)
        works: dict[str, Callable[[], Any]] = {
            one: lambda ours=ours: contest.searcher.nearest(ours, contest.columns, 10, method="scan"),
            two: lambda ours=ours: contest.searcher.nearest(ours, contest.columns, 10, method="scan", n_threads=2),
            "FAISS, one thread": lambda queries=queries: faiss(queries, 1),
            "FAISS, two threads": lambda queries=queries: faiss(queries, 2),
        }
        contenders = {name: timed(work, len(queries), clock=time.perf_counter) for name, work in works.items()}
        times = findings.add("threads", given, best(contenders, 2 * ROUNDS), how=how)
        show(f"Two threads, {how}, {largest:,} x 64 bits, k = 10, wall clock", times, one, "ms per query")
        console.print(
            f"Two threads are {times[one] / times[two]:.2f}x as fast as one; "
            f"FAISS's {times['FAISS, one thread'] / times['FAISS, two threads']:.2f}x"
        )
        show_load()


def _write(findings: Findings, checked: list[Record], is_full: bool) -> None:
    """Write the numbers and the figure: to the documentation after a full run, else where they harm nobody."""
    folder = Path(__file__).parents[1] / "docs" / "images" if is_full else Path(tempfile.mkdtemp())
    results = {
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)},
        "identical": checked,
        "targets": {"judged": findings.n_judged, "missed": findings.missed},
        "records": [{**record, "ms": float(f"{record['ms']:.4g}")} for record in findings.records],
    }
    path = folder / "search.json"
    lines = ",\n".join(f"    {json.dumps(record)}" for record in results.pop("records"))
    head = json.dumps(results, indent=2).removesuffix("\n}")
    path.write_text(f'{head},\n  "records": [\n{lines}\n  ]\n}}\n', encoding="utf-8")
    search_figure.draw(path)
    console.print(f"Written: {path} and {path.with_suffix('.png').name}")


def _processor() -> str:
    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return names[0] if names else platform.processor()
