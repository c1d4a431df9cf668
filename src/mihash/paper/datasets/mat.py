"""MATLAB files: the layout of v5 (through SciPy) and of v7.3 (HDF5, through h5py, arrays transposed).

The authors' files, whose names are found without being told: ``trainCNN, testCNN, trainLabels, testLabels``
(CIFAR-10, VGG-16 fc7), ``pca_feats, labels`` (Places205) and ``gist`` (LabelMe).
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, InvalidInput, NotReady, UnknownName

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


def read_mat(
    file: Path, features: str | Sequence[str] | None = None, labels: str | Sequence[str] | None = None
) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.bool_] | None]:
    """Return the features (n, d), the labels or None, and which rows are test rows or None.

    Names that are not given are guessed: the features are the one numeric matrix, or the one pair of matrices
    named alike but for "train" and "test", which are put one below the other; the labels are the vector of
    whole numbers (or the 0/1 matrix) with an entry for each row. If the labels fit the columns of the
    features instead, the features are transposed. More than one possibility is an error that
    lists the variables.

    Examples
    --------
    >>> import tempfile
    >>> from scipy.io import savemat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "Places205.mat")
    ...     savemat(file, {"pca_feats": np.ones((5, 3)), "labels": np.arange(5)})
    ...     X, y, is_test = read_mat(file)
    >>> X.shape, y.tolist()
    ((5, 3), [0, 1, 2, 3, 4])
    """
    try:
        shapes, read = _open_hdf5(file) if _is_hdf5(file) else _open_v5(file)
        return _Chooser(file, shapes, read).choose(_as_names(features), _as_names(labels))
    except (InvalidInput, UnknownName, NotReady):
        raise
    except Exception as error:  # the two readers raise errors of a dozen kinds on damaged bytes
        raise CorruptStore(f"{str(file)!r} is damaged, cut short or not a MATLAB file ({error}).") from error


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
    try:
        import h5py
    except ImportError:
        raise NotReady(
            f"{str(file)!r} is a MATLAB file of version 7.3 (HDF5); reading it needs h5py: "
            f"pip install 'mihash[mat]'."
        ) from None
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


def _as_names(names: str | Sequence[str] | None) -> Names | None:
    if names is None:
        return None
    several = (names,) if isinstance(names, str) else tuple(names)
    if not several or not all(isinstance(name, str) for name in several):
        raise InvalidInput(f"`features` and `labels` must be names of variables; got {names!r}.")
    return several


class _Chooser:
    """Which variables of one file are its features and its labels."""

    def __init__(self, file: Path, shapes: dict[str, Shape], read: Reader) -> None:
        self.file, self.shapes = file, shapes
        self.read = cache(read)

    def choose(
        self, features: Names | None, labels: Names | None
    ) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.bool_] | None]:
        for name in (*(features or ()), *(labels or ())):
            if name not in self.shapes:
                raise UnknownName(f"{str(self.file)!r} has no numeric matrix {name!r}; {self.listing()}.")
        if features is None:
            features = self.guess_features(labels)
        parts = [self.read(name) for name in features]
        classes = None
        transposed = False
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
            return parts[0], classes, None
        is_test = np.concatenate([np.full(len(part), "test" in name.lower())
                                  for name, part in zip(features, parts, strict=True)])  # fmt: skip
        return np.concatenate(parts), classes, is_test if is_test.any() and not is_test.all() else None

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
        if len(groups) > 1:
            raise self.refusal(f"{len(groups)} variables could be the labels")
        return groups[0] if groups else None

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
        """Return the variables, those that are named alike but for "train" and "test" as one."""
        lower = {name.lower(): name for name in self.shapes}
        groups, taken = [], set(without)
        for name in self.shapes:
            partner = lower.get(name.lower().replace("train", "test"), name)
            if partner != name and name not in taken and partner not in taken:
                groups.append((name, partner))
                taken.update((name, partner))
        return [*groups, *((name,) for name in self.shapes if name not in taken)]

    def refusal(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"In {str(self.file)!r} {why}; {self.listing()}. Name them with `features` and `labels`."
        )

    def listing(self) -> str:
        found = ", ".join(f"{name} {rows}x{columns}" for name, (rows, columns) in self.shapes.items())
        return f"its numeric matrices: {found or 'none'}"


def _is_binary(values: NDArray[Any]) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _is_whole(values: NDArray[Any]) -> bool:
    return bool(np.isfinite(values).all() and (values == np.rint(values)).all())
