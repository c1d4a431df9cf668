"""The generations of an index: where its vectors are after they were replaced by those of another embedding model.

The first generation is in the folder of the index; later ones are in folders inside it, ``generation-1`` and so
on. The database of the outer folder says which one answers, and which one answered before. So a cut-over is one
transaction there: a crash leaves the old generation or the new one.
"""

import re
from pathlib import Path
from typing import Any

from ..errors import CorruptStore, NotReady
from .sqlite.database import DATABASE, Database
from .sqlite.settings import read_settings

_NAME = re.compile(r"generation-([1-9][0-9]{0,8})")


class RowsElsewhere(NotReady):
    """The folder holds the coordinator of a table whose rows are on other machines."""


class Moved(NotReady):
    """Another generation of the index answers, in a folder inside this one."""

    def __init__(self, generation: Any) -> None:
        super().__init__("The vectors of this index were replaced: another generation answers.")
        self.generation = generation


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
    """Return the stored number of a generation, or raise if it is none."""
    if value is None:
        return 0
    if not isinstance(value, int) or not 0 <= value < 10**9:
        raise CorruptStore(f"The number of the generation is damaged: {value!r:.40}. Use a backup.")
    return value


def answering_folder(root: Path) -> Path:
    """Return the folder of the generation that answers, for the folder of an index."""
    database = Database(root, read_only=True)
    try:
        with database.read() as connection:
            value = read_settings(connection).get("generation")
        return generation_folder(root, as_generation(value))
    finally:
        database.close()


class GenerationWatch:
    """Tells a process that reads one generation when another one answers.

    It asks the database of the outer folder. The times of its files would not do: they change as a transaction
    is written, which is before it is visible.

    Parameters
    ----------
    folder
        The folder of a generation that is inside the folder of an index.
    """

    def __init__(self, folder: Path) -> None:
        self._own, self._root = generation_of(folder), Database(root_of(folder), read_only=True)
        self._version: tuple[int, ...] | None = None  # of the outer database when it was read

    @classmethod
    def of(cls, folder: Path) -> "GenerationWatch | None":
        """Return the watch of a folder; None for the folder of the index itself."""
        return None if root_of(folder) == folder else cls(folder)

    def has_moved(self) -> bool:
        """Return whether another generation answers now."""
        version = self._root.data_version()
        if version != self._version:
            with self._root.read() as connection:
                row = connection.execute("SELECT value FROM setting WHERE name = 'generation'").fetchone()
            if as_generation(None if row is None else row[0]) != self._own:
                return True
            self._version = version
        return False

    def close(self) -> None:
        """Close the outer database."""
        self._root.close()
