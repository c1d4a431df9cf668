"""The generations of an index: where its vectors are after they were replaced by those of another embedding model.

The first generation is in the folder of the index; later ones are in folders inside it, ``generation-1`` and so
on. The database of the outer folder says which one answers, and which one answered before. So a cut-over is one
transaction there: a crash leaves the old generation or the new one.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import CorruptStore
from .sqlite.database import DATABASE

_NAME = re.compile(r"generation-([1-9][0-9]{0,8})")


def root_of(folder: Path) -> Path:
    """Return the outer folder of the index that a generation belongs to.

    Examples
    --------
    >>> root_of(Path("photos")) == Path("photos"), generation_of(Path("photos/generation-2"))
    (True, 2)
    """
    return folder.parent if generation_of(folder) and (folder.parent / DATABASE).is_file() else folder


def generation_of(folder: Path) -> int:
    """Return the number of the generation in a folder, 0 for the first."""
    found = _NAME.fullmatch(folder.name)
    return int(found[1]) if found else 0


def generation_folder(root: Path, number: int) -> Path:
    """Return the folder of a generation."""
    return root / f"generation-{number}" if number else root


def as_generation(value: Any) -> int:
    """Return the stored number of a generation, or raise where it is none."""
    if value is None:
        return 0
    if not isinstance(value, int) or not 0 <= value < 10**9:
        raise CorruptStore(f"The number of the generation is damaged: {value!r:.40}. Use a backup.")
    return value


def stored_generation(root: Path) -> int:
    """Return which generation answers, as a process sees it that does not write."""
    path = (root / DATABASE).absolute().as_uri()
    with closing(sqlite3.connect(f"{path}?mode=ro", uri=True, isolation_level=None)) as connection:
        row = connection.execute("SELECT value FROM setting WHERE name = 'generation'").fetchone()
    return as_generation(None if row is None else row[0])


def generation_stamp(folder: Path) -> tuple[int, ...] | None:
    """Return what changes when the outer folder chooses another generation; None for the outer folder itself."""
    root = root_of(folder)
    if root == folder:
        return None
    files = (root / DATABASE, root / f"{DATABASE}-wal")
    found = [each.stat() for each in files if each.exists()]
    return tuple(part for each in found for part in (each.st_mtime_ns, each.st_size))
