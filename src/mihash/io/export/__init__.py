"""Codes, keys and the mapping, out to where they are used: Parquet, Arrow and FAISS (docs/export.md)."""

from .arrow import from_arrow, read_parquet, to_arrow, to_parquet
from .code_rows import Codes, Source, codes_of
from .faiss_index import to_faiss, write_faiss

__all__ = [
    "Codes",
    "Source",
    "codes_of",
    "from_arrow",
    "read_parquet",
    "to_arrow",
    "to_faiss",
    "to_parquet",
    "write_faiss",
]
