"""Kill a process that migrates an index from one embedding model to the next; check that nothing is lost or mixed.

A child process fills a migration by key while it deletes items, replaces vectors and changes metadata; then it
cuts over, now and then rolls back and cuts over again, finishes, and begins with the next model, of another
dimension. It writes a line to a journal before and after each step. It is killed with SIGKILL at a random moment,
and the index is opened: every acknowledged change must be there, all vectors must be of one model, and every
search must find what is nearest in that model.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mihash

from .report import console, show_load

__all__ = ["add_arguments", "run"]

_BATCH, _QUERIES = 100, 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=50, help="how many kills (50)")
    parser.add_argument("--items", type=int, default=2000, help="how many items the index has (2,000)")
    parser.add_argument("--dims", type=int, nargs=2, default=(24, 48), help="the dimensions in turn (24 48)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--longest", type=float, default=3.0, help="the most seconds before a kill (3)")


def run(arguments: argparse.Namespace) -> bool:
    base = Path(tempfile.mkdtemp(prefix="mihash-migration-"))
    rng, context = np.random.default_rng(arguments.seed), multiprocessing.get_context("spawn")
    model, compared, began = Model(tuple(arguments.dims)), 0, time.perf_counter()
    journal = base / "journal"
    for kill in range(arguments.kills):
        child = context.Process(
            target=work, args=(str(base), arguments.items, tuple(arguments.dims), arguments.seed + kill)
        )
        child.start()
        while not (base / "ready").exists() and child.is_alive():
            time.sleep(0.05)
        time.sleep(float(rng.uniform(0.02, arguments.longest)))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        (base / "ready").unlink(missing_ok=True)
        unsure = model.read(journal)
        try:
            compared += check(base / "index", model, unsure, rng)
            model.settle(journal)
        except Exception as error:
            console.print(f"[red]After kill {kill} ({unsure}):[/] {error!r}. Left in {base}")
            return False
    counts = ", ".join(f"{n:,} {name}" for name, n in sorted(model.counts.items()))
    seconds = time.perf_counter() - began
    console.print(f"{arguments.kills} kills, {compared:,} comparisons, 0 failures; {counts}; {seconds:.0f} s.")
    show_load()
    shutil.rmtree(base)
    return True


def vector(key: int, change: int, generation: int, dims: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the vector of an item after so many changes, by the model of a generation."""
    rng = np.random.default_rng([key, change, generation])
    return rng.standard_normal(dims[generation % 2]).astype(np.float32)


