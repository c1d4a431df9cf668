"""What stands for the paper's three data sets at each scale: shipped digits, generated sets, or real features.

A user's file stands for itself: it is used whole at every scale.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import InvalidInput, StoreError
from ..kernels import one_thread
from ..online import learner_class
from ..trigger import Trigger
from .datasets import (
    Dataset,
    Images,
    Protocol,
    Split,
    Synthetic,
    cifar10_images,
    cifar10_like,
    digits,
    find_protocol,
    labelme_like,
    load,
    open_dataset,
    places205_like,
    protocol_for,
)
from .jobs import Job
from .learning_pass import Pass, learn_once, pass_seed
from .sources import find_source, is_file

SCALES = ("smoke", "small", "full")
OWN = "own"
_DIGITS_SIDE = 8
REPEATED = {"smoke": {"places205": "cifar10"}}  # the same rows and labels under another name, by scale
_SMALL = {"cifar10": 8_000, "places205": 20_000, "labelme": 6_000}


@dataclass(frozen=True)
class Stage:
    """A data set and how it is divided, at one scale.

    Attributes
    ----------
    dataset
        What stands for the paper's data set.
    protocol
        How it is divided, streamed and measured.
    seed
        Seeds every division.
    """

    dataset: Dataset
    protocol: Protocol
    seed: int

    def split(self, trial: int) -> Split:
        """Return the division of one trial."""
        return self.protocol.split(self.dataset, seed=self.seed, trial=trial)

    def reservoir_size(self, split: Split, share: float = 1.0) -> int:
        """Return how many examples of a stream are sampled; ``share`` is in units of the protocol's size."""
        return max(2, min(len(split.stream), round(share * self.protocol.reservoir_size)))

    def learn(self, split: Split, job: Job, triggers: Sequence[Trigger], checkpoints: NDArray[np.int64]) -> Pass:
        """Send the stream of a split through the learner of a job, on one thread, and follow every trigger."""
        seed = pass_seed(job.trial, self.seed)
        with one_thread():
            return learn_once(
                split,
                learner_class(job.method)(job.n_bits, seed=seed, **dict(job.parameters)),
                triggers,
                checkpoints,
                reservoir_size=self.reservoir_size(split, job.share),
                top=self.protocol.top,
                seed=seed,
                missing=job.missing,
                ends=job.ends,
            )


def scale_of(datasets: Iterable[str], scale: str) -> str:
    """Return the scale at which experiments on data sets are run, which names the folder of their results.

    That is the one asked for, or ``"own"`` where every data set is a file, of which no scale says anything.

    Examples
    --------
    >>> scale_of(["cifar10", "mine.npz"], "smoke"), scale_of(["mine.npz"], "smoke")
    ('smoke', 'own')
    """
    validation.choice("scale", scale, SCALES)
    return OWN if all(map(is_file, datasets)) else scale


def stage(name: str, scale: str, data: Path | None = None, seed: int = 0) -> Stage:
    """Return what stands for a data set of the paper at a scale, or the data set of a file.

    ``smoke`` is scikit-learn's digits for all three, without its labels for LabelMe; ``small`` are generated sets
    of the three shapes with fewer rows; ``full`` are the features in a folder, at the paper's sizes. A file is
    divided in the paper's proportions, by `mihash.datasets.protocol_for`.

    Examples
    --------
    >>> smoke = stage("labelme", "smoke")
    >>> smoke.dataset.name, smoke.dataset.y, smoke.split(0)
    ('labelme (digits)', None, Split(200 queries, 1597 base, stream of 1597))
    """
    source = find_source(name)
    if source.file is None:
        return _of_the_paper(name, scale, data, seed)
    return _of_a_file(source.file, source.name, seed)


@lru_cache(maxsize=1)
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
    pixels = (255 * (shipped.X - shipped.X.min()) / np.ptp(shipped.X)).round().astype(np.uint8)
    X = pixels.reshape(-1, 1, _DIGITS_SIDE, _DIGITS_SIDE).repeat(3, axis=1)
    return Images("cifar10 (digits)", X, np.asarray(shipped.y, dtype=np.int64), np.arange(len(X)) >= 1500)


@lru_cache(maxsize=2)
def _of_a_file(file: Path, name: str, seed: int) -> Stage:
    dataset = replace(load(file), name=file.name)
    if find_source(str(file)).name != name:
        raise StoreError(f"The data file {str(file)!r} was changed since it was first read. Start again.")
    protocol = protocol_for(dataset)
    if dataset.y is not None and dataset.y.ndim == 1 and dataset.n_classes in (1, len(dataset)):
        raise InvalidInput(
            f"The labels of {dataset.name!r} must be classes that some rows share and others do not; "
            f"got {dataset.n_classes} for {len(dataset)} rows."
        )
    return Stage(dataset, protocol, seed)


@lru_cache(maxsize=4)
def _of_the_paper(name: str, scale: str, data: Path | None, seed: int) -> Stage:
    validation.choice("scale", scale, SCALES)
    if scale == "full":
        return Stage(open_dataset(name, data), find_protocol(name), seed)
    if scale == "small":
        makers: dict[str, Callable[..., Synthetic]] = {
            "cifar10": cifar10_like,
            "places205": places205_like,
            "labelme": labelme_like,
        }
        dataset = makers[name](n=_SMALL[name], seed=seed).dataset()
        protocol = replace(protocol_for(Dataset(name + " (small)", dataset.X)), top=find_protocol(name).top)
        return Stage(dataset, protocol, seed)
    shipped = digits()
    dataset = Dataset(f"{name} (digits)", shipped.X, None if name == "labelme" else shipped.y)
    protocol = find_protocol("digits")
    if name == "labelme":
        protocol = replace(protocol, n_test_per_class=None, n_test=200)
    return Stage(dataset, replace(protocol, top=100 if name == "places205" else None), seed)
