"""Images of a folder, or of an archive of arrays: their names, labels and pixels, read one by one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...extras import load_extra
from ..readers.layout import LABEL_NAMES

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class ImageSource:
    """Images in a fixed order.

    Attributes
    ----------
    names
        The path of each inside the folder; of an archive, the numbers.
    labels
        The folder that an image of a folder lies in, or the labels of an archive; None if there are none.
    base
        The folder; None for an archive.
    arrays
        The pixels of an archive: (n, height, width) or (n, height, width, 3).
    """

    names: Sequence[str]
    labels: NDArray[Any] | None = None
    base: Path | None = None
    arrays: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def digest(self, place: int) -> bytes:
        """Return the SHA-256 of an image's file, or of its pixels."""
        if self.arrays is not None:
            image = np.ascontiguousarray(self.arrays[place])
            return hashlib.sha256(repr(image.shape).encode() + image.tobytes()).digest()
        assert self.base is not None
        return hashlib.sha256((self.base / self.names[place]).read_bytes()).digest()

    def read(self, place: int, size: int, grey: bool) -> NDArray[np.uint8]:
        """Return the middle square of an image as (size, size), or (size, size, 3) in colour."""
        image_module = load_extra("images", "Images are read with Pillow", "PIL.Image")
        if self.arrays is not None:
            opened = image_module.fromarray(self.arrays[place])
        else:
            assert self.base is not None
            file = self.base / self.names[place]
            try:
                with image_module.open(file) as source:
                    opened = source.convert("RGB")
            except (OSError, ValueError, image_module.DecompressionBombError) as error:
                raise InvalidInput(f"{file} cannot be read as an image: {error}") from error
        side = min(opened.size)
        left, top = ((length - side) // 2 for length in opened.size)
        square = opened.convert("L" if grey else "RGB").crop((left, top, left + side, top + side))
        return np.asarray(square.resize((size, size), image_module.Resampling.BICUBIC))


def open_images(path: str | os.PathLike[str]) -> ImageSource:
    """Return the images of a folder and of those in it, in the order of their names, or of a ``.npz`` archive.

    Where every image lies in a folder of the folder, the name of that one is its label. An archive has an array
    ``images`` of whole numbers from 0 to 255, and may have labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", images=np.zeros((2, 8, 8), np.uint8), labels=[3, 1])
    ...     found = open_images(f"{folder}/mine.npz")
    >>> found.names, found.labels.tolist(), found.read(0, 4, grey=False).shape
    (['0', '1'], [3, 1], (4, 4, 3))
    """
    base = Path(path)
    if base.is_dir():
        names = sorted(
            each.relative_to(base).as_posix()
            for each in base.rglob("*")
            if each.suffix.lower() in SUFFIXES and each.is_file() and not each.name.startswith(".")
        )
        if not names:
            raise InvalidInput(f"There are no images in {base} ({', '.join(SUFFIXES)}).")
        labelled = all("/" in name for name in names)
        return ImageSource(names, np.array([name.partition("/")[0] for name in names]) if labelled else None, base)
    if base.suffix != ".npz":
        raise InvalidInput(f"{base} is neither a folder of images nor a .npz archive with an array `images`.")
    try:
        with np.load(base, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive if name in ("images", *LABEL_NAMES)}
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{base} cannot be read: {error}") from error
    return _from_arrays(base, arrays)


def _from_arrays(file: Path, arrays: dict[str, NDArray[Any]]) -> ImageSource:
    images = arrays.pop("images", None)
    if images is None:
        raise InvalidInput(f"{file} has no array `images`.")
    is_grey, is_colour = images.ndim == 3, images.ndim == 4 and images.shape[-1] == 3
    if images.dtype != np.uint8 or not (is_grey or is_colour) or 0 in images.shape:
        raise InvalidInput(
            f"`images` of {file} must be uint8 of shape (n, height, width) or (n, height, width, 3); "
            f"got {images.dtype} of shape {images.shape}."
        )
    labels = next((arrays[name] for name in LABEL_NAMES if name in arrays), None)
    if labels is not None and len(labels) != len(images):
        raise InvalidInput(f"{file} has {len(images)} images and {len(labels)} labels.")
    return ImageSource([str(number) for number in range(len(images))], labels, None, images)
