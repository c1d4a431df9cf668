"""The process whose writes `soak power` logs: it works on an index, and notes in a journal what was acknowledged.

Run as ``python -m soak.recorded FOLDER LAP SEED OPERATIONS`` with the shim loaded.
"""

import sys
import warnings
from pathlib import Path

from mihash.store.sqlite import database

from .configurations import CONFIGURATIONS, shrink
from .journal import Entry, Journal
from .model import Model
from .operations import FAULTY_WEIGHTS, operation, run

__all__ = ["checkpoint_often"]

PAGES = 20  # of the write-ahead log, after which it is moved into the database: 4,096 would never be reached


def _main(folder: Path, lap: int, seed: int, n: int) -> None:
    warnings.simplefilter("error")
    shrink()
    checkpoint_often()
    configuration, journal = CONFIGURATIONS[lap % len(CONFIGURATIONS)], Journal(folder / "journal")
    model, target = Model(configuration), folder / "index"
    journal.write(Entry(-1, "create", "begun"))
    index = configuration.create(target)
    journal.write(Entry(-1, "create", "done"))
    for number in range(n):
        what = operation(configuration, [seed, lap], number, model, FAULTY_WEIGHTS)
        journal.write(Entry(number, what.name, "begun"))
        index = run(what, index, target)
        journal.write(Entry(number, what.name, "done"))
        model.apply(what)
    journal.write(Entry(-1, "close", "begun"))
    index.close()
    journal.write(Entry(-1, "close", "done"))


def checkpoint_often() -> None:
    """Have a short log moved into the database, too."""
    database._WAL_BYTES = PAGES * database.PAGE_BYTES


if __name__ == "__main__":
    _main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
