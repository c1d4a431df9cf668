"""Compiled loops: the decorators that compile them, the population count, and one thread for BLAS.

A kernel is compiled at its first call and releases the interpreter lock. It is cached on disk if a folder for that
can be written; otherwise (a read-only install without a home) each process compiles it again.
"""

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numba
import scipy.linalg.cython_blas  # noqa: F401 -- now, because Python 3.14 fails if two threads load it at a time
from numba.core import types
from numba.extending import intrinsic
from threadpoolctl import ThreadpoolController

Kernel = Callable[..., Any]

# Found now, because the search calls Python from inside the dynamic linker: if another thread loaded a library
# meanwhile, both would wait for each other for ever.
_BLAS = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def jit(function: Kernel) -> Kernel:
    """Compile a loop over arrays at its first call, cached on disk if possible.

    ``error_model="numpy"`` lets divisions vectorise. Sums keep their written order unless a kernel says
    otherwise, so a result depends on its input alone.
    """
    return _compile(function, fastmath=False)


def jit_reordering(function: Kernel) -> Kernel:
    """Compile as `jit`, and allow sums to be re-ordered and contracted so that they vectorise.

    No assumption about NaN or infinity is made; the same input still gives the same output.
    """
    return _compile(function, fastmath={"reassoc", "contract", "nsz", "arcp"})


def _compile(function: Kernel, fastmath: Any) -> Kernel:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        kernel: Kernel = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # Numba found no folder that it may write its cache to
        kernel = numba.njit(cache=False, **options)(function)
    return kernel


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with``: small products are faster and their last bits repeatable.

    The last bits of products and eigenvectors depend on the number of threads, and learning would amplify that.
    Several threads may be inside at a time; the last one to leave restores the number from before. SciPy has its
    own BLAS, which is limited too.
    """
    me = threading.get_ident()
    with _OneThread.lock:
        if not _OneThread.depth[me]:
            for library in _BLAS:
                owner = me if _is_per_thread(library) else 0
                _OneThread.before.setdefault((library.filepath, owner), (library, library.num_threads))
                _setter(library)(1)
        _OneThread.depth[me] += 1
    try:
        yield
    finally:
        with _OneThread.lock:
            _OneThread.depth[me] -= 1
            if not _OneThread.depth[me]:
                del _OneThread.depth[me]
                _restore(me)


def _restore(me: int) -> None:
    """Give libraries the number of threads from before, as this thread leaves; the lock is held."""
    for (path, owner), (library, n_threads) in list(_OneThread.before.items()):
        if (owner or me) not in _OneThread.depth and (owner or not _OneThread.depth):
            _setter(library)(n_threads)
            del _OneThread.before[path, owner]


class _OneThread:
    lock = threading.Lock()
    depth: ClassVar[Counter[int]] = Counter()  # how many times each thread has entered
    before: ClassVar[dict[tuple[str, int], tuple[Any, int]]] = {}


def _is_per_thread(library: Any) -> bool:
    """Return whether each thread has its own number of threads, as with OpenMP, or all share one."""
    return getattr(library, "threading_layer", None) == "openmp"


def _setter(library: Any) -> Callable[[int], Any]:
    """Return the function that sets the number of threads from any thread; threadpoolctl 3.8 does so from one."""
    known = _SETTERS.get(library.filepath)
    if known is None:
        known = library.set_num_threads
        if library.internal_api == "openblas" and not _is_per_thread(library):
            handle = ctypes.CDLL(library.filepath)
            name = "openblas_set_num_threads"
            for symbol in (name, f"{name}64_", f"scipy_{name}", f"scipy_{name}64_"):
                known = getattr(handle, symbol, known)
        _SETTERS[library.filepath] = known
    return known


_SETTERS: dict[str, Callable[[int], Any]] = {}


def _popcount(typing_context: Any, word: Any) -> Any:  # noqa: ARG001 -- the signature is Numba's
    if not isinstance(word, types.Integer):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001 -- Numba gives four
        return builder.ctpop(arguments[0])

    return word(word), generate


popcount: Any = intrinsic(_popcount)
"""Count the ones in an unsigned integer, inside a kernel: one instruction, vectorised in a loop."""
