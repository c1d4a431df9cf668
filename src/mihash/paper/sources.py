"""Which data sets experiments run on: the paper's three by name, or a file of the user's by its path."""

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import InvalidInput, StoreError
from ..io.readers import SUFFIXES
from .datasets import STAND_INS, has_labels
from .datasets.catalog import VARIABLE

DATASETS = ("cifar10", "places205", "labelme")
IMAGES = "cifar10"  # the one whose images are learned from
_WITHOUT_LABELS = ("labelme",)


@dataclass(frozen=True)
class Source:
    """A data set of an experiment.

    Attributes
    ----------
    name
        What its results are filed under: the paper's name, or a file's stem with a digest of its content, so that
        two files of one stem, or a file before and after a change, are two data sets.
    has_labels
        Whether it has labels; methods that need them are left out where it has none.
    file
        The file, or None for one of the paper's, of which the scale decides what stands for it.
    """

    name: str
    has_labels: bool
    file: Path | None = None

    def __str__(self) -> str:
        """Return what `find_source` finds it by."""
        return self.name if self.file is None else str(self.file)


def is_file(dataset: Any) -> bool:
    """Tell whether a data set is named by the path of a file, which its ending shows.

    Examples
    --------
    >>> is_file("cifar10"), is_file("data/mine.parquet")
    (False, True)
    """
    return isinstance(dataset, str) and Path(dataset).suffix.lower() in SUFFIXES


def check_dataset(dataset: Any) -> str:
    """Return what names a data set, a file's path unread; anything else is refused.

    Examples
    --------
    >>> check_dataset("mnist")
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `datasets` must be one of 'cifar10', 'places205', 'labelme', or the path of a file
    (.npy, .npz, ...); got 'mnist'.
    """
    if is_file(dataset) or (isinstance(dataset, str) and dataset in DATASETS):
        return str(dataset)
    known = ", ".join(repr(name) for name in DATASETS)
    raise InvalidInput(
        f"`datasets` must be one of {known}, or the path of a file ({', '.join(SUFFIXES)}); got {dataset!r}."
    )


def needs_folder(scale: str, data: Path | None) -> bool:
    """Tell whether the folder of features must be typed: at full scale, where the environment does not name it.

    Examples
    --------
    >>> needs_folder("smoke", None), needs_folder("full", Path("features"))
    (False, True)
    """
    return scale == "full" and (data is not None or not os.environ.get(VARIABLE))


def check_folder(source: Source, scale: str, data: Path | None) -> None:
    """Refuse a missing folder of features, or one without the file of a data set, before anything is run.

    Examples
    --------
    >>> check_folder(find_source("labelme"), "full", Path("nowhere"))
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `data` must be the folder that holds gist22k.npz; got 'nowhere'.
    """
    if source.file is not None or scale != "full":
        return
    place, file = data or os.environ.get(VARIABLE), STAND_INS[source.name]
    if not place:
        raise InvalidInput(
            f"The scale full needs the folder that holds {file}; give it as `data`, or set {VARIABLE}."
        )
    if not (Path(place) / file).is_file():
        raise InvalidInput(f"`data` must be the folder that holds {file}; got {str(place)!r}.")


def data_name(source: Source, scale: str) -> str:
    """Return what a result calls its data: what stands for a data set at a scale.

    Examples
    --------
    >>> [data_name(find_source("labelme"), scale) for scale in ("smoke", "small", "full")]
    ['labelme (digits)', 'labelme-like', 'gist22k']
    """
    if source.file is not None:
        return source.file.name
    names = {"small": f"{source.name}-like", "full": Path(STAND_INS[source.name]).stem}
    return names.get(scale, f"{source.name} (digits)")


def find_source(dataset: str) -> Source:
    """Return the data set of a name or path; a file is read for its digest, once as long as it does not change.

    Examples
    --------
    >>> find_source("labelme")
    Source(name='labelme', has_labels=False, file=None)
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/mine.npy", np.eye(4))
    ...     find_source(f"{folder}/mine.npy").name
    'mine-bd5e20'
    """
    if not is_file(check_dataset(dataset)):
        return Source(dataset, dataset not in _WITHOUT_LABELS)
    try:
        status = Path(dataset).stat()
    except OSError as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        raise StoreError(f"The data file {dataset!r} {why}; give the path of a file.") from error
    return _find_file(Path(dataset), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _find_file(file: Path, modified_ns: int, size: int) -> Source:  # noqa: ARG001 -- what tells that it changed
    known = has_labels(file)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=3)).hexdigest()
    return Source(f"{file.stem}-{digest}", known, file)
