"""Why a folder does not hold the rows of its table."""

from typing import Any

from ..errors import NotReady


class RowsElsewhere(NotReady):
    """The folder holds the coordinator of a table whose rows are on other machines."""


class Moved(NotReady):
    """Another generation of the index answers, in a folder inside this one."""

    def __init__(self, generation: Any) -> None:
        super().__init__("The vectors of this index were replaced: another generation answers.")
        self.generation = generation
