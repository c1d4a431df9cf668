"""Features of images into a file that `mihash add` and `mihash reproduce --dataset` read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import InvalidInput, UnknownName
from ...state import replacing
from .feature_cache import FeatureCache
from .gist import Gist
from .image_files import ImageSource, open_images
from .onnx_network import OnnxNetwork, as_network_input

MODELS = ("gist", "onnx", "torchvision:NAME", "timm:NAME")
_AT_ONCE = 32
_GIST_SIZE, _NETWORK_SIZE = 128, 224

Progress = Callable[[int, int], None]


class Extracted(NamedTuple):
    """Result: images with features, features of each, images found in the cache, files left out."""

    n_images: int
    n_features: int
    n_known: int
    left_out: tuple[str, ...]


class _Maker(Protocol):
    """What makes features of images of one size, which are grey or in colour."""

    size: int
    grey: bool

    def transform(self, images: NDArray[np.uint8]) -> NDArray[np.float32]: ...


def extract_features(
    images: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    model: str = "gist",
    weights: str | os.PathLike[str] | None = None,
    size: int | None = None,
    n_components: int | None = None,
    basis: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    skip_unreadable: bool = False,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 -- reports nothing
) -> Extracted:
    """Write the features of images as ``X``, with their names as ``key`` and, where there are, ``labels``.

    Parameters
    ----------
    images
        A folder of images, or a ``.npz`` archive with an array ``images``; see `open_images`.
    target
        The ``.npz`` file to write. It is written as a whole or not at all.
    model
        ``"gist"``; ``"onnx"``; ``"torchvision:NAME"`` or ``"timm:NAME"``: the input of the network's last linear
        layer. Nothing is downloaded.
    weights
        The file of the network, or of its weights.
    size
        Width and height of the images for the model, in pixels; 128 for GIST and 224 for networks by default.
    n_components
        The number of principal components to keep; None keeps all features.
    basis
        A file for the principal directions: written if it does not exist, else read, so that later images and
        queries get comparable vectors.
    cache
        A file in which features are kept by the content of their images, so that a second run computes only what
        is new; None keeps none.
    skip_unreadable
        Leave out files that cannot be read as images, and name them in the answer; else the first is an error.
    progress
        Told how many images are done, of how many.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32), dtype=np.uint8)
    ...     np.savez(f"{folder}/images.npz", images=pixels, labels=[0, 1, 0, 1])
    ...     made = extract_features(f"{folder}/images.npz", f"{folder}/gist.npz", size=32)
    ...     with np.load(f"{folder}/gist.npz") as found:
    ...         shapes = {name: found[name].shape for name in found}
    >>> made.n_images, shapes
    (4, {'X': (4, 512), 'key': (4,), 'labels': (4,)})
    """
    if Path(target).suffix != ".npz":
        raise InvalidInput(f"The file to write must end in .npz; got {target}.")
    if basis is not None and n_components is None:
        raise InvalidInput("`basis` holds principal components: set `n_components`, too.")
    if n_components is not None:
        n_components = validation.integer("n_components", n_components, minimum=1)
    source = open_images(images)
    maker, about = _maker(model, weights, size)
    with closing(FeatureCache(None if cache is None else Path(cache), about)) as known:
        run = _Run(source, maker, known, skip_unreadable, progress)
        X, kept = run.features()
    if n_components is not None:
        X = _projected(X, n_components, None if basis is None else Path(basis))
    arrays: dict[str, Any] = {"X": X, "key": np.array([source.names[place] for place in kept])}
    if source.labels is not None:
        arrays["labels"] = source.labels[kept]
    with replacing(target) as file:
        np.savez(file, **arrays)
    return Extracted(len(X), X.shape[1], run.n_known, tuple(run.left_out))


class _Run:
    """The features of all images, from the cache or made now."""

    def __init__(
        self, source: ImageSource, maker: _Maker, known: FeatureCache, skip_unreadable: bool, progress: Progress
    ) -> None:
        self._source, self._maker, self._known = source, maker, known
        self._skip_unreadable, self._progress = skip_unreadable, progress
        self.n_known = 0
        self.left_out: list[str] = []

    def features(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return a row for each image that can be read, and which images these are."""
        found: dict[int, NDArray[np.float32]] = {}
        n = len(self._source)
        for first in range(0, n, _AT_ONCE):
            found.update(self._some(range(first, min(first + _AT_ONCE, n))))
            self._progress(min(first + _AT_ONCE, n), n)
        if not found:
            raise InvalidInput("None of the files can be read as an image.")
        kept = sorted(found)
        return np.array([found[place] for place in kept]), np.array(kept)

    def _some(self, places: range) -> dict[int, NDArray[np.float32]]:
        digests = {place: self._source.digest(place) for place in places}
        stored = {place: self._known.find(digest) for place, digest in digests.items()}
        found = {place: row for place, row in stored.items() if row is not None}
        self.n_known += len(found)
        pixels = {
            place: read for place in places if place not in found and (read := self._read(place)) is not None
        }
        if pixels:
            rows = self._maker.transform(np.array(list(pixels.values())))
            self._known.store([digests[place] for place in pixels], rows)
            found.update(zip(pixels, rows, strict=True))
        return found

    def _read(self, place: int) -> NDArray[np.uint8] | None:
        try:
            return self._source.read(place, self._maker.size, self._maker.grey)
        except InvalidInput:
            if not self._skip_unreadable:
                raise
            self.left_out.append(self._source.names[place])
            return None


