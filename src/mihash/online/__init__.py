"""Online hashing methods, one paper a file, with the base class `OnlineLearner` (Sec. 4.2, 4.3.1).

`LEARNERS` maps the name that the command line and saved states use to the class.
"""

from typing import Any

from ..errors import Renamed, UnknownName
from .adapthash import AdaptHash
from .external import ExternalMapping
from .hcoh import HCOH
from .hmoh import HMOH
from .lsh import LSH
from .mihash import MIHash
from .moment_hash import MomentHash
from .okh import OKH
from .online_learner import OnlineLearner
from .osh import OSH
from .random_rotation import RandomRotation
from .refit import Refit
from .sketchhash import SketchHash

__all__ = [
    "HCOH",
    "HMOH",
    "LEARNERS",
    "LSH",
    "OKH",
    "OSH",
    "AdaptHash",
    "ExternalMapping",
    "MIHash",
    "MomentHash",
    "OnlineLearner",
    "RandomRotation",
    "Refit",
    "SketchHash",
    "learner_class",
]

_METHODS: tuple[type[OnlineLearner], ...] = (
    LSH,
    MIHash,
    MomentHash,
    OKH,
    OSH,
    AdaptHash,
    SketchHash,
    HCOH,
    HMOH,
    Refit,
    RandomRotation,
)
LEARNERS: dict[str, type[OnlineLearner]] = {cls.name: cls for cls in _METHODS}


def __getattr__(name: str) -> Any:
    if name == "Given":
        raise Renamed("mihash.online.Given", "mihash.online.ExternalMapping")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def learner_class(name: str) -> type[OnlineLearner]:
    """Return the learner of that name.

    Examples
    --------
    >>> learner_class("mihash")
    <class 'mihash.online.mihash.MIHash'>
    """
    if name == ExternalMapping.name:  # no method, so not among them
        return ExternalMapping
    if name not in LEARNERS:
        raise UnknownName(f"There is no learner {name!r}; known: {', '.join(sorted(LEARNERS))}.")
    return LEARNERS[name]
