"""GIST (Oliva and Torralba, 2001): how much of each scale and orientation there is in each part of an image."""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import validation
from ...errors import InvalidInput

_EDGE, _MARGIN = 5, 32  # pixels that are mirrored at the border: before the local contrast, before the filters
_CYCLES = 4  # of the low-pass, in cycles per image
_LEAST_CONTRAST = 0.2


class Gist:
    """The GIST of grey images of one size.

    The logarithm of the image is divided by its local contrast. Gabor filters then take one scale and orientation
    each, and the absolute response is averaged over the fields of a grid.

    Parameters
    ----------
    size
        Of the images, in pixels: width and height.
    n_orientations
        For each scale, the finest first. Scale s has frequencies about 0.3 / 1.85^s cycles per pixel.
    n_fields
        The number of fields of the grid in each direction.

    Examples
    --------
    >>> stripes = np.tile(128 + 100 * np.sin(np.arange(64) * 2 * np.pi * 0.3), (64, 1))
    >>> gist = Gist(64)
    >>> found = gist.transform(stripes[None])
    >>> found.shape
    (1, 512)
    >>> [int(each) for each in np.unravel_index(found[0].argmax(), (4, 8, 16))][:2]  # the finest scale, upright
    [0, 0]
    """

    grey = True

    def __init__(self, size: int = 128, n_orientations: tuple[int, ...] = (8, 8, 8, 8), n_fields: int = 4) -> None:
        self.n_fields = validation.integer("n_fields", n_fields, minimum=1)
        self.size = validation.integer("size", size, minimum=self.n_fields)
        self.n_orientations = tuple(validation.integer("n_orientations", n, minimum=1) for n in n_orientations)
        self._low_pass = _low_pass(self.size + 2 * _EDGE)
        self._filters = _gabor_filters(self.size + 2 * _MARGIN, self.n_orientations)

    @property
    def n_features(self) -> int:
        """The length of a descriptor: filters times fields of the grid."""
        return len(self._filters) * self.n_fields**2

    def transform(self, images: ArrayLike) -> NDArray[np.float32]:
        """Return the descriptors of grey images (n, size, size) with values from 0 to 255, one a row."""
        checked = np.asarray(images, dtype=np.float64)
        if checked.ndim != 3 or checked.shape[1:] != (self.size, self.size):
            raise InvalidInput(f"`images` must be (n, {self.size}, {self.size}); got shape {checked.shape}.")
        if not np.isfinite(checked).all() or (checked < 0).any():
            raise InvalidInput("`images` must be finite and not negative.")
        return np.array([self._described(image) for image in checked], dtype=np.float32).reshape(
            len(checked), self.n_features
        )

    def _described(self, image: NDArray[np.float64]) -> NDArray[np.float64]:
        spectrum = np.fft.fft2(np.pad(self._contrast(image), _MARGIN, mode="symmetric"))
        inner = slice(_MARGIN, _MARGIN + self.size)
        edges = np.linspace(0, self.size, self.n_fields + 1).astype(int)
        fields = [slice(*pair) for pair in pairwise(edges)]
        found = []
        for gabor in self._filters:
            response = np.abs(np.fft.ifft2(spectrum * gabor))[inner, inner]
            found += [response[rows, columns].mean() for columns in fields for rows in fields]
        return np.array(found)

    def _contrast(self, image: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of an image without its slow changes, divided by its local contrast."""
        padded = np.pad(np.log1p(image), _EDGE, mode="symmetric")
        detail = padded - self._smoothed(padded)
        contrast = np.sqrt(np.abs(self._smoothed(detail**2)))
        inner = slice(_EDGE, _EDGE + self.size)
        return (detail / (_LEAST_CONTRAST + contrast))[inner, inner]

    def _smoothed(self, image: NDArray[np.float64]) -> NDArray[np.float64]:
        smoothed: NDArray[np.float64] = np.fft.ifft2(np.fft.fft2(image) * self._low_pass).real
        return smoothed


def _frequencies(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the frequencies of a Fourier transform of n x n pixels in cycles per image: along x, and along y."""
    whole: NDArray[np.float64] = np.fft.fftfreq(n, 1 / n).astype(np.float64)
    return whole[None, :], whole[:, None]


def _low_pass(n: int) -> NDArray[np.float64]:
    """Return a Gaussian over frequencies that is 1/2 at `_CYCLES` cycles per image."""
    x, y = _frequencies(n)
    halved: NDArray[np.float64] = np.exp(-(x**2 + y**2) * np.log(2) / _CYCLES**2)
    return halved


def _gabor_filters(n: int, n_orientations: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """Return the transfer functions: Gaussians about one frequency and one direction each."""
    x, y = _frequencies(n)
    cycles, angle = np.hypot(x, y) / n, np.arctan2(y, x)
    made = []
    for scale, count in enumerate(n_orientations):
        radial = -3.5 * (cycles / (0.3 / 1.85**scale) - 1) ** 2
        for number in range(count):
            turned = (angle + np.pi * number / count + np.pi) % (2 * np.pi) - np.pi
            made.append(np.exp(radial - 2 * np.pi * (16 * count**2 / 32**2) * turned**2))
    return made
