"""Which format a file has, and how it is opened."""

import os
from pathlib import Path
from typing import BinaryIO

from ... import validation
from ...errors import InvalidInput
from .layout import Columns
from .numpy_files import HELD_BYTES, open_npy, open_npz
from .row_chunks import Source

FORMATS = ("npy", "npz", "parquet", "csv", "jsonl", "mat")
SUFFIXES = {f".{name}": name for name in FORMATS} | {".pq": "parquet", ".tsv": "csv", ".ndjson": "jsonl"}
_STREAMED = ("csv", "jsonl")


def open_source(
    path: str | os.PathLike[str],
    columns: Columns | None = None,
    file_format: str | None = None,
    held_bytes: int = HELD_BYTES,
) -> Source:
    r"""Open a file of vectors.

    Parameters
    ----------
    path
        The file.
    columns
        Which columns hold what; by default that is guessed.
    file_format
        One of `FORMATS`; None goes by the name of the file.
    held_bytes
        Of ``.npy`` and ``.npz``: how many bytes one row may take, or an array of an archive in Fortran order,
        which can only be read as a whole. A small archive may expand to any size.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "mine.csv")
    ...     _ = file.write_text("id,x,y,z\n7,1,2,3\n8,4,5,6\n")
    ...     rows, = open_source(file, Columns(vector="x:z")).rows()
    >>> rows.X.tolist(), rows.keys
    ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [7, 8])
    """
    file, wanted = Path(path), columns or Columns()
    if not file.is_file():
        if file.exists() and not file.is_dir():
            raise InvalidInput(f"{file} is a pipe or a device, not a file; open it and use `open_stream`.")
        what = "is a folder" if file.is_dir() else "does not exist"
        raise InvalidInput(f"{file} {what}; give the path of a file of vectors.")
    name = SUFFIXES.get(file.suffix.lower()) if file_format is None else file_format
    if name is None:
        option = wanted.option("file_format")
        raise InvalidInput(f"{file} must end in {', '.join(SUFFIXES)}; or name its format with {option}.")
    validation.choice("format", name, FORMATS)
    validation.integer("held_bytes", held_bytes, minimum=1)
    try:
        return _opened(file, wanted, name, held_bytes)
    except PermissionError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error


def open_stream(stream: BinaryIO, columns: Columns | None = None, file_format: str | None = None) -> Source:
    """Open a stream of CSV or JSON lines, which can be read once."""
    wanted = columns or Columns()
    if file_format not in _STREAMED:
        given = "" if file_format is None else f"; got {file_format}"
        option = wanted.option("file_format")
        raise InvalidInput(f"A stream must be csv or jsonl: name its format with {option}{given}.")
    return _text("standard input", stream, wanted, file_format)


def _opened(file: Path, wanted: Columns, name: str, held_bytes: int) -> Source:
    if name in _STREAMED:
        return _text(str(file), file, wanted, name)
    if name == "parquet":
        from .parquet_files import ParquetSource

        return ParquetSource(file, wanted)
    if name == "mat":
        from .mat_files import MatSource

        return MatSource(file, wanted)
    return (open_npy if name == "npy" else open_npz)(file, wanted, held_bytes)


def _text(name: str, stream: Path | BinaryIO, wanted: Columns, text_format: str) -> Source:
    if text_format == "csv":
        from .csv_files import DelimitedSource

        return DelimitedSource(name, stream, wanted)
    from .json_lines import JSONLinesSource

    return JSONLinesSource(name, stream, wanted)
