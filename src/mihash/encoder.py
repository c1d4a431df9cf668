"""What triggers and drift watches take: any callable that makes codes, and any statement of who is a neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .codes import pack
from .errors import InvalidInput
from .mapping import HashMapping
from .neighbors import Neighborhood, WithinDistance, label_neighborhood, within_fraction

Encoder = HashMapping | Callable[[NDArray[np.float32]], ArrayLike]


def codes_of(encoder: Encoder, X: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the packed codes that a mapping, or any callable, makes of vectors.

    Examples
    --------
    >>> codes_of(lambda X: X > 0, np.array([[1.0, -1.0, 2.0]], dtype=np.float32))
    array([[5]], dtype=uint8)
    """
    if isinstance(encoder, HashMapping):
        return encoder.encode(X)
    if not callable(encoder):
        raise InvalidInput(f"A mapping must be a hash mapping or a callable X -> codes; got {encoder!r}.")
    codes = np.asarray(encoder(X))
    codes = validation.packed("codes", codes) if codes.dtype == np.uint8 else pack(codes)
    if len(codes) != len(X):
        raise InvalidInput(f"A mapping must return one code for each of {len(X)} rows; got {len(codes)}.")
    return codes


def neighbors_within(
    neighbors: ArrayLike | Neighborhood | None, X: NDArray[np.float32], y: ArrayLike | None
) -> NDArray[Any]:
    """Return class labels (n,) or a neighbour matrix (n, n): what `quality` takes."""
    labels = None if y is None else validation.labels("y", y, len(X), names=True)
    if neighbors is None and labels is not None and labels.ndim == 1:
        return labels
    if neighbors is None and len(X) < 2:
        return np.zeros((len(X), len(X)), dtype=np.bool_)
    rule: Any = neighbors
    if rule is None:
        rule = within_fraction(X) if labels is None else label_neighborhood(labels)
    elif np.isscalar(rule):
        rule = WithinDistance(validation.number("neighbors", rule, minimum=0))
    if hasattr(rule, "between"):
        matrix: NDArray[np.bool_] = rule.between(X, labels, X, labels)
        return matrix
    return validation.boolean_matrix("neighbors", rule, (len(X), len(X)))
