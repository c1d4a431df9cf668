"""Bodies of requests: read as they come, never more than is allowed, and turned into vectors.

JSON, an ``.npy`` file (application/x-npy), or plain little-endian float32 numbers (application/octet-stream).
"""

import asyncio
import io
import threading
import warnings
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from .. import validation
from .limits import Limits
from .problems import Problem, busy

JSON, NPY, FLOATS = "application/json", "application/x-npy", "application/octet-stream"


_LISTS = 100_000
_LISTS_OF_A_ROW = 4  # a vector, a label, metadata, and one within


def media_type(request: Request) -> str:
    """Return the type of a body that is taken, or refuse it."""
    given = request.headers.get("content-type", "")
    found = given.partition(";")[0].strip().lower()
    if found not in (JSON, NPY, FLOATS):
        raise Problem(
            415,
            "unsupported_type",
            f"The Content-Type must be {JSON}, {NPY} or {FLOATS}; got {given or 'none'!r:.80}.",
        )
    return found


class Body:
    """The body of a request; it is held until the request and everything that works on it have ended."""

    def __init__(self, bodies: "Bodies") -> None:
        self._bodies, self._n_users = bodies, 1
        self.data, self.n_bytes = b"", 0

    def grow(self, n: int) -> None:
        """Hold more bytes."""
        self.n_bytes += n
        self._bodies.hold(n)

    def needed_until(self, future: "Future[Any]") -> None:
        """Hold it until a job has ended, whoever still waits for that."""
        self._bodies.count(self, 1)
        future.add_done_callback(lambda _: self._bodies.count(self, -1))

    def used(self, by: int) -> bool:
        """Count who needs it; tell whether nobody does any more."""
        self._n_users += by
        return self._n_users == 0


class Bodies:
    """Reads bodies, and knows how much of them is held.

    Parameters
    ----------
    limits
        How large a body may be, how many are held, and how long one may take.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()  # jobs end in threads
        self.held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[Body]:
        """Give the body of a request; it is held until the end, and until the jobs that need it have ended."""
        body = Body(self)
        try:
            body.data = await self._collected(request, body)
            yield body
        finally:
            self.count(body, -1)

    def hold(self, n: int) -> None:
        """Hold more bytes."""
        with self._lock:
            self.held += n

    def count(self, body: Body, by: int) -> None:
        """Count who needs a body, and let it go when nobody does."""
        with self._lock:
            if body.used(by):
                self.held -= body.n_bytes

    async def _collected(self, request: Request, body: Body) -> bytes:
        limits, parts = self._limits, []
        most = min(limits.max_json, limits.max_body) if media_type(request) == JSON else limits.max_body
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > most:
            raise self._too_large(most)
        try:
            async with asyncio.timeout(limits.body_s):
                async for part in request.stream():
                    body.grow(len(part))
                    if body.n_bytes > most:
                        raise self._too_large(most)
                    if self.held > limits.bodies * limits.max_body:
                        raise busy("Too many large requests at a time; nothing was done with this one.")
                    parts.append(part)
        except TimeoutError:
            message = f"The body was not there after {limits.body_s:g} s; nothing was done with it."
            raise Problem(408, "timeout", message, {"Connection": "close"}) from None
        data = b"".join(parts)
        if media_type(request) == JSON:
            self._check_lists(data)
        return data

    def _check_lists(self, data: bytes) -> None:
        """Refuse JSON of so many lists that all of Python stands still while it is read: there is one lock."""
        most = max(_LISTS, _LISTS_OF_A_ROW * self._limits.rows)
        if data.count(b"[") + data.count(b"{") > most:
            message = f"A body of JSON may hold at most {most:,} lists and objects; send the rows in parts."
            raise Problem(413, "too_large", message)

    def _too_large(self, most: int) -> Problem:
        message = f"A body must be at most {most:,} bytes; send the rows in parts."
        if most < self._limits.max_body:
            message = (
                f"A body of JSON must be at most {most:,} bytes; send the rows in parts, or up to "
                f"{self._limits.max_body:,} bytes as {NPY}."
            )
        return Problem(413, "too_large", message)


def read_floats(body: bytes, n_features: int | None) -> NDArray[np.float32]:
    """Return vectors from little-endian float32 numbers, row after row.

    Examples
    --------
    >>> read_floats(np.array([1, 2, 3, 4], "<f4").tobytes(), n_features=2)
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if n_features is None:
        raise Problem(422, "invalid_input", f"Of {FLOATS} the width must be said: ?features=128.")
    if len(body) % (4 * n_features) or not body:
        raise Problem(
            400,
            "invalid_input",
            f"{len(body)} bytes are no rows of {n_features} float32 numbers, {4 * n_features} bytes each.",
        )
    return validation.features("vectors", np.frombuffer(body, "<f4").reshape(-1, n_features))


def read_npy(body: bytes) -> NDArray[np.float32]:
    """Return vectors from an ``.npy`` file of numbers (n, d).

    Examples
    --------
    >>> file = io.BytesIO()
    >>> np.save(file, np.eye(2))
    >>> read_npy(file.getvalue())
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    file = io.BytesIO(body)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files that Python 2 wrote
            shape, is_fortran, dtype = _npy_header(file)
    except Exception as error:  # NumPy's parser gives what it stumbled over: a dozen kinds
        message = "The body is not an .npy file: its head cannot be read. Write it with numpy.save."
        raise Problem(400, "invalid_input", message) from error
    rest = body[file.tell() :]
    # The header is not believed: what it announces must be there.
    if dtype.hasobject or dtype.kind not in "fiub" or len(shape) != 2:
        raise Problem(422, "invalid_input", f"The array must be numbers (n, d); got {dtype} of shape {shape}.")
    if not all(0 < side <= len(rest) for side in shape) or shape[0] * shape[1] * dtype.itemsize != len(rest):
        if 0 in shape:
            raise Problem(422, "invalid_input", f"`vectors` must not be empty; got shape {shape!s:.80}.")
        raise Problem(
            400, "invalid_input", f"The .npy file says {dtype} of shape {shape}; it has {len(rest)} bytes."
        )
    values: NDArray[Any] = np.frombuffer(rest, dtype).reshape(shape, order="F" if is_fortran else "C")
    return validation.features("vectors", values)


def _npy_header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"format {version} is not read here; write it with numpy.save")
    shape, is_fortran, dtype = read(file)
    if any(side < 0 for side in shape):
        raise ValueError(f"shape {shape}")
    return shape, is_fortran, dtype
