"""Results as files: one JSON for each run, its path given by the run's definition.

Everything but ``times`` and ``machine`` is a function of the run, the data and the versions of the libraries, so a
second run writes the same bytes there.
"""

import json
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import CorruptStore, InvalidInput, StoreError
from ..state import replace_file


def seeded(results: Path, seed: int) -> Path:
    """Return the folder of a seed's results, below that of all: 0 has it for its own.

    Examples
    --------
    >>> seeded(Path("results"), 0).as_posix(), seeded(Path("results"), 3).as_posix()
    ('results', 'results/seed-3')
    """
    return results / f"seed-{seed}" if seed else results


def root_and_seed(results: Path) -> tuple[Path, int]:
    """Return the folder of all results and the seed, from what `seeded` returned.

    Examples
    --------
    >>> root_and_seed(Path("out/seed-3")) == (Path("out"), 3)
    True
    """
    found = re.fullmatch(r"seed-([1-9][0-9]*)", results.name)
    return (results.parent, int(found[1])) if found else (results, 0)


def check_results_folder(results: Path) -> None:
    """Refuse a folder of all results that cannot be made or written, or that is a seed's."""
    root, seed = root_and_seed(results)
    if seed:
        raise InvalidInput(
            f"`results` must not end in {results.name}, the folder of a seed's results; give `results` {root} and "
            f"`seed` {seed}."
        )
    place = results.absolute()
    try:
        there = next(folder for folder in (place, *place.parents) if _exists(folder))
    except OSError as error:
        raise InvalidInput(f"`results` must be a folder that can be written: {error}.") from error
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InvalidInput(f"`results` must be a folder that can be written; {str(there)!r} is not.")


def _exists(path: Path) -> bool:
    """Tell whether a path exists; raise if it cannot, which `Path.exists` no longer does from Python 3.14 on."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_origin(path: Path, result: dict[str, Any], **expected: Any) -> None:
    """Raise where a result was made with another seed, at another scale or of other data than expected.

    Examples
    --------
    >>> check_origin(Path("a.json"), {"seed": 1}, seed=0)
    Traceback (most recent call last):
    mihash.errors.StoreError: a.json has the seed 1, and 0 is expected. Remove it, or use another folder...
    """
    for key, value in expected.items():
        if key not in result:
            raise CorruptStore(f"{path} has no {key!r}. Remove it, and it is made again.")
        if result[key] != value:
            raise StoreError(
                f"{path} has the {key} {result[key]!r}, and {value!r} is expected. "
                "Remove it, or use another folder of results."
            )


def check_shape(path: Path, result: Any, shape: Any, *, partly: bool = False, name: str = "content") -> None:
    """Refuse a result that lacks a key or has a value of another type; with ``partly`` keys may be missing.

    Parameters
    ----------
    path
        Its file, for the message.
    result
        What was read.
    shape
        Types of a value; a list of one such for a list; a dictionary of them for a dictionary.
    partly
        Whether keys may be missing.
    name
        What the value is called, for the message.

    Examples
    --------
    >>> check_shape(Path("a.json"), {"updates": "many"}, {"updates": (int,)})
    Traceback (most recent call last):
    mihash.errors.CorruptStore: a.json has the 'updates' 'many', which ... Remove it, and it is made again.
    """
    kinds = (dict,) if isinstance(shape, dict) else (list,) if isinstance(shape, list) else shape
    if not isinstance(result, kinds) or isinstance(result, bool):
        raise CorruptStore(
            f"{path} has the {name!r} {result!r:.40}, which no run writes. Remove it, and it is made again."
        )
    if isinstance(shape, list):
        for value in result:
            check_shape(path, value, shape[0], partly=partly, name=name)
    elif isinstance(shape, dict):
        for key, inner in shape.items():
            if key in result:
                check_shape(path, result[key], inner, partly=partly, name=key)
            elif not partly:
                raise CorruptStore(f"{path} has no {key!r}. Remove it, and it is made again.")


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
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error}.") from error
    try:
        result = json.loads(content.decode())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CorruptStore(f"{path} is not a result: {error}. Remove it, and it is made again.") from error
    if not isinstance(result, dict):
        raise CorruptStore(f"{path} is not a result, but {result!r:.40}. Remove it, and it is made again.")
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
