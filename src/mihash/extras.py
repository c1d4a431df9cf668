"""Modules of the extras: libraries that come with ``mihash[extra]``, imported where they are needed."""

import importlib
from typing import Any

from .errors import NotReady


def load_extra(extra: str, reason: str, module: str, *others: str) -> Any:
    """Import modules of an extra and return the first, or raise `NotReady` with the command that installs it.

    Parameters
    ----------
    extra
        The extra, as in ``pip install 'mihash[extra]'``.
    reason
        What needs the module, as the beginning of a sentence.
    module, others
        The module to return, and modules to import besides it.

    Examples
    --------
    >>> load_extra("hats", "A hat needs hatters", "hatters")
    Traceback (most recent call last):
    mihash.errors.NotReady: A hat needs hatters: pip install 'mihash[hats]'.
    """
    try:
        found, *_ = [importlib.import_module(name) for name in (module, *others)]
    except ImportError:
        raise NotReady(f"{reason}: pip install 'mihash[{extra}]'.") from None
    return found
