"""MATLAB files: the layout of v5 (through SciPy) and of v7.3 (HDF5, through h5py, arrays transposed).

The variables of the authors' files are found by themselves: ``trainCNN, testCNN, trainLabels, testLabels``
(CIFAR-10, VGG-16 fc7), ``pca_feats, labels`` (Places205) and ``gist`` (LabelMe).
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput, NotReady, UnknownName
from ...extras import load_extra
from .layout import IS_TEST, KEY_NAMES, NONE, Columns, Layout
from .row_chunks import ColumnSource, Rows, chunk_rows

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NUMERIC = (
    "double",
    "single",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_LABEL_WORDS = ("label", "gnd", "class", "target")

Shape = tuple[int, int]
Names = tuple[str, ...]
Reader = Callable[[str], NDArray[Any]]


class MatSource(ColumnSource):
    """Rows of a MATLAB file, which is held as a whole.

    Variables that are not named are guessed: the vectors are the one numeric matrix, or the one pair of matrices
    named alike but for "train" and "test", which are put one below the other; the labels are the vector of whole
    numbers (or the 0/1 matrix) with an entry for each row. If the labels fit the columns of the matrix instead, it
    is transposed. More than one possibility is an error that lists the variables.

    Parameters
    ----------
    path
        The file.
    wanted
        The variables that the user names.

    Examples
    --------
    >>> import tempfile
    >>> from scipy.io import savemat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "Places205.mat")
    ...     savemat(file, {"pca_feats": np.ones((5, 3)), "labels": np.arange(5)})
    ...     rows, = MatSource(file, Columns(dataset=True)).rows()
    >>> rows.X.shape, rows.y.tolist()
    ((5, 3), [0, 1, 2, 3, 4])
    """

    def __init__(self, path: Path, wanted: Columns) -> None:
        self.name = str(path)
        try:
            shapes, read = _open_hdf5(path) if _is_hdf5(path) else _open_v5(path)
            chooser = _Chooser(self.name, shapes, read, wanted)
            vector, self._X, labels, y, is_test = chooser.choose()
            self.n_rows = len(self._X)
            key = chooser.key(self.n_rows)
            others = [name for name in (key, *wanted.metadata) if name is not None]
            self._columns = {name: chooser.column(name, self.n_rows) for name in others}
        except (InvalidInput, UnknownName, NotReady):
            raise
        except Exception as error:  # the two readers raise errors of a dozen kinds on damaged bytes
            raise InvalidInput(f"{path} is damaged, cut short or not a MATLAB file ({error}).") from error
        label = flag = None
        if y is not None and (wanted.dataset or wanted.label is not None):
            label = " and ".join(labels)
            self._columns[label] = y
        if is_test is not None and wanted.dataset:
            flag = IS_TEST
            self._columns[flag] = is_test
        note = f"vector from {' and '.join(vector)} (guessed)" if wanted.vector is None and len(shapes) > 1 else ""
        self._set_layout(Layout(vector, True, key, label, wanted.metadata, note, flag), wanted)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop``, in chunks."""
        stop = self.n_rows if stop is None else min(stop, self.n_rows)
        size = chunk_rows(self._X.shape[1])
        for first in range(start, stop, size):
            part = slice(first, min(first + size, stop))
            values = {name: column[part].tolist() for name, column in self._columns.items()}
            yield self._assembled(first, self._X[part], values.__getitem__)


def _is_hdf5(file: Path) -> bool:
    with file.open("rb") as stream:
        head = stream.read(520)
    return head.startswith((_HDF5, b"MATLAB 7.3")) or head[512:] == _HDF5


def _open_v5(file: Path) -> tuple[dict[str, Shape], Reader]:
    from scipy.io import loadmat, whosmat

    kinds = whosmat(file)
    shapes = {name: shape for name, shape, kind in kinds if kind in _NUMERIC and _is_matrix(shape)}
    return shapes, lambda name: loadmat(file, variable_names=[name])[name]


def _open_hdf5(file: Path) -> tuple[dict[str, Shape], Reader]:
    reason = f"{file} is a MATLAB file of version 7.3 (HDF5); reading it needs h5py"
    h5py = load_extra("mat", reason, "h5py")
    with h5py.File(file, "r") as store:
        shapes = {
            name: (item.shape[1], item.shape[0])
            for name, item in store.items()
            if isinstance(item, h5py.Dataset)
            and item.dtype.kind in "fiub"
            and item.attrs.get("MATLAB_class", b"double") != b"char"
            and "MATLAB_empty" not in item.attrs
            and _is_matrix(item.shape)
        }

    def read(name: str) -> NDArray[Any]:
        with h5py.File(file, "r") as store:
            transposed: NDArray[Any] = store[name][()].T
        return transposed

    return shapes, read


