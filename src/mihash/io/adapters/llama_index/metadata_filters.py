"""Filters of LlamaIndex as filters of an index."""

from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from ....errors import InvalidInput

_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.ANY: "$in",
    FilterOperator.CONTAINS: "$contains",
    FilterOperator.TEXT_MATCH: "$contains",
}


def where_of(filters: MetadataFilters | None) -> dict[str, Any]:
    """Return a filter of LlamaIndex as a ``where`` of the index; None matches every item.

    Examples
    --------
    >>> where_of(MetadataFilters(filters=[MetadataFilter(key="year", value=2000, operator=">=")]))
    {'$and': [{'year': {'$gte': 2000}}]}
    """
    if filters is None or not filters.filters:
        return {}
    parts = [where_of(each) if isinstance(each, MetadataFilters) else _leaf(each) for each in filters.filters]
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$or" if filters.condition == FilterCondition.OR else "$and": parts}


def _leaf(leaf: MetadataFilter) -> dict[str, Any]:
    name = f"${leaf.key}" if leaf.key.startswith("$") else leaf.key
    if leaf.operator in _OPERATORS:
        return {name: {_OPERATORS[leaf.operator]: leaf.value}}
    if leaf.operator == FilterOperator.ALL:
        return {"$and": [{name: {"$contains": value}} for value in leaf.value]}
    if leaf.operator == FilterOperator.IS_EMPTY:
        return {name: None}
    raise InvalidInput(f"An index has no filter for the operator {leaf.operator.value!r} of {leaf.key!r}.")
