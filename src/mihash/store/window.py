"""Windows: which items an index keeps, by number or by a time in their metadata; older ones expire.

An expiry is part of the change that causes it: one transaction stores the new rows and removes the expired ones,
so no answer holds an expired row. Expiries are stored and never computed again.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import InvalidInput

_FIELD = "time"
_SPAN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhdw])\s*")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Keep = int | str | Mapping[str, str]
"""A number of items, a span such as ``"30d"``, or a field of the metadata with a span."""


@dataclass(frozen=True)
class Window:
    """The newest ``count`` items, or those whose time is within ``span`` of the newest.

    Attributes
    ----------
    count
        How many items are kept; None for a window of time.
    field
        The field of the metadata that holds the time.
    span
        The span as a text, such as ``"30d"``.

    Examples
    --------
    >>> Window.of(1000).text, Window.of("30d").seconds, Window.of({"created": "12h"}).field
    ('1000', 2592000.0, 'created')
    """

    count: int | None = None
    field: str = _FIELD
    span: str | None = None

    @classmethod
    def of(cls, keep: Keep) -> "Window":
        """Return the window for a value of ``keep``."""
        if isinstance(keep, str | Mapping):
            field, span = next(iter(keep.items()), ("", "")) if isinstance(keep, Mapping) else (_FIELD, keep)
            several = isinstance(keep, Mapping) and len(keep) != 1
            if several or not isinstance(field, str) or not isinstance(span, str) or not _SPAN.fullmatch(span):
                raise InvalidInput(
                    "`keep` must be a number of items, a span such as '30d' or '12h' (s, m, h, d, w), or a field "
                    f"of the metadata with a span, such as {{'created': '30d'}}; got {keep!r:.80}."
                )
            return cls(None, field, span)
        return cls(validation.integer("keep", keep, minimum=1))

    @property
    def seconds(self) -> float:
        """The span in seconds."""
        found = _SPAN.fullmatch(self.span or "")
        assert found is not None
        return float(found[1]) * _SECONDS[found[2]]

    @property
    def text(self) -> str:
        """The window as it is stored."""
        return json.dumps(self.count if self.span is None else {self.field: self.span})

    def times(self, texts: Iterable[str | None]) -> NDArray[np.float64]:
        """Return the time of each item from its metadata, in seconds; raise if one has none."""
        return np.array([self.time_of(text, required=True) for text in texts], dtype=np.float64)

    def time_of(self, text: str | None, required: bool = False) -> float:
        """Return the time in metadata, in seconds since 1970; NaN if there is none."""
        value = (json.loads(text) if text else {}).get(self.field)
        found = _as_seconds(value)
        if required and math.isnan(found):
            raise InvalidInput(
                f"This index keeps the items of {self.span}: `metadata` must have a time in {self.field!r}, as "
                f"ISO 8601 text or in seconds since 1970; got {value!r:.80}."
            )
        return found


def _as_seconds(value: Any) -> float:
    if isinstance(value, bool) or value is None:
        return math.nan
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else math.nan
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
