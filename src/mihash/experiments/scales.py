"""What stands for the paper's three data sets at each scale: shipped digits, generated sets, or real features."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from .. import validation
from ..datasets import (
    Dataset,
    Protocol,
    Split,
    Synthetic,
    cifar10_like,
    digits,
    find_protocol,
    labelme_like,
    open_dataset,
    places205_like,
    protocol_for,
)

__all__ = ["SCALES", "Stage", "stage"]

SCALES = ("smoke", "small", "full")
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


@lru_cache(maxsize=4)
def stage(name: str, scale: str, data: Path | None = None, seed: int = 0) -> Stage:
    """Return what stands for a data set of the paper at a scale.

    ``smoke`` is scikit-learn's digits for all three, without its labels for LabelMe; ``small`` are generated sets
    of the three shapes with fewer rows; ``full`` are the features in a folder, at the paper's sizes.

    Examples
    --------
    >>> smoke = stage("labelme", "smoke")
    >>> smoke.dataset.name, smoke.dataset.y, smoke.split(0)
    ('labelme (digits)', None, Split(200 queries, 1597 base, stream of 1597))
    """
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
