"""The scikit-learn adapter: a transformer from feature vectors to binary codes, for use in a `Pipeline`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import validation
from .codes import unpack
from .errors import InvalidInput
from .index.options import Options
from .loop.learning_loop import Loop
from .mapping import HashMapping

_ENOUGH = 1000


class HashEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn feature vectors into binary codes by an online hashing method.

    Parameters
    ----------
    n_bits
        The length of a code.
    learner
        The method: ``"momenthash"``, ``"mihash"``, ``"lsh"``, ``"okh"``, ``"osh"``, ``"adapthash"``,
        ``"sketchhash"``, ``"hcoh"`` or ``"hmoh"``.
    metric
        ``"euclidean"``, or ``"cosine"`` for vectors whose length means nothing.
    normalize
        Whether features are centred and scaled.
    reservoir_size
        How many examples are kept as a sample.
    n_passes
        How many times `fit` passes over the examples, each time in another order; more times if there are fewer
        than 1,000 examples.
    packed
        Whether `transform` gives packed codes (n, ceil(n_bits / 8)), or one 0/1 column for each bit.
    parameters
        Further parameters of the method, by name.
    random_state
        Seeds the method and the order.

    Attributes
    ----------
    mapping_
        The mapping that was learned, frozen: save it, or give it to a hash table.
    n_features_in_
        How many features there are.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(HashEncoder(32, packed=False), KNeighborsClassifier(5, metric="hamming"))
    >>> model.fit(X[:1400], y[:1400]).score(X[1400:], y[1400:]) > 0.85
    True
    >>> HashEncoder(32).fit(X, y).transform(X[:2]).shape
    (2, 4)
    """

    def __init__(
        self,
        n_bits: int = 32,
        *,
        learner: str = "momenthash",
        metric: str = "euclidean",
        normalize: bool = True,
        reservoir_size: int = 1000,
        n_passes: int = 1,
        packed: bool = True,
        parameters: dict[str, Any] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.learner = learner
        self.metric = metric
        self.normalize = normalize
        self.reservoir_size = reservoir_size
        self.n_passes = n_passes
        self.packed = packed
        self.parameters = parameters
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from examples, from the start.

        Neighbours share a label. Without y they are the closest rows: 2 % for MomentHash, 5 % for other learners.
        """
        vectors = validate_data(self, X, dtype=np.float32, ensure_min_samples=2)
        check_consistent_length(vectors, y)
        random = check_random_state(self.random_state)
        self._begin(random)
        n = len(vectors)
        labels = None if y is None else np.asarray(y)
        for _ in range(max(self.n_passes, -(-_ENOUGH // n))):
            order = random.permutation(n)
            self._feed(vectors[order], None if labels is None else labels[order])
        return self._learned()

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from more examples, one pass in their order."""
        first = not hasattr(self, "_loop")
        vectors = validate_data(self, X, dtype=np.float32, reset=first)
        check_consistent_length(vectors, y)
        if first:
            self._begin(check_random_state(self.random_state))
        self._feed(vectors, None if y is None else np.asarray(y))
        return self._learned()

    def transform(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the codes of vectors."""
        check_is_fitted(self, "mapping_")
        codes = self.mapping_.encode_rows(validate_data(self, X, dtype=np.float32, reset=False))
        return codes if self.packed else unpack(codes, self.n_bits).astype(np.uint8)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002 -- scikit-learn's
        """Return the names of the columns of codes: ``hashencoder0``, ..."""
        check_is_fitted(self, "mapping_")
        n = -(-self.n_bits // 8) if self.packed else self.n_bits
        return np.array([f"hashencoder{i}" for i in range(n)], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Declare that codes do not have the type of the features."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _begin(self, random: Any) -> None:
        validation.integer("n_passes", self.n_passes, minimum=1)
        self._loop: Loop = Options(
            n_bits=self.n_bits,
            learner=self.learner,
            metric=self.metric,
            normalize=self.normalize,
            reservoir_size=self.reservoir_size,
            seed=int(random.randint(2**31 - 1)),
            parameters=self.parameters or {},
        ).make_loop(learn_only=True)
        self._numbers: dict[Any, int] = {}  # of the names of classes
        self._named: bool | None = None

    def _feed(self, vectors: NDArray[np.float32], labels: NDArray[Any] | None) -> None:
        named = labels is not None and labels.ndim == 1 and labels.dtype.kind not in "biu"
        if labels is not None:
            if self._named not in (None, named):
                kinds = ("names", "integers") if named else ("integers", "names")
                raise InvalidInput(f"`y` must be of one kind in all calls; got {kinds[0]} after {kinds[1]}.")
            labels = self._numbered(labels) if named else labels
        examples = self._loop.check(vectors, labels)
        if labels is not None:
            self._named = named
        self._loop.feed(*examples)
        if self._loop.failure is not None:
            raise InvalidInput(self._loop.failure)

    def _numbered(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Return class names as numbers, the same numbers in every call."""
        names = labels.tolist()
        missing = [i for i, name in enumerate(names) if validation.is_missing(name)]
        if missing:
            raise InvalidInput(f"`y` must have a label for each row; row {missing[0]} has {names[missing[0]]}.")
        return np.array([self._numbers.setdefault(name, len(self._numbers)) for name in names], dtype=np.int64)

    def _learned(self) -> Self:
        self.mapping_: HashMapping = self._loop.current
        return self
