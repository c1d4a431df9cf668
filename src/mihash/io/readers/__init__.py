"""Files of vectors, read in chunks from any row on: ``.npy``, ``.npz``, Parquet, CSV and JSON lines, or a stream.

This room knows nothing of an index. Memory stays flat whatever the size of the file, nothing in it is executed,
and whatever is wrong with it is an `InvalidInput` that names the file and the row, counted from 0.
"""

from .formats import FORMATS, open_source, open_stream
from .layout import Columns, Layout
from .row_chunks import Rows, Source

__all__ = ["FORMATS", "Columns", "Layout", "Rows", "Source", "open_source", "open_stream"]
