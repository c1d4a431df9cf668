"""A network in an ONNX file as a maker of features."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...extras import load_extra

_USUAL_SIZE = 224
# Of ImageNet's colours, by which networks are trained.
_MEAN = np.array((0.485, 0.456, 0.406), dtype=np.float32)
_SPREAD = np.array((0.229, 0.224, 0.225), dtype=np.float32)


class OnnxNetwork:
    """The first output of a network, flattened.

    Parameters
    ----------
    file
        The network; its input is (n, 3, height, width).
    size
        Of the images; None takes what the file says, or 224.
    """

    grey = False

    def __init__(self, file: Path, size: int | None = None) -> None:
        runtime = load_extra("onnx", "ONNX files need onnxruntime", "onnxruntime")
        try:
            self._session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        except Exception as error:  # the library's own errors have no common type
            raise InvalidInput(f"{file} cannot be read as an ONNX network: {error}") from error
        (wanted, *_) = self._session.get_inputs()
        known = [length for length in wanted.shape[2:] if isinstance(length, int)]
        self.size = size if size is not None else known[0] if known else _USUAL_SIZE
        self._input = wanted.name

    def transform(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features of colour images (n, size, size, 3)."""
        try:
            outputs = self._session.run(None, {self._input: as_network_input(images)})
        except Exception as error:
            raise InvalidInput(f"The network does not take images of {self.size} pixels: {error}") from error
        return np.asarray(outputs[0], dtype=np.float32).reshape(len(images), -1)


def as_network_input(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return colour images as networks take them: (n, 3, size, size), scaled by ImageNet's colours.

    Examples
    --------
    >>> as_network_input(np.full((1, 2, 2, 3), 255, np.uint8)).round(2)[0, :, 0, 0]
    array([2.25, 2.43, 2.64], dtype=float32)
    """
    scaled = (images.astype(np.float32) / 255 - _MEAN) / _SPREAD
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))
