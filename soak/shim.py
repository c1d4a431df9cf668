"""The shim: a small C library that logs what a process does to the files of a folder, and makes calls fail.

It is compiled where there is a C compiler and the system has LD_PRELOAD. See shim.c.
"""

import ctypes
import errno
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CALLS", "Fault", "Record", "compiled", "environment", "is_loaded", "read_log", "unavailable"]

SOURCE = Path(__file__).with_name("shim.c")
CALLS = {"pwrite": b"w", "fsync": b"s", "ftruncate": b"t", "pread": b"r"}
_HEADER = struct.Struct("=IIqQ")


@dataclass(frozen=True)
class Record:
    """One call that succeeded.

    Attributes
    ----------
    kind
        ``"o"`` open, ``"w"`` write, ``"t"`` truncate, ``"s"`` fsync, ``"n"`` rename, ``"u"`` unlink or ``"m"``
        mkdir.
    handle
        Which open the file is from; 0 for a call on names.
    offset
        Of a write; the flags of an open, the length of a truncate.
    data
        The bytes of a write; the path of a call on names, two with a zero byte between for a rename.
    """

    kind: str
    handle: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Fault:
    """A call that is to fail.

    Attributes
    ----------
    call
        ``"pwrite"``, ``"fsync"``, ``"ftruncate"`` or ``"pread"``.
    after
        How many such calls succeed before.
    error
        ``"EIO"`` or ``"ENOSPC"``; empty for none.
    half
        Whether the first such call does half of what was asked, as a disk does that is just full.
    lasting
        Whether all further calls fail too.
    """

    call: str
    after: int
    error: str
    half: bool = False
    lasting: bool = False

    @property
    def kind(self) -> str:
        """The call and what is wrong with it."""
        return " ".join([self.call, *(["short"] if self.half else []), *([self.error] if self.error else [])])

    @property
    def spares_reads(self) -> bool:
        """Whether reading works meanwhile."""
        return self.call != "pread"

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.kind} at call {self.after + 1}{' and all later ones' if self.lasting else ''}"

    def begin(self) -> None:
        """Have calls of this process fail from now on."""
        error = getattr(errno, self.error) if self.error else 0
        call, after = ctypes.c_char(CALLS[self.call]), ctypes.c_long(self.after)
        _library().soak_arm(call, after, error, int(self.half), int(self.lasting))

    def is_met(self, _: Exception | None) -> bool:
        """Return whether a call has failed since."""
        return bool(_library().soak_fired())

    def end(self) -> None:
        """Let every call succeed again."""
        _library().soak_arm(ctypes.c_char(b"\0"), ctypes.c_long(0), 0, 0, 0)


def unavailable() -> str | None:
    """Return why there is no shim here, None where there is one."""
    if not sys.platform.startswith("linux"):
        return f"LD_PRELOAD is not used on {sys.platform}"
    if _compiler() is None:
        return "there is no C compiler (cc)"
    return None


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc"))


def compiled(folder: Path) -> Path:
    """Compile the shim into a folder."""
    library = folder / "shim.so"
    command = [_compiler() or "cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", library, SOURCE, "-lpthread"]
    subprocess.run(command, check=True)
    return library


def environment(library: Path, folder: Path, log: Path | None = None) -> dict[str, str]:
    """Return the environment of a process whose calls on the files below a folder are caught."""
    caught = {"LD_PRELOAD": str(library), "SOAK_FOLDER": str(folder.resolve())}
    if log is not None:
        caught["SOAK_LOG"] = str(log.resolve())
    return os.environ | caught


def read_log(log: Path) -> Iterator[Record]:
    """Yield the calls of a log in order."""
    with log.open("rb") as file:
        while header := file.read(_HEADER.size):
            kind, handle, offset, n = _HEADER.unpack(header)
            yield Record(chr(kind), handle, offset, file.read(n))


def is_loaded() -> bool:
    """Return whether the calls of this process are caught."""
    return hasattr(_library(), "soak_arm")


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)  # what is loaded before all others is found among the names of the process
