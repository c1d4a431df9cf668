"""Files of vectors, read in chunks from any row on: NumPy, Parquet, CSV, JSON lines, MATLAB, or a stream.

This room knows nothing of an index. Memory stays flat whatever the size of the file, but for a ``.mat`` file,
which is held as a whole. Nothing in a file is executed. Whatever is wrong with one is an `InvalidInput` that names
the file and the row, counted from 0.
"""

from .formats import FORMATS, SUFFIXES, open_source, open_stream
from .layout import Columns, Layout
from .row_chunks import Rows, Source

__all__ = ["FORMATS", "SUFFIXES", "Columns", "Layout", "Rows", "Source", "open_source", "open_stream"]
