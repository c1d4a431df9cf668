"""Skip what needs an extra that is not installed, with that reason: tests, and examples in modules and pages."""

from importlib.util import find_spec
from pathlib import Path

import pytest

EXTRAS = {
    "torch": "deep",
    "ray": "cluster",
    "faiss": "faiss",
    "pandas": "frames",
    "lancedb": "lance",
    "langchain_core": "langchain",
    "llama_index": "llama-index",
    "onnxruntime": "onnx",
    "grimp": "dev",
}
NEEDS = {
    "docs/deep.md": "torch",
    "docs/export.md": "faiss",
    "docs/retraining.md": "faiss",
    "docs/adapters.md": "langchain_core",
    "docs/images/house.py": "grimp",
    "src/mihash/deep": "torch",
    "src/mihash/io/adapters/faiss_quantizers.py": "faiss",
    "src/mihash/io/adapters/faiss_vectors.py": "faiss",
    "src/mihash/io/adapters/frames.py": "pandas",
    "src/mihash/io/adapters/lance_tables.py": "lancedb",
    "src/mihash/io/adapters/langchain": "langchain_core",
    "src/mihash/io/adapters/llama_index": "llama_index",
    "src/mihash/io/export/faiss_index.py": "faiss",
    "src/mihash/paper/training.py": "torch",
    "tests/store/cluster": "ray",
    "tests/store/test_ray_hosts.py": "ray",
    "tests/deep": "torch",
    "tests/paper/test_training.py": "torch",
    "tests/test_site.py": "torch",
}


def missing(module):
    """Return why a test of a module is skipped, None where the module is installed."""
    return f"needs {module}: pip install 'mihash[{EXTRAS[module]}]'" if find_spec(module) is None else None


SKIPPED = {Path(__file__).parent / path: reason for path, module in NEEDS.items() if (reason := missing(module))}


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector):
    """Skip a file before it is imported, which would fail."""
    for path in (collector.path, *collector.path.parents) if isinstance(collector, pytest.File) else ():
        if reason := SKIPPED.get(path):
            return pytest.CollectReport(collector.nodeid, "skipped", (str(path), None, reason), [])
    return None


def pytest_runtest_setup(item):
    """Skip a test that is marked, as in ``pytest.mark.needs("torch")``."""
    for mark in item.iter_markers("needs"):
        if reason := missing(*mark.args):
            pytest.skip(reason)
