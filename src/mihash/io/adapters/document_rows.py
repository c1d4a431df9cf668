"""Documents as rows: the text among the metadata, and a distance as a score that grows with similarity."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import InvalidInput

TEXT = "_text"
"""The field of the metadata that holds the text of a document."""


def document_metadata(
    texts: Sequence[str], metadata: Sequence[Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return the metadata of each document with its text in the field ``"_text"``.

    Examples
    --------
    >>> document_metadata(["a fox"], [{"legs": 4}])
    [{'legs': 4, '_text': 'a fox'}]
    """
    given = [{}] * len(texts) if metadata is None else metadata
    if len(given) != len(texts):
        raise InvalidInput(f"`metadatas` must have one entry for each text; got {len(given)} for {len(texts)}.")
    if any(TEXT in each for each in given):
        raise InvalidInput(f"The field {TEXT!r} of the metadata holds the text; give the field another name.")
    return [{**each, TEXT: text} for text, each in zip(texts, given, strict=True)]


def split_metadata(metadata: Mapping[str, Any] | None, field: str) -> tuple[str, dict[str, Any]]:
    """Return the text of an item, empty if it has none, and the rest of its metadata.

    Examples
    --------
    >>> split_metadata({"legs": 4, "_text": "a fox"}, TEXT)
    ('a fox', {'legs': 4})
    """
    rest = dict(metadata or {})
    return str(rest.pop(field, "")), rest


def relevance(measure: str, n_bits: int) -> Callable[[float], float]:
    """Return what turns a distance of a measure into a score from 1 (equal) to 0.

    Of inner products, which have no largest value, it is the logistic function.

    Examples
    --------
    >>> relevance("hamming", 32)(8.0), relevance("cosine", 32)(0.25), relevance("euclidean", 32)(3.0)
    (0.75, 0.75, 0.25)
    """
    if measure == "hamming":
        return lambda distance: 1.0 - distance / n_bits
    if measure == "cosine":
        return lambda distance: max(0.0, 1.0 - distance)
    if measure == "ip":
        return lambda distance: 1.0 / (1.0 + math.exp(min(distance, 700.0)))
    return lambda distance: 1.0 / (1.0 + max(0.0, distance))
