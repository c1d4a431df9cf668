"""Request bodies: received with limits on size and time, and parsed.

A body is JSON, an ``.npy`` file (application/x-npy), or little-endian float32 numbers (application/octet-stream).
Vectors become a float32 matrix here; the index checks their width and values.
"""

import asyncio
import io
import json
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect

from .. import validation
from .limits import Limits
from .problems import Problem, busy

Parsed = TypeVar("Parsed")

ANY = JSON, NPY, FLOATS = "application/json", "application/x-npy", "application/octet-stream"

_SMALL = 32_768  # bytes that are parsed in the event loop: a hundredth of a second at worst
_LISTS = 100_000
_LISTS_PER_ROW = 4  # a vector, a label, metadata, and one list in it


def media_type(request: Request, allowed: tuple[str, ...] = ANY) -> str:
    """Return the media type of a request's body; raise 415 where it is not allowed."""
    header = request.headers.get("content-type", "")
    found = header.partition(";")[0].strip().lower()
    if found not in allowed:
        wanted = " or ".join(filter(None, (", ".join(allowed[:-1]), allowed[-1])))
        message = f"The Content-Type must be {wanted}; got {header or 'none'!r:.80}."
        raise Problem(415, "unsupported_type", message)
    return found


class BodyReceiver:
    """Receives bodies, and limits how many bytes all requests together hold.

    Parameters
    ----------
    limits
        How large a body may be, how many of that size are held at a time, and how long one may take.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.n_bytes = 0
        """How many bytes the requests of now hold."""

    @asynccontextmanager
    async def receive(
        self, request: Request, parser: Callable[[bytes], Parsed], allowed: tuple[str, ...] = (JSON,)
    ) -> AsyncIterator[Parsed]:
        """Receive the body of a request and parse it; its bytes count until the block ends."""
        limits, parts, n_bytes = self._limits, [], 0
        is_json = media_type(request, allowed) == JSON
        most = min(limits.max_json, limits.max_body) if is_json else limits.max_body
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > most:
            raise self._too_large(most)
        try:
            try:
                async with asyncio.timeout(limits.body_s):
                    more = True
                    while more:
                        received = await request.receive()
                        if received["type"] == "http.disconnect":
                            raise ClientDisconnect
                        part, more = received.get("body", b""), received.get("more_body", False)
                        n_bytes += len(part)
                        self.n_bytes += len(part)
                        if n_bytes > most:
                            raise self._too_large(most)
                        if self.n_bytes > limits.bodies * limits.max_body:
                            raise busy("There are too many large requests at a time; this one was not processed.")
                        parts.append(part)
            except TimeoutError:
                message = f"The body did not arrive within {limits.body_s:g} s; it was not processed."
                raise Problem(408, "timeout", message, {"Connection": "close"}) from None
            data = b"".join(parts)
            if is_json:
                self._check_lists(data)
            # A large one is parsed in a thread, so that no other request waits for it.
            yield parser(data) if len(data) <= _SMALL else await asyncio.to_thread(parser, data)
        finally:
            self.n_bytes -= n_bytes

    def _check_lists(self, data: bytes) -> None:
        """Reject JSON with too many lists: parsing it would hold Python's global lock for long."""
        most = max(_LISTS, _LISTS_PER_ROW * self._limits.rows)
        if data.count(b"[") + data.count(b"{") > most:
            message = f"A JSON body may have at most {most:,} lists and objects; send the rows in parts."
            raise Problem(413, "too_large", message)

    def _too_large(self, most: int) -> Problem:
        message = f"A body must be at most {most:,} bytes; send the rows in parts."
        if most < self._limits.max_body:
            message = (
                f"A body of JSON must be at most {most:,} bytes; send the rows in parts, or up to "
                f"{self._limits.max_body:,} bytes as {NPY}."
            )
        return Problem(413, "too_large", message)


def vectors_of(rows: list[list[float]]) -> NDArray[np.float32]:
    """Return the vectors of a JSON body; raise if they have several widths, or do not fit into float32.

    Examples
    --------
    >>> vectors_of([[1.0, 2.0], [3.0, 4.0]])
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    try:
        with np.errstate(over="raise"):
            return np.array(rows, dtype=np.float32)
    except (ValueError, FloatingPointError):
        return validation.features("vectors", rows, check=False)  # which says what is wrong


def parse_filter(text: str) -> Any:
    """Return a filter of a query string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(422, "invalid_input", f"`where` must be JSON: {error!s:.200}.") from error


def parse_vectors(kind: str, body: bytes, n_features: int | None) -> NDArray[np.float32]:
    """Return the vectors of a body that is not JSON."""
    return parse_floats(body, n_features) if kind == FLOATS else parse_npy(body)


def parse_floats(body: bytes, n_features: int | None) -> NDArray[np.float32]:
    """Return vectors from little-endian float32 numbers, row after row.

    Examples
    --------
    >>> parse_floats(np.array([1, 2, 3, 4], "<f4").tobytes(), n_features=2)
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if n_features is None:
        raise Problem(422, "invalid_input", f"With {FLOATS} give the width of a row: ?features=128.")
    if len(body) % (4 * n_features) or not body:
        message = f"{len(body)} bytes are not rows of {n_features} float32 numbers, {4 * n_features} bytes each."
        raise Problem(400, "invalid_input", message)
    return np.frombuffer(body, "<f4").reshape(-1, n_features)


def parse_npy(body: bytes) -> NDArray[np.float32]:
    """Return vectors from an ``.npy`` file of numbers (n, d).

    Examples
    --------
    >>> file = io.BytesIO()
    >>> np.save(file, np.eye(2))
    >>> parse_npy(file.getvalue())
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    file = io.BytesIO(body)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that Python 2 wrote
            shape, is_fortran, dtype = _npy_header(file)
    except Exception as error:  # NumPy's parser raises a dozen types
        message = "The body is not an .npy file: its header cannot be read. Write it with numpy.save."
        raise Problem(400, "invalid_input", message) from error
    rest = body[file.tell() :]
    # The header is not trusted: the bytes that it announces must be there.
    if dtype.hasobject or dtype.kind not in "fiub" or len(shape) != 2:
        raise Problem(422, "invalid_input", f"The array must be numbers (n, d); got {dtype} of shape {shape}.")
    if 0 in shape:
        raise Problem(422, "invalid_input", f"`vectors` must not be empty; got shape {shape!s:.80}.")
    if max(shape) > len(rest) or shape[0] * shape[1] * dtype.itemsize != len(rest):
        message = f"The .npy header says {dtype} of shape {shape}, but {len(rest)} bytes follow it."
        raise Problem(400, "invalid_input", message)
    values: NDArray[Any] = np.frombuffer(rest, dtype).reshape(shape, order="F" if is_fortran else "C")
    return validation.features("vectors", values, check=False)


def _npy_header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, is_fortran, dtype = read(file)
    if any(side < 0 for side in shape):
        raise ValueError(f"shape {shape}")
    return shape, is_fortran, dtype
