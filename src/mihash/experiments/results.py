"""Results as files: one JSON for each run, its path given by the run's definition.

Everything but ``times`` and ``machine`` is a function of the run, the data and the versions of the libraries, so a
second run writes the same bytes there.
"""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import CorruptStore, StoreError
from ..state import replace_file

__all__ = ["machine", "read_result", "versions", "write_result"]


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Write a result so that an interruption leaves the old file or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error}.") from error
    replace_file(path, (json.dumps(result, indent=1, sort_keys=True) + "\n").encode())


def read_result(path: Path) -> dict[str, Any] | None:
    """Return a result, or None where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error}.") from error
    try:
        result: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise CorruptStore(f"{path} is not a result: {error}. Remove it, and it is made again.") from error
    return result


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {name: version(name) for name in ("mihash", "numpy", "numba", "scikit-learn")}


def machine() -> dict[str, Any]:
    """Return what the times depend on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
