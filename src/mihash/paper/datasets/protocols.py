"""The settings of the paper's online experiments (Sec. 4.1), one value for each data set."""

from dataclasses import dataclass

from ...errors import InvalidInput, UnknownName
from .dataset import Dataset
from .splits import Split, draw_split


@dataclass(frozen=True)
class Protocol:
    """How a data set is divided, streamed and measured.

    Parameters
    ----------
    name
        The data set that the settings are for.
    n_stream
        The length of the stream; a data set with less streams all it has.
    reservoir_size
        The size of the reservoir.
    interval
        The update interval U, so that the baseline updates its table 201 times.
    n_validation
        How much of the stream is set aside when parameters are chosen.
    n_test_per_class, n_test
        The size of the test set: so many of each class, or so many in all. Exactly one is given.
    top
        Where the ranking is cut for mAP (1000 for mAP@1000), or None for all of it.

    Examples
    --------
    >>> from mihash.paper.datasets import digits
    >>> find_protocol("digits").split(digits(), seed=0, trial=1)
    Split(200 queries, 1597 base, stream of 1597)
    """

    name: str
    n_stream: int
    reservoir_size: int
    interval: int
    n_validation: int
    n_test_per_class: int | None = None
    n_test: int | None = None
    top: int | None = None

    def __post_init__(self) -> None:
        """Refuse a protocol without a test set, or with two."""
        if (self.n_test_per_class is None) == (self.n_test is None):
            raise InvalidInput("A protocol must give exactly one of `n_test_per_class` and `n_test`.")

    def split(self, dataset: Dataset, seed: int = 0, trial: int = 0) -> Split:
        """Return the split of one trial, its features centred and of unit length."""
        return draw_split(
            dataset,
            n_test_per_class=self.n_test_per_class,
            n_test=self.n_test,
            n_stream=self.n_stream,
            seed=seed,
            trial=trial,
        )


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("cifar10", 20_000, 1000, 100, 2000, n_test_per_class=100),
        Protocol("places205", 100_000, 5000, 500, 10_000, n_test_per_class=20, top=1000),
        Protocol("labelme", 20_000, 1000, 100, 2000, n_test=2000),
        Protocol("digits", 1597, 200, 20, 200, n_test_per_class=20),
    )
}

_STANDS_FOR = {
    "cifar10_vgg16": "cifar10",
    "tinyimagenet_alexnet_pca128": "places205",
    "gist22k": "labelme",
    "cifar10-like": "cifar10",
    "places205-like": "places205",
    "labelme-like": "labelme",
}


def find_protocol(name: str) -> Protocol:
    """Return the protocol of a data set, or of the one that it stands in for.

    Examples
    --------
    >>> protocol = find_protocol("tinyimagenet_alexnet_pca128")
    >>> protocol.name, protocol.reservoir_size, protocol.top
    ('places205', 5000, 1000)
    """
    try:
        return PROTOCOLS[_STANDS_FOR.get(name, name)]
    except KeyError:
        known = ", ".join((*PROTOCOLS, *_STANDS_FOR))
        raise UnknownName(
            f"No protocol is known for the data set {name!r}; known: {known}. Make a Protocol of your own."
        ) from None


def protocol_for(dataset: Dataset) -> Protocol:
    """Return the protocol of a known data set, and for any other one of its size, in the paper's proportions.

    A tenth of the data, at most 1000, are queries; all the rest is stored and streamed; the reservoir holds 5 % of
    the stream, and the fixed rate makes 200 updates.

    Examples
    --------
    >>> import numpy as np
    >>> protocol_for(Dataset("mine", np.zeros((8_000, 3), dtype=np.float32)))
    Protocol(name='mine', n_stream=7200, reservoir_size=360, interval=36, ..., n_test=800, top=None)
    """
    if dataset.name in PROTOCOLS or dataset.name in _STANDS_FOR:
        return find_protocol(dataset.name)
    n = len(dataset.X)
    if n < 20:
        raise InvalidInput(f"A data set must have at least 20 rows to be divided; {dataset.name!r} has {n}.")
    n_test = min(1000, n // 10)
    n_stream = n - n_test
    size = min(n_stream, max(100, n_stream // 20))
    return Protocol(dataset.name, n_stream, size, max(1, n_stream // 200), max(1, n_stream // 10), n_test=n_test)
