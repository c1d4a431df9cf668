"""Data sets from files: NumPy's ``.npz`` and ``.npy``, and MATLAB's ``.mat`` as the authors publish them.

Nothing in a file is executed: arrays of Python objects (pickles) are refused. Half-precision features become
float32 before any arithmetic, since a float16 sum overflows.
"""

import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import CorruptStore, InvalidInput, StoreError, UnknownName
from .dataset import Dataset
from .mat import read_mat

__all__ = ["SUFFIXES", "load"]

SUFFIXES = (".npz", ".npy", ".mat")

Arrays = tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]
_DAMAGE = (ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError)


def load(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
) -> Dataset:
    """Load a data set from a ``.npz``, ``.npy`` or ``.mat`` file; it is called by the file's name.

    Parameters
    ----------
    path
        The file. ``.npz`` holds ``features``, and where they are known ``labels`` and ``is_test``; ``.npy``
        holds the features; ``.mat`` holds whatever its maker called them.
    features
        The name of the features in a ``.npz`` or ``.mat`` file, if it is another. For a ``.mat`` file it may
        be several names, whose rows are put one below the other (``("trainCNN", "testCNN")``); None looks for
        the one matrix, or the one pair of train and test matrices.
    labels
        The name (or names) of the labels, in the same manner; for a ``.npy`` file, the path of a second
        ``.npy`` file that holds them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", features=np.eye(4, dtype=np.float16), labels=[0, 0, 1, 1])
    ...     load(f"{folder}/mine.npz")
    Dataset('mine', 4 x 4, 2 classes)
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(f"`path` must end in {', '.join(SUFFIXES)}; got {str(file)!r}.")
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise StoreError(f"The data file {str(file)!r} {what}; give the path of a file.")
    if suffix == ".npy":
        X, y, is_test = _read_npy(file, features, labels)
    elif suffix == ".npz":
        X, y, is_test = _read_npz(file, features, labels)
    else:
        if isinstance(labels, os.PathLike):
            raise InvalidInput(f"`labels` must name variables of the .mat file; got {labels!r}.")
        X, y, is_test = read_mat(file, features, labels)
    matrix = validation.features(f"features in {file.name}", X)
    if y is not None:
        y = validation.labels(f"labels in {file.name}", y, len(matrix))
    return Dataset(file.stem, matrix, y, is_test)


def _read_npz(file: Path, features: Any, labels: Any) -> Arrays:
    for option, value in (("features", features), ("labels", labels)):
        if not isinstance(value, str | None):
            raise InvalidInput(f"`{option}` must be the name of one array in a .npz file; got {value!r}.")
    if not zipfile.is_zipfile(file):
        raise CorruptStore(f"{str(file)!r} is not a .npz archive, or is cut short; copy or make it again.")
    try:
        with np.load(file, allow_pickle=False) as archive:
            names = archive.files
            X = _entry(file, archive, names, features or "features")
            has_labels = labels is not None or "labels" in names
            y = _entry(file, archive, names, labels or "labels") if has_labels else None
            is_test = _entry(file, archive, names, "is_test") if "is_test" in names else None
    except UnknownName:
        raise
    except _DAMAGE as error:
        raise _unreadable(file, error) from error
    return X, y, is_test


def _entry(file: Path, archive: Any, names: list[str], name: str) -> NDArray[Any]:
    if name not in names:
        found = ", ".join(names) or "none"
        raise UnknownName(f"{str(file)!r} has no array {name!r}; its arrays: {found}. Name one of them.")
    array = archive[name]
    if not isinstance(array, np.ndarray):  # an archive member that is no .npy file comes as plain bytes
        raise ValueError(f"its member {name!r} is not an array")
    return array


def _read_npy(file: Path, features: Any, labels: Any) -> Arrays:
    if features is not None:
        raise InvalidInput(f"`features` names an array, and a .npy file has only one; got {features!r}.")
    if labels is None:
        return _one_array(file), None, None
    if not isinstance(labels, str | os.PathLike) or Path(labels).suffix.lower() != ".npy":
        raise InvalidInput(f"`labels` must be the path of a second .npy file; got {labels!r}.")
    if not Path(labels).is_file():
        raise StoreError(f"The file of labels {os.fspath(labels)!r} does not exist; give the path of a file.")
    return _one_array(file), _one_array(Path(labels)), None


def _one_array(file: Path) -> NDArray[Any]:
    with file.open("rb") as stream:
        if stream.read(6) != b"\x93NUMPY":
            raise CorruptStore(f"{str(file)!r} is not a .npy file: its first bytes are others. Make it again.")
    try:
        array: NDArray[Any] = np.load(file, allow_pickle=False)
    except _DAMAGE as error:
        raise _unreadable(file, error) from error
    return array


def _unreadable(file: Path, error: BaseException) -> StoreError:
    if "allow_pickle" in str(error):
        return StoreError(
            f"{str(file)!r} holds pickled Python objects, which could run code and are never loaded; "
            f"save its numbers as plain arrays."
        )
    return CorruptStore(f"{str(file)!r} is damaged or cut short ({error}); copy or make it again.")
