"""The arguments of methods: those that were tuned for each data set, and whether a method takes them."""

import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ..batch import lacking, method_class
from ..errors import InvalidInput, StoreError
from ..online import learner_class
from .recipes import RECIPES

PARAMETERS = Path(__file__).parent / "definitions" / "parameters.toml"


@cache
def load_parameters() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the arguments that each method has on each data set, where they are not the defaults."""
    return read_toml(PARAMETERS)


def tuned_arguments(method: str, dataset: str, n_bits: int) -> dict[str, Any]:
    """Return a method's arguments on a data set; a table named after a code length is for that length alone.

    Examples
    --------
    >>> [tuned_arguments("adapthash", "labelme", n_bits)["alpha"] for n_bits in (32, 64)]
    [0.7, 0.9]
    """
    found = load_parameters().get(method, {}).get(dataset, {})
    common = {key: value for key, value in found.items() if not isinstance(value, dict)}
    own: dict[str, Any] = found.get(str(n_bits), {})
    return common | own


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds; a file that cannot be read, or with a number that is none, is an error."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"Cannot read {file}: {error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} is not TOML: {error}.") from error
    for key, value in values.items():
        if isinstance(value, float) and math.isnan(value):
            raise InvalidInput(f"`{key}` in {file.name} must be a number; got nan.")
    return values


def check_arguments(method: str, n_bits: int, arguments: Any, kind: str = "online") -> None:
    """Refuse arguments that a method does not have, or that it refuses; length and seed are not among them.

    Arguments of a method that needs PyTorch are not checked where it is not installed.

    Examples
    --------
    >>> check_arguments("hmoh", 32, {"rate": 0.5})
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `parameters` of hmoh must be among ...; got rate.
    """
    if not isinstance(arguments, dict):
        raise InvalidInput(f"`parameters` of {method} must be a table of its arguments; got {arguments!r}.")
    if kind == "images":
        RECIPES[method].with_arguments(arguments)
        return
    if kind == "batch" and lacking(method):
        return
    cls: Any = method_class(method) if kind == "batch" else learner_class(method)
    known = [name for name in cls(n_bits, seed=0).parameters() if name not in ("n_bits", "seed")]
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        among = f"among {', '.join(known)}" if known else "empty, for it has none"
        raise InvalidInput(f"`parameters` of {method} must be {among}; got {', '.join(unknown)}.")
    try:
        cls(n_bits, seed=0, **arguments)
    except TypeError as error:
        raise InvalidInput(f"`parameters` of {method} must be numbers and texts: {error}.") from error
