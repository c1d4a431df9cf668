"""The room as a whole: torch is asked for by name, and by nobody else."""

import subprocess
import sys

import mihash.deep


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_torch_the_error_says_what_to_install():
    result = python("import sys; sys.modules['torch'] = None\nimport mihash\nmihash.deep")
    assert "ImportError: mihash.deep needs PyTorch: pip install 'mihash[deep]'." in result.stderr


def test_mappings_and_experiments_do_not_import_torch():
    result = python(
        "import sys, mihash.mapping, mihash.batch, mihash.paper.training\nprint('torch' in sys.modules)"
    )
    assert result.stdout.strip() == "False", result.stderr


def test_public_names():
    for name in mihash.deep.__all__:
        assert getattr(mihash.deep, name) is not None
