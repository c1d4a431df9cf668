import subprocess
import sys
import threading

import threadpoolctl

from mihash.kernels import one_thread

CODE = """
import numpy, threadpoolctl
from mihash.kernels import one_thread

def threads():
    found = threadpoolctl.threadpool_info()
    return [library["num_threads"] for library in found if library["user_api"] == "blas"]

with one_thread():
    first = threads()
    import scipy.linalg
    with one_thread():
        inner = threads()
    outer = threads()
after = threads()
with one_thread():
    later = threads()
print(set(first) == set(inner) == set(outer) == set(later) == {1}, len(inner) >= len(first), after == threads())
"""


def test_a_blas_that_is_loaded_later_is_held_to_one_thread_too():
    made = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert made.stdout.split() == ["True"] * 3, made.stderr


def n_threads():
    found = threadpoolctl.threadpool_info()
    return {library["num_threads"] for library in found if library["user_api"] == "blas"}


def test_threads_that_come_and_go_are_all_held_to_one_thread():
    """Another thread goes in first and comes out first, then last; BLAS has one thread while any is inside."""
    inside, leave, left = (threading.Event() for _ in range(3))

    def other():
        with one_thread():
            inside.set()
            leave.wait()
        left.set()

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        for other_leaves_first in (True, False):
            thread = threading.Thread(target=other)
            thread.start()
            inside.wait()
            with one_thread():
                assert n_threads() == {1}
                if other_leaves_first:
                    leave.set()
                    left.wait()
                assert n_threads() == {1}
            assert n_threads() == ({2} if other_leaves_first else {1})
            leave.set()
            thread.join()
            assert n_threads() == {2}
            for event in (inside, leave, left):
                event.clear()
