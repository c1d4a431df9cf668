"""Files that are written as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ...errors import StoreError
from ...state import sync_folder


@contextmanager
def put_in_place(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a temporary file to write to; it replaces ``path`` when it is complete and on the disk, or is removed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with put_in_place(f"{folder}/a.bin") as file:
    ...         n_bytes = file.write(b"abc")
    ...     Path(folder, "a.bin").read_bytes()
    b'abc'
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(f"Cannot write {target}: {error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
