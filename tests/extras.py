"""Extras that are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def skipped_without_extras() -> Iterator[None]:
    """Skip the test where an import says which extra it needs."""
    try:
        yield
    except ImportError as error:
        if "pip install 'mihash[" not in str(error):
            raise
        pytest.skip(str(error))
