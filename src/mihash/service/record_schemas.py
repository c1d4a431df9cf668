"""Schemas of the records that calls return, derived from the records themselves."""

import inspect
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, get_type_hints

from pydantic import BaseModel, Field, create_model

from ..records import Record


def record_schema(
    record: type[Record], name: str | None = None, without: Sequence[str] = (), **more: Any
) -> type[BaseModel]:
    """Return the schema of a record, with the types and descriptions of its fields, and further fields."""
    first, _, rest = inspect.cleandoc(record.__doc__ or "").partition("\n")
    described: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", rest, re.MULTILINE):
        described |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    hints = get_type_hints(record)
    found: dict[str, Any] = {
        each.name: (hints[each.name], Field(description=described.get(each.name)))
        for each in fields(record)
        if each.name not in without
    }
    return create_model(name or record.__name__, __doc__=first, **found | more)
