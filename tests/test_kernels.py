"""BLAS is held to one thread; in processes of their own, since whoever has set it first may alone set it again."""

import subprocess
import sys

import pytest

START = """
import threading
import numpy, threadpoolctl
from mihash.kernels import one_thread

def threads():
    found = threadpoolctl.threadpool_info()
    return [library["num_threads"] for library in found if library["user_api"] == "blas"]

threadpoolctl.threadpool_limits(2, user_api="blas")
assert set(threads()) == {2}
"""
SCIPY_TOO = """
import sys
assert "scipy.linalg.cython_blas" in sys.modules  # which Numba and learners use, maybe in two threads at a time
paths = {library["filepath"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}
import scipy.linalg, scipy.sparse.linalg
again = {library["filepath"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}
assert paths == again  # nothing is loaded later that would have threads of its own
with one_thread():
    assert set(threads()) == {1}
"""
FOUND_AT_IMPORT = """
def search(*_):
    raise AssertionError("a search from a thread may wait for ever for one that loads a library")

threadpoolctl.ThreadpoolController._load_libraries = search
with one_thread():
    pass
"""
GIVEN_BACK = """
with one_thread(), one_thread():
    assert set(threads()) == {1}
assert set(threads()) == {2}
"""
OTHER_THREADS = """
def other():
    with one_thread():
        inside.set()
        leave.wait()
    left.set()

for other_leaves_first in (True, False):
    inside, leave, left = (threading.Event() for _ in range(3))
    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    inside.wait()
    with one_thread():
        assert set(threads()) == {1}
        if other_leaves_first:
            leave.set()
            left.wait()
        assert set(threads()) == {1}
    assert set(threads()) == ({2} if other_leaves_first else {1})
    leave.set()
    thread.join()
    assert set(threads()) == {2}
"""


@pytest.mark.parametrize(
    "code", [SCIPY_TOO, FOUND_AT_IMPORT, GIVEN_BACK, OTHER_THREADS], ids=["SciPy", "found", "back", "others"]
)
def test_blas_is_held_to_one_thread(code):
    made = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
