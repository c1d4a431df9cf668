"""Data sets from files: NumPy's ``.npz`` and ``.npy``, Parquet, and MATLAB's ``.mat`` as the authors publish them.

Nothing in a file is executed: arrays of Python objects (pickles) are refused. Half-precision features become
float32 before any arithmetic, since a float16 sum overflows.
"""

import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import CorruptStore, InvalidInput, StoreError, UnknownName
from ...io.readers.layout import FEATURE_NAMES, LABEL_NAMES
from .dataset import Dataset
from .mat import read_mat
from .parquet_dataset import parquet_has_labels, read_parquet

SUFFIXES = (".npz", ".npy", ".parquet", ".mat")

Arrays = tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]
_DAMAGE = (ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError)


def load(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
) -> Dataset:
    """Load a data set from a ``.npz``, ``.npy``, ``.parquet`` or ``.mat`` file; it is called by the file's name.

    Parameters
    ----------
    path
        The file. ``.npz`` holds ``features`` (or ``embedding``, ``embeddings``, ``vector``, ``emb``, ``X``), and
        where they are known ``labels`` (or ``label``, ``y``) and ``is_test``; ``.parquet`` has columns of those
        names, the features as lists, or else a column for each feature; ``.npy`` holds the features; ``.mat``
        holds whatever its maker called them.
    features
        The name of the features, if it is another. For a ``.parquet`` file it may be several numeric columns; for
        a ``.mat`` file several names, whose rows are put one below the other (``("trainCNN", "testCNN")``): None
        looks there for the one matrix, or the one pair of train and test matrices.
    labels
        The name (or, for ``.mat``, names) of the labels, if it is another; for a ``.npy`` file, the path of a
        second ``.npy`` file that holds them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", features=np.eye(4, dtype=np.float16), labels=[0, 0, 1, 1])
    ...     load(f"{folder}/mine.npz")
    Dataset('mine', 4 x 4, 2 classes)
    """
    file, suffix = _checked(path)
    if suffix == ".npy":
        X, y, is_test = _read_npy(file, features, labels)
    elif suffix == ".npz":
        X, y, is_test = _read_npz(file, features, labels)
    elif isinstance(labels, os.PathLike):
        raise InvalidInput(f"`labels` must name variables of the {suffix} file; got {labels!r}.")
    elif suffix == ".parquet":
        X, y, is_test = read_parquet(file, features, labels)
    else:
        X, y, is_test = read_mat(file, features, labels)
    matrix = validation.features(f"features in {file.name}", X)
    if y is not None:
        y = validation.labels(f"labels in {file.name}", y, len(matrix))
    return Dataset(file.stem, matrix, y, is_test)


def has_labels(path: str | os.PathLike[str]) -> bool:
    """Tell whether `load` finds labels in a file; only a ``.mat`` file is read for it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", features=np.eye(4))
    ...     has_labels(f"{folder}/mine.npz")
    False
    """
    file, suffix = _checked(path)
    if suffix == ".parquet":
        return parquet_has_labels(file)
    if suffix == ".npz":
        with _archive(file) as archive:
            return _first_of(LABEL_NAMES, archive.files) in archive.files
    return suffix == ".mat" and load(file).y is not None


def _checked(path: str | os.PathLike[str]) -> tuple[Path, str]:
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(f"`path` must end in {', '.join(SUFFIXES)}; got {str(file)!r}.")
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise StoreError(f"The data file {str(file)!r} {what}; give the path of a file.")
    return file, suffix


def _read_npz(file: Path, features: Any, labels: Any) -> Arrays:
    for option, value in (("features", features), ("labels", labels)):
        if not isinstance(value, str | None):
            raise InvalidInput(f"`{option}` must be the name of one array in a .npz file; got {value!r}.")
    with _archive(file) as archive:
        names = archive.files
        X = _entry(file, archive, names, features or _first_of(FEATURE_NAMES, names))
        y_name = labels or _first_of(LABEL_NAMES, names)
        y = _entry(file, archive, names, y_name) if labels or y_name in names else None
        is_test = _entry(file, archive, names, "is_test") if "is_test" in names else None
    return X, y, is_test


@contextmanager
def _archive(file: Path) -> Iterator[Any]:
    """Open a ``.npz`` file; whatever damage shows meanwhile is told as such."""
    if not zipfile.is_zipfile(file):
        raise CorruptStore(f"{str(file)!r} is not a .npz archive, or is cut short; copy or make it again.")
    try:
        with np.load(file, allow_pickle=False) as archive:
            yield archive
    except UnknownName:
        raise
    except _DAMAGE as error:
        raise _unreadable(file, error) from error


def _first_of(usual: Sequence[str], names: Sequence[str]) -> str:
    """Return the first usual name that is there, or the most usual one."""
    return next((name for name in usual if name in names), usual[0])


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
