"""Online hashing methods, one paper a file, all through the door of `base` (Sec. 4.2, 4.3.1).

`LEARNERS` maps the name that the command line and saved states use to the class.
"""

from ..errors import UnknownName
from .base import OnlineLearner
from .lsh import LSH
from .mihash import MIHash

__all__ = ["LEARNERS", "LSH", "MIHash", "OnlineLearner", "learner_class"]

LEARNERS: dict[str, type[OnlineLearner]] = {cls.name: cls for cls in (LSH, MIHash)}


def learner_class(name: str) -> type[OnlineLearner]:
    """Return the learner of that name.

    Examples
    --------
    >>> learner_class("mihash")
    <class 'mihash.online.mihash.MIHash'>
    """
    if name not in LEARNERS:
        raise UnknownName(f"There is no learner {name!r}; known: {', '.join(sorted(LEARNERS))}.")
    return LEARNERS[name]
