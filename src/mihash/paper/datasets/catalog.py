"""Data sets by name: the shipped one, the real features in a folder, the generators, and a user's own file.

The folder of real features is given by the environment variable ``MIHASH_DATA``; nothing needs it but the
names that are in it.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ...errors import NotReady, StoreError, UnknownName
from ...io.readers import SUFFIXES
from .dataset import Dataset
from .dataset_files import load
from .generators import Synthetic, cifar10_like, labelme_like, places205_like

VARIABLE = "MIHASH_DATA"
STAND_INS = {
    "cifar10": "cifar10_vgg16.npz",
    "places205": "tinyimagenet_alexnet_pca128.npz",
    "labelme": "gist22k.npz",
}
_GENERATORS: dict[str, Callable[[], Synthetic]] = {
    "cifar10-like": cifar10_like,
    "places205-like": places205_like,
    "labelme-like": labelme_like,
}


def digits() -> Dataset:
    """Return scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, 10 classes.

    Examples
    --------
    >>> digits()
    Dataset('digits', 1797 x 64, 10 classes)
    """
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    return Dataset("digits", images, classes)


def dataset_names() -> list[str]:
    """Return the names that `open_dataset` knows.

    Examples
    --------
    >>> dataset_names()[:4]
    ['digits', 'cifar10', 'places205', 'labelme']
    """
    return ["digits", *STAND_INS, *_GENERATORS]


def open_dataset(name: str | os.PathLike[str], data: str | os.PathLike[str] | None = None) -> Dataset:
    """Return the data set of a name, or the one in a file.

    Parameters
    ----------
    name
        ``"digits"``; ``"cifar10"``, ``"places205"`` or ``"labelme"`` for the real features that stand in for
        the paper's (the data set is then called by its file, which says what it really is);
        ``"cifar10-like"``, ``"places205-like"`` or ``"labelme-like"`` for generated ones; or the path of a
        file of vectors (see `load`).
    data
        The folder of the real features; None takes it from the environment variable ``MIHASH_DATA``.

    Examples
    --------
    >>> open_dataset("digits").n_features
    64
    """
    path = Path(name)
    if path.suffix.lower() in SUFFIXES:
        return load(path)
    key = os.fspath(name)
    for known, file_name in STAND_INS.items():
        if key in (known, Path(file_name).stem):
            return load(_folder(key, file_name, data) / file_name)
    if key == "digits":
        return digits()
    if key in _GENERATORS:
        return _GENERATORS[key]().dataset()
    known_names = ", ".join(dataset_names())
    raise UnknownName(
        f"There is no data set {key!r}; known: {known_names}, or the path of a file ({', '.join(SUFFIXES)})."
    )


def _folder(name: str, file_name: str, data: str | os.PathLike[str] | None) -> Path:
    place = data if data is not None else os.environ.get(VARIABLE)
    if not place:
        raise NotReady(
            f"The data set {name!r} is the file {file_name}, and no folder was given for it. "
            f"Set {VARIABLE} to the folder that holds the file (export {VARIABLE}=/path/to/data), "
            f"or give it as `data`; 'digits' and the generated sets need none."
        )
    folder = Path(place)
    if not folder.is_dir():
        raise StoreError(f"The data folder must be a folder; got {str(folder)!r}. Correct `data` or {VARIABLE}.")
    if not (folder / file_name).is_file():
        raise StoreError(f"The data set {name!r} is the file {file_name}, which is not in {str(folder)!r}.")
    return folder
