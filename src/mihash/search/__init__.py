"""Exact Hamming search over packed codes."""

from .columns import Bitmap, Columns, as_bitmap, as_codes, as_columns, empty_columns
from .multi_index import MultiIndex
from .scan import nearest, within
from .searcher import Method, Searcher, as_method

__all__ = [
    "Bitmap",
    "Columns",
    "Method",
    "MultiIndex",
    "Searcher",
    "as_bitmap",
    "as_codes",
    "as_columns",
    "as_method",
    "empty_columns",
    "nearest",
    "within",
]
