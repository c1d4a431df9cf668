import subprocess
import sys

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
