"""One BLAS thread for all tests: two of them on a busy machine wait for each other more than they work."""

import os

import pytest

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Fixtures have no examples; looked at for some, files of one name in two folders would be one module.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]


def pytest_collection_modifyitems(config, items):
    """Keep the tests of a file in one process, and all that share the Ray cluster."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            folder = item.path.parent
            item.add_marker(pytest.mark.xdist_group(str(folder if folder.name == "cluster" else item.path)))