class Model:
    """What is acknowledged: the items, how often each was changed, and which generation answers."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims
        self.items: dict[int, int] = {}
        self.notes: dict[int, int] = {}
        self.migrated: dict[int, int] = {}
        self.generation = 0
        self.state = "none"
        self.counts: dict[str, int] = {}
        self.changed = False  # since the last cut-over
        self.settled: dict[str, Any] = {"what": "checked"}
        self._at = 0

    def settle(self, journal: Path) -> None:
        """Write to the journal whether the step that a kill has met was done."""
        with journal.open("a") as file:
            file.write("\n" + json.dumps(self.settled) + "\n")
        self.settled = {"what": "checked"}
        self._at = len(journal.read_text().splitlines())

    def read(self, journal: Path) -> dict[str, Any] | None:
        """Apply what was acknowledged since the last call; return the step that may have been done or not."""
        lines = journal.read_text().splitlines() if journal.exists() else []
        begun: dict[str, Any] | None = None
        for line in lines[self._at :]:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut by the kill
            if entry["what"] == "checked":
                begun = None
            elif entry["done"]:
                self.apply(entry)
                begun = None
            else:
                begun = entry
        self._at = len(lines)
        return begun

    def apply(self, entry: dict[str, Any]) -> None:
        """Take over one step."""
        what, keys = entry["what"], entry.get("keys", [])
        self.counts[what] = self.counts.get(what, 0) + 1
        self.changed |= what in ("add", "delete", "replace", "note")
        if what == "add":
            self.items |= dict.fromkeys(keys, 0)
        elif what == "delete":
            for key in keys:
                del self.items[key]
                self.notes.pop(key, None)
                self.migrated.pop(key, None)  # a later item may get the same key
        elif what == "replace":
            for key in keys:
                self.items[key] += 1
        elif what == "note":
            self.notes |= dict.fromkeys(keys, entry["value"])
        elif what == "begin":
            self.state, self.migrated = "filling", {}
        elif what == "migrate":
            self.migrated |= {key: self.items[key] for key in keys}
        elif what == "cut over":
            self.generation, self.state, self.changed = self.generation + 1, "cut over", False
        elif what == "roll back":
            self.generation, self.state = self.generation - 1, "filling"
        elif what == "finish":
            self.state = "none"

    @property
    def missing(self) -> set[int]:
        """The items that have no valid new vector."""
        return {key for key, change in self.items.items() if self.migrated.get(key) != change}


def check(folder: Path, model: Model, unsure: dict[str, Any] | None, rng: np.random.Generator) -> int:
    """Compare an index with the model; of a step that may have been done or not, the index says which."""
    with mihash.open(folder, n_bits=64) as index:
        if unsure is not None and _was_done(index, model, unsure):
            model.apply(unsure)
            model.settled = unsure | {"done": True}
        migration = index.migration
        state = "none" if migration is None else migration.state
        assert state == model.state, f"the state is {state}, not {model.state}"
        assert set(index) == set(model.items), "other items are stored"
        n_features = model.dims[model.generation % 2]
        assert index.n_features in (None, n_features), f"vectors have {index.n_features} features"
        keys = sorted(model.items)
        for start in range(0, len(keys), 500):
            for item in index.get(keys[start : start + 500]):
                assert isinstance(item.key, int)
                expected = vector(item.key, model.items[item.key], model.generation, model.dims)
                assert np.array_equal(item.vector, expected), f"another vector of {item.key}"
                assert item.metadata == {"note": model.notes.get(item.key, 0)}, f"other metadata of {item.key}"
        if migration is not None and state == "filling":
            assert set(migration.missing()) == model.missing, "others are missing"
        chosen = rng.permutation(keys)[:_QUERIES].tolist()
        for key in chosen:
            query = vector(key, model.items[key], model.generation, model.dims)
            hits = index.search(query, k=3, rescore=len(keys))
            assert hits.keys[0] == key, f"{key} is not found"
            assert hits.distances[0] < 1e-3, "a distance to another model"
        index.verify()
        return 3 * len(keys) + len(chosen)


def _was_done(index: mihash.OnlineIndex, model: Model, step: dict[str, Any]) -> bool:
    """Tell whether a step that was begun was done before the kill; a change is one transaction."""
    what, keys = step["what"], step.get("keys", [])
    found = index.migration
    if what == "replace":
        fresh = vector(keys[0], model.items[keys[0]] + 1, model.generation, model.dims)
        return bool(np.array_equal(index.get(keys[0]).vector, fresh))
    done = {
        "add": lambda: keys[0] in index,
        "delete": lambda: keys[0] not in index,
        "note": lambda: index.get(keys[0]).metadata == {"note": step["value"]},
        "begin": lambda: found is not None,
        "migrate": lambda: found is not None and keys[0] not in found.missing(),
        "finish": lambda: found is None,
        "cut over": lambda: found is not None and found.state == "cut over",
        "roll back": lambda: found is not None and found.state == "filling",
    }
    return bool(done[what]())


def work(base: str, n_items: int, dims: tuple[int, ...], seed: int) -> None:
    """Migrate from model to model until killed."""
    folder, rng, model = Path(base), np.random.default_rng([seed, 7]), Model(dims)
    index = mihash.open(folder / "index", n_bits=64, learner="lsh")
    pending = model.read(folder / "journal")
    assert pending is None, "the parent has settled what the last kill left open"
    (folder / "ready").touch()
    with (folder / "journal").open("a") as journal:

        def step(what: str, call: Any, **more: Any) -> None:
            for done in (False, True):
                if done:
                    call()
                journal.write(json.dumps({"what": what, "done": done, **more}) + "\n")
                journal.flush()
            model.apply({"what": what, **more})

        while True:
            _turn(index, model, rng, n_items, step)


def _turn(index: mihash.OnlineIndex, model: Model, rng: np.random.Generator, n_items: int, step: Any) -> None:
    def rows(keys: list[int], generation: int) -> NDArray[np.float32]:
        return np.stack([vector(key, model.items.get(key, 0), generation, model.dims) for key in keys])

    if len(model.items) < n_items:
        first = max(model.items, default=-1) + 1
        keys = list(range(first, first + _BATCH))
        notes = [{"note": 0}] * _BATCH
        step("add", lambda: index.add(rows(keys, model.generation), keys=keys, metadata=notes), keys=keys)
        return
    draw, some = rng.random(), rng.permutation(sorted(model.items))[:20].tolist()
    if draw < 0.1:
        step("delete", lambda: index.delete(some), keys=some)
    elif draw < 0.2:
        value = int(rng.integers(1, 10**6))
        step("note", lambda: index.update(some, metadata=[{"note": value}] * len(some)), keys=some, value=value)
    elif draw < 0.3:
        fresh = np.stack([vector(key, model.items[key] + 1, model.generation, model.dims) for key in some])
        step("replace", lambda: index.upsert(fresh, some), keys=some)
    elif model.state == "none":
        step("begin", index.migrate)
    elif model.state == "filling":
        migration = index.migration
        assert migration is not None
        keys = sorted(model.missing)[:_BATCH]
        if keys:
            step("migrate", lambda: migration.add(rows(keys, model.generation + 1), keys), keys=keys)
        else:
            step("cut over", migration.cut_over)
    else:
        migration = index.migration
        assert migration is not None
        if rng.random() < 0.5 and not model.changed:  # what was changed since the cut-over would be undone
            step("roll back", migration.roll_back)
        else:
            step("finish", migration.finish)