def _is_matrix(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and min(shape) > 0


def _as_names(names: str | tuple[str, ...] | None, option: str) -> Names | None:
    if names is None:
        return None
    several = (names,) if isinstance(names, str) else names
    if not several or not all(isinstance(name, str) for name in several):
        raise InvalidInput(f"{option} must be names of variables; got {names!r}.")
    return several


class _Chooser:
    """Which variables of one file are its vectors and its labels."""

    def __init__(self, file: str, shapes: dict[str, Shape], read: Reader, wanted: Columns) -> None:
        self.file, self.shapes, self.wanted = file, shapes, wanted
        self.read = cache(read)

    def choose(self) -> tuple[Names, NDArray[Any], Names, NDArray[Any] | None, NDArray[np.bool_] | None]:
        """Return the variables of the vectors, the vectors, those of the labels, the labels, and the test rows."""
        features = _as_names(self.wanted.vector, self.wanted.option("vector"))
        labels = _as_names(self.wanted.label, self.wanted.option("label"))
        for name in (*(features or ()), *(labels or ())):
            self.known(name)
        if features is None:
            features = self.guess_features(labels)
        parts = [self.read(name) for name in features]
        names, classes, transposed = labels, None, False
        for flip in (False, True):
            counts = [part.shape[1] if flip else part.shape[0] for part in parts]
            names = self.guess_labels(features, counts) if labels is None else labels
            if names is not None:
                classes = self.read_labels(names, counts)
            if classes is not None:
                transposed = flip
                break
        if labels is not None and classes is None:
            raise self.refusal(f"labels {', '.join(labels)} fit neither the rows nor the columns of the features")
        if transposed:
            parts = [part.T for part in parts]
        if len({part.shape[1] for part in parts}) > 1:
            raise self.refusal(f"features {', '.join(features)} have different widths")
        if len(parts) == 1:
            return features, parts[0], names or (), classes, None
        is_test = np.concatenate([np.full(len(part), "test" in name.lower())
                                  for name, part in zip(features, parts, strict=True)])  # fmt: skip
        known = is_test if is_test.any() and not is_test.all() else None
        return features, np.concatenate(parts), names or (), classes, known

    def key(self, n: int) -> str | None:
        """Return the variable of the keys: the one that was named, or one that is called so."""
        if self.wanted.key is not None or self.wanted.dataset:
            return None if self.wanted.key == NONE else self.wanted.key
        return next((name for name in KEY_NAMES if sorted(self.shapes.get(name, ())) == [1, n]), None)

    def column(self, name: str, n: int) -> NDArray[Any]:
        """Return a variable that has one number for each row, whole ones as integers."""
        values = self.read(self.known(name)).ravel()
        if len(values) != n:
            raise self.refusal(f"the variable {name} has {len(values)} numbers for {n} rows")
        return values.astype(np.int64) if _is_whole(values) else values

    def known(self, name: str) -> str:
        if name not in self.shapes:
            raise UnknownName(f"{self.file} has no numeric matrix {name!r}; {self.listing()}.")
        return name

    def guess_features(self, labels: Names | None) -> Names:
        groups = [
            group for group in self.groups(labels or ()) if all(min(self.shapes[name]) > 1 for name in group)
        ]
        if len(groups) > 1:  # a 0/1 matrix beside the features is their labels
            groups = [group for group in groups if not all(_is_binary(self.read(name)) for name in group)]
        if len(groups) != 1:
            count = "no matrix" if not groups else f"{len(groups)} matrices"
            raise self.refusal(f"{count} could be the features")
        return groups[0]

    def guess_labels(self, features: Names, counts: list[int]) -> Names | None:
        groups = [
            group
            for group in self.groups(features)
            if len(group) in (1, len(features)) and self.read_labels(group, counts) is not None
        ]
        if len(groups) > 1:
            named = [group for group in groups if any(word in group[0].lower() for word in _LABEL_WORDS)]
            groups = named or groups
        if len(groups) > 1 and self.wanted.dataset:
            raise self.refusal(f"{len(groups)} variables could be the labels")
        return groups[0] if len(groups) == 1 else None

    def read_labels(self, names: Names, counts: list[int]) -> NDArray[Any] | None:
        """Return the labels (n,) or (n, classes) of all features, or None if the variables cannot be that."""
        wanted = counts if len(names) == len(counts) else [sum(counts)] if len(names) == 1 else None
        if wanted is None:
            return None
        parts = []
        for name, n in zip(names, wanted, strict=True):
            shape = self.shapes[name]
            if n not in shape or (min(shape) == 1 and max(shape) != n):
                return None
            part = self.read(name)
            if min(shape) == 1 and _is_whole(part):
                parts.append(part.ravel())
            elif min(shape) > 1 and _is_binary(part):
                parts.append(part if shape[0] == n else part.T)
            else:
                return None
        if len({part.shape[1:] for part in parts}) > 1:
            return None
        return np.concatenate(parts)

    def groups(self, without: Names) -> list[Names]:
        """Return the variables, joining those whose names differ only in "train" and "test"."""
        lower = {name.lower(): name for name in self.shapes}
        groups, taken = [], set(without)
        for name in self.shapes:
            partner = lower.get(name.lower().replace("train", "test"), name)
            if partner != name and name not in taken and partner not in taken:
                groups.append((name, partner))
                taken.update((name, partner))
        return [*groups, *((name,) for name in self.shapes if name not in taken)]

    def refusal(self, why: str) -> InvalidInput:
        options = f"{self.wanted.option('vector')} and {self.wanted.option('label')}"
        return InvalidInput(f"In {self.file} {why}; {self.listing()}. Name them with {options}.")

    def listing(self) -> str:
        found = ", ".join(f"{name} {rows}x{columns}" for name, (rows, columns) in self.shapes.items())
        return f"its numeric matrices: {found or 'none'}"


def _is_binary(values: NDArray[Any]) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _is_whole(values: NDArray[Any]) -> bool:
    return bool(np.isfinite(values).all() and (values == np.rint(values)).all())
