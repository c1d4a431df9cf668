"""Setting 2 among the paper's experiments: which networks are still to be trained, and what the others gave."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...batch import lacking
from ...errors import NotReady
from ...ranking import mean_average_precision
from ..datasets import digits
from ..datasets.cifar10 import Images, cifar10_images
from ..definition import Definition
from ..passes import pass_seed
from ..results import check_origin, check_shape, read_result, root_and_seed, versions, write_result
from .recipes import Training
from .training import train

MEASURED = Path(__file__).parent / "measured"
_NUMBER = (int, float)
_SHAPE = {
    "run": {"method": (str,), "n_bits": (int,), "trial": (int,), "recipe": {}},
    "final": _NUMBER,
    "data": (str,),
    "losses": [_NUMBER],
    "sizes": dict.fromkeys(("learn", "query", "base"), (int,)),
    "times": {"training": _NUMBER, "warm_up": _NUMBER},
    "machine": {"device": (str,)},
    "versions": {"torch": (str,)},
}
_DIGITS_SIDE = 8


@dataclass(frozen=True)
class Trained:
    """A method at a code length: the results of its trials, and whether they come with the package."""

    method: str
    n_bits: int
    trials: tuple[dict[str, Any], ...]
    shipped: bool

    @property
    def values(self) -> list[float]:
        """The mAP of each trial."""
        return [float(trial["final"]) for trial in self.trials]

    @property
    def mean(self) -> float:
        """The mean of mAP over the trials."""
        return float(np.mean(self.values))


def device_of(device: str) -> str:
    """Return where to train: ``"auto"`` is a GPU where there is one. What is not there is refused.

    Examples
    --------
    >>> device_of("cpu")
    'cpu'
    """
    if lacking("dpsh"):
        return device
    from ...deep.device import best_device, find_device

    return best_device() if device == "auto" else str(find_device(device))


def pending_trainings(
    definitions: Iterable[Definition], results: Path, scale: str, seed: int = 0, device: str = "auto"
) -> list[Training]:
    """Return the networks that definitions need and that were not trained yet; none without PyTorch.

    At full scale on a CPU that nobody asked for, where it would take days, there are none either: the results that
    come with the package are shown.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> wanted = pending_trainings([load_definition("table1-setting2")], Path("nowhere"), "smoke", device="cpu")
    >>> [training.name for training in wanted]
    ['setting2-mihash-16-0', 'setting2-dpsh-16-0', 'setting2-dtsh-16-0']
    """
    if lacking("dpsh") or (scale == "full" and device == "auto" and device_of(device) == "cpu"):
        return []
    wanted = [training for definition in definitions for training in definition.at(scale).trainings()]
    left = [each for each in wanted if _read(results, scale, each, seed) is None]
    if left:
        device_of(device)  # refused before anything is run
    return left


def images_of(scale: str, data: Path | None = None) -> Images:
    """Return the images of a scale: CIFAR-10's at full scale, else the shipped digits, three channels alike.

    Examples
    --------
    >>> images_of("smoke")
    Images('cifar10 (digits)', 1797 x 3 x 8 x 8, 297 for test)
    """
    if scale == "full":
        return cifar10_images(data)
    shipped = digits()
    if shipped.y is None:
        raise NotReady("The shipped digits have lost their labels.")
    pixels = (255 * (shipped.X - shipped.X.min()) / np.ptp(shipped.X)).round().astype(np.uint8)
    X = pixels.reshape(-1, 1, _DIGITS_SIDE, _DIGITS_SIDE).repeat(3, axis=1)
    return Images("cifar10 (digits)", X, shipped.y.astype(np.int64), np.arange(len(X)) >= 1500)


def run_trainings(
    wanted: Sequence[Training],
    images: Images,
    results: Path,
    scale: str,
    seed: int = 0,
    device: str = "auto",
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,  # noqa: ARG005 -- nobody listens
) -> None:
    """Train networks and write a result for each; what is finished stays."""
    from ... import deep

    warm: dict[Any, Any] = {}
    for index, training in enumerate(wanted):
        progress(index, len(wanted), f"{training.method} {training.n_bits} bits, trial {training.seed}")
        seeded = replace(training, seed=pass_seed(training.seed, seed))
        told, codes = train(seeded, images, device_of(device), warm, told=False)
        classes = (codes["query_labels"].astype(np.int64), codes["base_labels"].astype(np.int64))
        final = mean_average_precision(codes["query_codes"], codes["base_codes"], classes, training.n_bits)
        result = {
            "run": _described(training),
            "final": final,
            "scale": scale,
            "seed": seed,
            "data": images.name,
            **{key: told[key] for key in ("sizes", "losses", "distinct_codes", "times", "machine")},
            "versions": versions() | {"torch": deep.torch_version()},
        }
        write_result(_path(results, scale, training), result)
    progress(len(wanted), len(wanted), "done")


def trained(definition: Definition, results: Path, scale: str) -> list[Trained]:
    """Return what the networks of a definition gave, by method and code length.

    At full scale, where none was trained here, it is what was measured on another machine and comes with the
    package.

    Raises
    ------
    NotReady
        Where results are missing; the message names the command that makes them.
    """
    seed = root_and_seed(results)[1]
    wanted = list(definition.at(scale).trainings())
    if not wanted:
        raise NotReady(f"{definition.name} has nothing to run: it trains on images, and its data have none.")
    found = {training: _read(results, scale, training, seed) for training in wanted}
    shipped = scale == "full" and seed == 0 and not any(found.values())
    if shipped:
        found = {training: _measured(training) for training in wanted}
    missing = sum(result is None for result in found.values())
    if missing and lacking("dpsh"):
        raise NotReady(f"{definition.name} needs {lacking('dpsh')}.")
    if missing:
        raise NotReady(
            f"{missing} of the {len(wanted)} results of {definition.name} are not in {results / scale}. "
            f"Run `{definition.command(results, scale)}`" + (" with `--device cuda`." if scale == "full" else ".")
        )
    cells: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for training, result in found.items():
        if result is not None:
            cells.setdefault((training.method, training.n_bits), []).append(result)
    return [Trained(method, n_bits, tuple(trials), shipped) for (method, n_bits), trials in cells.items()]


def _path(results: Path, scale: str, training: Training) -> Path:
    return results / scale / "cifar10" / "images" / f"{training.name}.json"


def _described(training: Training) -> dict[str, Any]:
    return {
        "method": training.method,
        "n_bits": training.n_bits,
        "trial": training.seed,
        "recipe": asdict(training.recipe),
    }


def _read(results: Path, scale: str, training: Training, seed: int) -> dict[str, Any] | None:
    path = _path(results, scale, training)
    result = read_result(path)
    if result is not None:
        check_shape(path, result, _SHAPE)
        check_origin(path, result, run=_described(training), scale=scale, seed=seed)
    return result


def _measured(training: Training) -> dict[str, Any] | None:
    path = MEASURED / f"{training.name}.json"
    result = read_result(path)
    if result is not None:
        check_shape(path, result, _SHAPE)
        check_origin(path, result, run=_described(training))
    return result
