"""For all tests: one BLAS thread, examples of hypothesis without a clock or luck, a file to a process."""

import faulthandler
import os

import hypothesis
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # two threads on a busy machine wait for each other more than they work

# A first call compiles its kernel, which no deadline foresees; the same examples are drawn in every run.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")

# Fixtures have no examples; looked at for some, files of one name in two folders would be one module.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    """Let a teardown that hangs end, too: pytest stops its own timer at a failure."""
    seconds = float(item.config.getini("faulthandler_timeout"))
    stderr = item.config.stash[fault_handler_stderr_fd_key]  # standard error is captured now
    faulthandler.dump_traceback_later(seconds, exit=True, file=stderr)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run the tests of a file in one process and in order, and all that share the Ray cluster in one.

    The groups of ``--dist loadgroup`` do not reach xdist 3.8 from pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            folder = file.rpartition("/")[0]
            return folder if folder.endswith("cluster") else file

    config.option.loadscopereorder = False  # files of few tests may take long: last, they would run alone
    return ByFile(config, log)
