"""Exact Hamming search over packed codes."""

from .columns import Bitmap, Columns, as_bitmap, as_codes, as_columns, as_mask, empty_columns
from .margin_sums import first_by, margin_sums, reach
from .multi_index import MultiIndex
from .scan import nearest, within
from .searcher import LONGEST_INDEXED, Method, Searcher, as_method

__all__ = [
    "LONGEST_INDEXED",
    "Bitmap",
    "Columns",
    "Method",
    "MultiIndex",
    "Searcher",
    "as_bitmap",
    "as_codes",
    "as_columns",
    "as_mask",
    "as_method",
    "empty_columns",
    "first_by",
    "margin_sums",
    "nearest",
    "reach",
    "within",
]
