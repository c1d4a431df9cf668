"""Saved state: nested dictionaries of numbers, strings and arrays as bytes and atomic files, without pickle.

Layout: 8 bytes of magic (``mihash`` and a two-digit format number), the header's length (8 bytes, little
endian), the header (JSON, with the dtype, shape and offset of each array), the arrays as plain
little-endian buffers, and 32 bytes of BLAKE2b over all before them.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import validation
from .errors import CorruptStore, InvalidInput, StoreError, UnsupportedVersion

State = dict[str, Any]

MAGIC = b"mihash01"
_LENGTH_BYTES = 8
_DIGEST_BYTES = 32
_ARRAY = "__array__"


def dump(state: State) -> bytes:
    """Return ``state`` as bytes.

    >>> load(dump({"seen": 3, "W": np.eye(2)}))["W"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    buffers: list[bytes] = []
    try:
        header = json.dumps(_describe(state, buffers), sort_keys=True, allow_nan=True).encode()
    except RecursionError as error:
        raise InvalidInput("The state is nested too deeply to be saved. Use fewer levels.") from error
    body = b"".join([MAGIC, len(header).to_bytes(_LENGTH_BYTES, "little"), header, *buffers])
    return body + hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


def load(data: bytes) -> State:
    """Return the state that `dump` wrote; changed or missing bytes raise `CorruptStore`.

    >>> load(dump({"seen": 3})[:-1])
    Traceback (most recent call last):
    mihash.errors.CorruptStore: The saved state is damaged: its checksum is wrong or bytes are missing. ...
    """
    start = len(MAGIC) + _LENGTH_BYTES
    if data[:6] != MAGIC[:6]:
        raise CorruptStore("This is not a saved mihash state: the first bytes are not `mihash`.")
    if data[6 : len(MAGIC)] > MAGIC[6:]:
        raise UnsupportedVersion(
            f"The saved state has format {data[6:8].decode(errors='replace')}, this mihash reads up to "
            f"{MAGIC[6:].decode()}. Upgrade mihash."
        )
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if len(data) < start + _DIGEST_BYTES or hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise CorruptStore(
            "The saved state is damaged: its checksum is wrong or bytes are missing. Use an older copy."
        )
    end = start + int.from_bytes(body[len(MAGIC) : start], "little")
    try:
        state = _restore(json.loads(body[start:end]), memoryview(body)[end:])
    except RecursionError as error:
        raise CorruptStore("The saved state is nested too deeply: it was not written by mihash.") from error
    except (ValueError, TypeError, LookupError) as error:
        raise CorruptStore(f"The saved state is not as mihash writes it: {error}.") from error
    if not isinstance(state, dict):
        raise CorruptStore("The saved state is not as mihash writes it: it is not a dictionary.")
    return state


def write(path: str | os.PathLike[str], state: State) -> None:
    """Write ``state`` to a file so that a crash leaves the old file or the new one, never a part."""
    replace_file(validation.path("path", path), dump(state))


def replace_file(target: Path, data: bytes) -> None:
    """Replace the contents of a file atomically."""
    with replacing(target) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of another at the end: written beside it, fsynced, and renamed.

    After an error, or a crash, the old file is there as it was.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/a.bin") as file:
    ...         n_bytes = file.write(b"abc")
    ...     Path(folder, "a.bin").read_bytes()
    b'abc'
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(f"Cannot write {target}: {error}.") from error
    finally:
        with suppress(OSError):
            beside.unlink()


def read(path: str | os.PathLike[str]) -> State:
    """Return the state in a file that `write` wrote."""
    try:
        data = validation.path("path", path).read_bytes()
    except FileNotFoundError as error:
        raise StoreError(f"There is no file {path}.") from error
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error}.") from error
    try:
        return load(data)
    except (CorruptStore, UnsupportedVersion) as error:
        raise type(error)(f"{path}: {error}") from error


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and fsync the folders that hold them."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that the names in it survive a crash."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _describe(value: Any, buffers: list[bytes]) -> Any:
    if isinstance(value, dict):
        return {str(key): _describe(item, buffers) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
        offset = sum(map(len, buffers))
        buffers.append(little.tobytes())
        return {_ARRAY: [little.dtype.str, list(value.shape), offset]}
    if isinstance(value, list | tuple):
        return [_describe(item, buffers) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _restore(value: Any, buffers: memoryview) -> Any:
    if isinstance(value, list):
        return [_restore(item, buffers) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY not in value:
        return {key: _restore(item, buffers) for key, item in value.items()}
    kind, shape, offset = value[_ARRAY]
    dtype = np.dtype(kind)
    count = int(np.prod(shape, dtype=np.int64))
    array: NDArray[Any] = np.frombuffer(buffers, dtype=dtype, count=count, offset=offset).reshape(shape)
    return array.astype(dtype.newbyteorder("="))