class _TorchMaker:
    grey = False

    def __init__(self, library: str, name: str, weights: Path, size: int) -> None:
        from ...deep.pretrained import PretrainedNetwork

        self.size, self._network = size, PretrainedNetwork(library, name, weights)

    def transform(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self._network.transform(as_network_input(images))


def _maker(model: str, weights: str | os.PathLike[str] | None, size: int | None) -> tuple[_Maker, str]:
    """Return what makes the features, and a description of it that changes with them."""
    if size is not None:
        size = validation.integer("size", size, minimum=4)
    library, _, name = model.partition(":")
    if model == "gist":
        if weights is not None:
            raise InvalidInput("GIST has no weights: leave out `weights`.")
        gist = Gist(size or _GIST_SIZE)
        return gist, f"gist {gist.size}"
    if model != "onnx" and (library not in ("torchvision", "timm") or not name):
        raise UnknownName(f"`model` must be one of {', '.join(MODELS)}; got {model!r}.")
    if weights is None:
        raise InvalidInput(f"{model} needs the file of its weights in `weights`: nothing is downloaded.")
    file = Path(weights)
    if not file.is_file():
        raise InvalidInput(f"There is no file {file}.")
    network: _Maker
    if model == "onnx":
        network = OnnxNetwork(file, size)
    else:
        network = _TorchMaker(library, name, file, size or _NETWORK_SIZE)
    return network, f"{model} {network.size} {hashlib.sha256(file.read_bytes()).hexdigest()}"


def _projected(X: NDArray[np.float32], n_components: int, basis: Path | None) -> NDArray[np.float32]:
    """Return the principal components of the rows, by the directions in a file where it is there."""
    if basis is not None and basis.exists():
        with np.load(basis, allow_pickle=False) as saved:
            mean, directions = saved["mean"], saved["directions"]
        if directions.shape != (X.shape[1], n_components):
            raise InvalidInput(
                f"{basis} holds {directions.shape[1]} directions of {directions.shape[0]} features; "
                f"this run needs {n_components} of {X.shape[1]}."
            )
    else:
        mean, directions = _principal_directions(X, n_components)
        if basis is not None:
            with replacing(basis) as file:
                np.savez(file, mean=mean, directions=directions)
    components: NDArray[np.float32] = ((X - mean) @ directions).astype(np.float32)
    return components


def _principal_directions(
    X: NDArray[np.float32], n_components: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the leading directions; the largest entry of each is positive."""
    if n_components > min(len(X) - 1, X.shape[1]):
        raise InvalidInput(
            f"{len(X)} images of {X.shape[1]} features have at most {min(len(X) - 1, X.shape[1])} principal "
            f"components; `n_components` is {n_components}."
        )
    mean = X.mean(axis=0, dtype=np.float64)
    _, _, rows = np.linalg.svd(X - mean, full_matrices=False)
    directions = rows[:n_components].T
    largest = np.abs(directions).argmax(axis=0)
    return mean, directions * np.sign(directions[largest, np.arange(n_components)])
