"""NumPy's files: one array (``.npy``), or several by name in an archive (``.npz``), as streams of rows.

A compressed archive is read as it is unpacked, in pieces of bounded size, whatever it expands to. Only an array in
Fortran order is held as a whole, since its rows lie scattered; in a ``.npy`` file it is mapped instead. How many
bytes such an array may take, or one row, is limited.
"""

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput, UnknownName
from .layout import Columns, Kind, Layout, lay_out
from .row_chunks import ColumnSource, Rows, Source, chunk_rows

_DAMAGE = (ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError)
_NUMBERS = "fiub"  # kinds of dtypes
_MAGIC = b"\x93NUMPY"
_CHUNK_BYTES = 1 << 26
_PIECE_BYTES = 1 << 20
HELD_BYTES = 256_000_000

Opener = Callable[[], AbstractContextManager[IO[bytes]]]


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def kind(self) -> Kind:
        if self.dtype.kind in _NUMBERS and len(self.shape) in (1, 2):
            return "number" if len(self.shape) == 1 else "list"
        return "other"

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])


class _Array:
    """One array, read from its first row on; it holds at most ``held_bytes`` at once."""

    def __init__(self, file: str, name: str, stream: IO[bytes], held_bytes: int, limit: str) -> None:
        self.file, self._name, self._stream, self._limit = file, name, stream, limit
        self.header = _read_header(file, stream)
        shape, fortran, dtype = self.header
        self._row_bytes = self.header.row_bytes
        self._whole: NDArray[Any] | None = None
        self._at = 0
        if self._row_bytes > held_bytes:
            raise self._too_large("one row of", self._row_bytes, held_bytes, "Make its rows shorter")
        if fortran and len(shape) > 1:
            if hasattr(stream, "mode") and not isinstance(stream, zipfile.ZipExtFile):
                self._whole = np.memmap(stream, dtype, "r", stream.tell(), shape, "F")
            else:
                self._whole = self._unpacked(held_bytes)

    def _unpacked(self, held_bytes: int) -> NDArray[Any]:
        """Return an array in Fortran order as a whole."""
        shape, _, dtype = self.header
        n_bytes = shape[0] * self._row_bytes
        if n_bytes > held_bytes:
            remedy = "Save it in C order (np.ascontiguousarray) or as a .npy file"
            raise self._too_large("because it is in Fortran order,", n_bytes, held_bytes, remedy)
        whole = np.empty(n_bytes, dtype=np.uint8)
        for at in range(0, n_bytes, _PIECE_BYTES):
            piece = self._stream.read(min(_PIECE_BYTES, n_bytes - at))
            whole[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            if len(piece) < min(_PIECE_BYTES, n_bytes - at):
                raise InvalidInput(f"{self.file} is cut short. Copy or make it again.")
        return whole.view(dtype).reshape(shape, order="F")

    def _too_large(self, what: str, n_bytes: int, held_bytes: int, remedy: str) -> InvalidInput:
        return InvalidInput(
            f"{self.file}: {what} the array {self._name!r} takes {_megabytes(n_bytes)} at once, and the limit is "
            f"{_megabytes(held_bytes)}. {remedy}, or raise the limit ({self._limit})."
        )

    def skip(self, n: int) -> None:
        self._at += n
        if self._whole is None:
            self._stream.seek(n * self._row_bytes, 1)

    def read(self, n: int) -> NDArray[Any]:
        """Return the next ``n`` rows; the caller has checked that they exist."""
        first, self._at = self._at, self._at + n
        if self._whole is not None:
            return self._whole[first : self._at]
        raw = self._stream.read(n * self._row_bytes)
        if len(raw) < n * self._row_bytes:
            raise InvalidInput(
                f"{self.file} is cut short: it ends in row {first + len(raw) // max(1, self._row_bytes)} of "
                f"{self.header.shape[0]}. Copy or make it again."
            )
        return np.frombuffer(raw, self.header.dtype).reshape(n, *self.header.shape[1:])


class ArraySource(ColumnSource):
    """Rows of one array, with keys, labels and metadata from others beside it.

    Parameters
    ----------
    name
        The name of the file in messages.
    arrays
        How each array is opened.
    wanted
        The arrays that the user names.
    held_bytes
        How many bytes one row may take, or an array whose rows cannot be read one after the other.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez_compressed(f"{folder}/mine.npz", X=np.eye(3), id=["a", "b", "c"])
    ...     rows, = open_npz(Path(folder, "mine.npz"), Columns()).rows(1)
    >>> rows.first, rows.X.tolist(), rows.keys
    (1, [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], ['b', 'c'])
    """

    def __init__(
        self, name: str, arrays: Mapping[str, Opener], wanted: Columns, held_bytes: int = HELD_BYTES
    ) -> None:
        self.name = name
        self._arrays, self._held_bytes = arrays, held_bytes
        headers = {}
        for each, opened in arrays.items():
            with _damage_reported(name), opened() as stream:
                headers[each] = _read_header(name, stream)
        self._set_layout(lay_out(name, {each: header.kind for each, header in headers.items()}, wanted), wanted)
        self.n_rows = _common_length(name, self._layout, headers)
        shape = headers[self._layout.vector[0]].shape
        self._width = shape[1] if self._layout.whole else len(self._layout.vector)
        row_bytes = sum(headers[each].row_bytes for each in self._layout.used)
        self._chunk_rows = max(1, min(chunk_rows(self._width), _CHUNK_BYTES // max(1, row_bytes)))
        if not self.n_rows or not self._width:
            raise InvalidInput(f"{name} is empty: its vectors have the shape {shape}. Give a file with vectors.")

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop``, in chunks."""
        stop = self.n_rows if stop is None else min(stop, self.n_rows)
        size, limit = self._chunk_rows, self._wanted.option("held_bytes")
        with _damage_reported(self.name), ExitStack() as stack:
            arrays = {
                name: _Array(self.name, name, stack.enter_context(self._arrays[name]()), self._held_bytes, limit)
                for name in self._layout.used
            }
            for array in arrays.values():
                array.skip(start)
            for first in range(start, stop, size):
                n = min(size, stop - first)
                yield self._rows(first, {name: array.read(n) for name, array in arrays.items()})

    def _rows(self, first: int, found: Mapping[str, NDArray[Any]]) -> Rows:
        parts = [found[name] for name in self._layout.vector]
        X = parts[0] if self._layout.whole else np.column_stack(parts)
        return self._assembled(first, X, lambda name: _values(found[name]))


def open_npy(path: Path, wanted: Columns, held_bytes: int = HELD_BYTES) -> Source:
    """Open an array; keys, labels and metadata are named by the paths of further ``.npy`` files."""
    arrays: dict[str, Opener] = {path.stem: lambda: path.open("rb")}
    others = [wanted.label, *wanted.metadata, None if wanted.key == "none" else wanted.key]
    arrays |= {str(other): _other(path, str(other)) for other in others if other is not None}
    if wanted.vector is not None:
        raise InvalidInput(f"{path} is one array, which is the vector: leave {wanted.option('vector')} out.")
    with path.open("rb") as stream:
        _check_matrix(_read_header(str(path), stream), str(path))
    named = replace(wanted, vector=path.stem, key=wanted.key or "none")
    return ArraySource(str(path), arrays, named, held_bytes)


def _check_matrix(header: _Header, file: str) -> None:
    if header.dtype.kind not in _NUMBERS:
        raise InvalidInput(
            f"{file} holds {header.dtype}, where real numbers should be. Save the vectors as float32."
        )
    if len(header.shape) != 2:
        raise InvalidInput(
            f"{file} has the shape {header.shape}; vectors are the rows of an array of two dimensions. Reshape "
            "it: (1, d) is one vector, (n, 1) are n vectors of one number."
        )


def open_npz(path: Path, wanted: Columns, held_bytes: int = HELD_BYTES) -> Source:
    """Open an archive of arrays."""
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path} is not a .npz archive, or is cut short. Copy or make it again.")
    with _damage_reported(str(path)), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.namelist() if member.endswith(".npy")]
    arrays: dict[str, Opener] = {member[:-4]: partial(_member, path, member) for member in members}
    return ArraySource(str(path), arrays, wanted, held_bytes)


@contextmanager
def _member(path: Path, member: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        yield stream


def _other(path: Path, name: str) -> Opener:
    file = Path(name)
    if file.suffix.lower() != ".npy" or not file.is_file():
        raise UnknownName(
            f"For a .npy file such as {path}, give keys, labels and metadata as paths of .npy files; got {name!r}."
        )
    return lambda: file.open("rb")


@contextmanager
def _damage_reported(file: str) -> Iterator[None]:
    """Raise `InvalidInput` for any error that shows that a file is damaged."""
    try:
        yield
    except (InvalidInput, UnknownName, FileNotFoundError):
        raise
    except _DAMAGE as error:
        raise InvalidInput(f"{file} is damaged or cut short ({error}). Copy or make it again.") from error


def _read_header(file: str, stream: IO[bytes]) -> _Header:
    with _damage_reported(file):
        head = stream.read(len(_MAGIC) + 2)
        if not head.startswith(_MAGIC):
            raise InvalidInput(f"{file} is not a NumPy file: it begins with other bytes. Make it again.")
        read = np.lib.format.read_array_header_1_0 if head[6] == 1 else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise InvalidInput(
            f"{file} holds pickled Python objects, which could run code and are never loaded. Save its numbers as "
            "plain arrays."
        )
    return _Header(shape, fortran, dtype)


def _common_length(file: str, layout: Layout, headers: Mapping[str, _Header]) -> int:
    for name in layout.used:
        if not headers[name].shape:
            raise InvalidInput(f"{file}: the array {name!r} is a single value, not one for each row.")
    (first, *others) = layout.used
    n = headers[first].shape[0]
    for name in others:
        if headers[name].shape[0] != n:
            raise InvalidInput(
                f"{file}: the array {first!r} has {n} rows and {name!r} has {headers[name].shape[0]}. "
                "They must have the same number of rows."
            )
    return n


def _values(array: NDArray[Any]) -> list[Any]:
    found: list[Any] = array.tolist()
    if array.dtype.kind == "S":
        return [each.decode(errors="replace") for each in found]
    if array.dtype.kind == "M":
        return [str(each) for each in array]
    return found


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
