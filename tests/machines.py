"""Other machines, as far as this one can play them: the kernels that other processors would choose.

Environment variables make OpenBLAS, Numba and NumPy take the code paths of another processor. What needs
instructions that this one lacks is skipped with that reason.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

AVX512 = "avx512f"


def _flags():
    """Return the names of the instructions that this processor has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return set(next((line.split(":")[1] for line in lines if line.startswith("flags")), "").split())


def _dispatched():
    """Return the instructions that NumPy chooses at run time, and would use here."""
    about = np._core._multiarray_umath
    return [name for name in about.__cpu_dispatch__ if about.__cpu_features__[name]]


@dataclass(frozen=True)
class Machine:
    name: str
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def lacks(self):
        """Return the instructions that it needs and this processor has not, or an empty list."""
        return [flag for flag in self.needs if flag not in _flags()]

    def run(self, *arguments, timeout=600):
        """Run Python in a process of that machine; return what it printed."""
        chosen = ("OPENBLAS_", "OMP_", "MKL_", "NUMBA_CPU", "NPY_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(chosen)}
        path = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=environment | {"PYTHONPATH": path} | self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"on {self.name}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout


def blas(kernel, *needs):
    return Machine(f"OpenBLAS {kernel}", {"OPENBLAS_CORETYPE": kernel}, needs)


def numba(name, *needs, features=""):
    return Machine(f"Numba {name}", {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}, needs)


MACHINES = [
    Machine("as it is"),
    blas("Nehalem", "sse4_2"),
    blas("Sandybridge", "avx"),
    blas("Haswell", "avx2", "fma"),
    blas("Zen", "avx2", "fma"),
    blas("SkylakeX", AVX512),
    numba("generic"),
    numba("haswell", "avx2", "fma"),
    numba("skylake-avx512", AVX512),
    Machine("NumPy without AVX", {"NPY_DISABLE_CPU_FEATURES": " ".join(_dispatched())}),
    Machine("one thread", {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
    Machine("two threads", {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}),
    Machine(
        "an old processor",
        {"OPENBLAS_CORETYPE": "Nehalem", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        ("sse4_2",),
    ),
]
