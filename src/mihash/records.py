"""Records: what calls return, stated once; HTTP, the command line and the docs print the same fields."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Record:
    """A frozen dataclass whose fields are read as attributes, or by name as from a dictionary.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> point = Point(3)
    >>> point.x, point["x"], "z" in point, point.get("z", -1), dict(point)
    (3, 3, False, -1, {'x': 3, 'y': 0})
    """

    def keys(self) -> list[str]:
        """Return the names of the fields, in order."""
        return list(self.__dataclass_fields__)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields."""
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a field."""
        return name in self.__dataclass_fields__

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field."""
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a field, or ``default`` where there is no such field."""
        return getattr(self, name) if name in self.__dataclass_fields__ else default
