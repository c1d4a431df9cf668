"""The paper's experiments: data sets, definitions, jobs, results, and what is made of them (Sec. 4, App. B-D)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .learning_pass import Branch, Pass, learn_once

__all__ = ["Branch", "Pass", "learn_once"]


def __getattr__(name: str) -> Any:
    """Return a public name, imported when it is first asked for, so that data sets load no learner."""
    if name in __all__:
        from . import learning_pass

        return getattr(learning_pass, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
