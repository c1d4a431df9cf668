"""FastHash: supervised hashing in two steps, with boosted trees as hash functions (Sec. 4.3.2, Table 1)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..codes import as_words, pack
from ..kernels import jit, one_thread, popcount
from ..mapping import ForestMapping
from ..neighbors import Labels, label_neighborhood
from .batch_method import FIRST, BatchMethod, Matrix, Progress
from .boosting import LOSSES as BOOSTINGS
from .boosting import boost
from .graph_cut import settle_by_cut

LOSSES = ("ksh", "hinge")
INFERENCES = ("descent", "cut")
_LEAF = 20


class FastHash(BatchMethod):
    """Two steps for each bit: infer its values on the training set, then fit boosted trees to them.

    With the bits before it fixed, a pair's loss depends on the new bit only through z_i z_j, so the bit has to
    make a quadratic form small, 1/2 sum_ij a_ij z_i z_j with a_ij = L(alike) - L(different) (`pair_weights`);
    `infer_bit` does so over blocks of similar examples. Trees are then fitted to z, and their output
    replaces the bit when the next one is inferred, which corrects their errors.

    Each bit is learned with the loss of the code so far: a short code is the beginning of a longer one.
    ``history`` is the share of the examples whose inferred value the trees miss, for each bit. Works with class
    labels and multi-labels.

    Parameters
    ----------
    n_bits
        The code length b.
    loss
        With d the distance of a pair and m the length of the code so far: ``"ksh"``, (m y - (m - 2 d))^2 with y
        1 for neighbours and -1 for others; or ``"hinge"``, d^2 for neighbours and max(m / 2 - d, 0)^2 for others.
    inference
        How the values of a block are found: ``"descent"``, coordinate descent from three forms of the block, or
        ``"cut"``, the published graph cut, which is exact for a block and needs SciPy.
    n_starts
        From how many random bits the inference starts; the best outcome is kept.
    block_size
        How many similar examples at most are moved together in the inference.
    iterations
        How many trees a bit is the sum of at most.
    boosting
        The loss that the trees lower: ``"logistic"``, or ``"exponential"``, the published one.
    tolerance
        A bit has its last tree when ten in a row lowered that loss on the examples by no more than this; None
        takes them all.
    tree_depth
        The depth of a tree.
    learning_rate
        The step of the boosting.
    n_candidates
        How many features, drawn again for each bit, its trees choose from at most.
    seed
        Seeds all that is random.

    References
    ----------
    G. Lin, C. Shen, Q. Shi, A. van den Hengel, D. Suter, "Fast supervised hashing with decision trees for
    high-dimensional data", CVPR 2014.

    Notes
    -----
    The publication cuts a graph in each block and boosts with the exponential loss. The defaults are faster and as
    good (docs/divergences.md).

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = FastHash(n_bits=4, iterations=10).fit(data.X[:500], data.y[:500])
    >>> mapping.n_bits, mapping.encode(data.X[:2]).shape
    (4, (2, 1))
    """

    name = "fasthash"
    nested = True

    def __init__(
        self,
        n_bits: int = 32,
        *,
        loss: str = "ksh",
        inference: str = "descent",
        n_starts: int = 8,
        block_size: int = 1000,
        iterations: int = 200,
        boosting: str = "logistic",
        tolerance: float | None = None,
        tree_depth: int = 4,
        learning_rate: float = 0.2,
        n_candidates: int = 1024,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.loss = validation.choice("loss", loss, LOSSES)
        self.inference = validation.choice("inference", inference, INFERENCES)
        self.n_starts = validation.integer("n_starts", n_starts, minimum=1)
        self.block_size = validation.integer("block_size", block_size, minimum=1)
        self.iterations = validation.integer("iterations", iterations, minimum=1)
        self.boosting = validation.choice("boosting", boosting, BOOSTINGS)
        self.tolerance = None if tolerance is None else validation.number("tolerance", tolerance, minimum=0)
        self.tree_depth = validation.integer("tree_depth", tree_depth, minimum=1, maximum=16)
        self.learning_rate = validation.number("learning_rate", learning_rate, above=0)
        self.n_candidates = validation.integer("n_candidates", n_candidates, minimum=1)

    def learn(self, X: Matrix, y: Labels | None, progress: Progress) -> ForestMapping:
        """Learn one bit after the other."""
        assert y is not None
        rng = self.generator(FIRST)
        options = {"n_starts": self.n_starts, "block_size": self.block_size, "inference": self.inference}
        bits = np.zeros((len(X), self.n_bits), dtype=np.bool_)
        parts = []
        for r in range(self.n_bits):
            z = infer_bit(as_words(pack(bits)), y, pair_weights(self.loss, r + 1), rng, **options)
            parts.append(self._boost(X, z, rng))
            bits[:, r] = _forest(parts[-1:], X.shape[1]).project(X)[:, 0] > 0
            self.history.append(float((bits[:, r] != z).mean()))
            progress(r + 1, self.n_bits)
        return _forest(parts, X.shape[1])

    def _boost(self, X: NDArray[np.float32], z: NDArray[np.bool_], rng: np.random.Generator) -> dict[str, Any]:
        """Return the trees fitted to one bit, in the layout of `ForestMapping`."""
        d = X.shape[1]
        chosen = np.sort(rng.permutation(d)[: self.n_candidates])
        if z.all() or not z.any():
            return _constant(1.0 if z[0] else -1.0)
        trees = boost(
            X if len(chosen) == d else X[:, chosen],
            z,
            n_trees=self.iterations,
            depth=self.tree_depth,
            rate=self.learning_rate,
            min_leaf=max(1, min(_LEAF, len(X) // _LEAF)),
            loss=self.boosting,
            tolerance=self.tolerance,
        )
        return trees | {"feature": chosen[trees["feature"]]}


def pair_weights(loss: str, length: int) -> NDArray[np.float32]:
    """Return a(y, d) = L(alike) - L(different) of a bit, for others (row 0) and neighbours (row 1).

    The bit is the last of a code of ``length`` bits, and d = 0 .. length - 1 the distance in the bits before it.

    Examples
    --------
    >>> pair_weights("hinge", 3)
    array([[ 2.  ,  0.25,  0.  ],
           [-1.  , -3.  , -5.  ]], dtype=float32)
    """
    d = np.arange(length + 1.0)
    if loss == "ksh":
        losses = np.stack([(-length - (length - 2 * d)) ** 2, (length - (length - 2 * d)) ** 2])
    else:
        losses = np.stack([np.maximum(length / 2 - d, 0) ** 2, d**2])
    return (losses[:, :-1] - losses[:, 1:]).astype(np.float32)


def infer_bit(
    words: NDArray[np.uint64],
    y: Labels,
    weights: NDArray[np.float32],
    rng: np.random.Generator,
    *,
    n_starts: int = 8,
    n_sweeps: int = 2,
    block_size: int = 1000,
    inference: str = "descent",
) -> NDArray[np.bool_]:
    """Return the bit z (n,) that makes 1/2 sum_ij a_ij z_i z_j small, given the codes so far as words.

    A sweep divides the examples at random into blocks of similar ones. In each block, the rest being fixed, single
    values are changed as long as that lowers the sum; this starts from the block as it is, from all 1 and from all
    -1, and the best of the three is taken, so the sum never rises. Within a block neighbours attract each other
    (a_ij <= 0), which is what makes such a search good. It is also why ``inference="cut"`` finds the best values
    of a block by a minimum cut; pairs of a block that are not neighbours are left as they were.
    """
    rule = label_neighborhood(y)
    Z = np.empty((len(words), n_starts), dtype=np.float32)
    for block in _blocks(y, rng, block_size):
        Z[block] = rng.choice(np.array([-1, 1], dtype=np.float32), n_starts)
    totals = np.zeros(n_starts)
    for sweep in range(n_sweeps + 1):
        for block in _blocks(y, rng, block_size):
            A = _pairs(words, block, rule.between(None, y[block], None, y), weights)
            with one_thread():
                pulls = A @ Z
            if sweep < n_sweeps:
                inside = np.ascontiguousarray(A[:, block])
                settle = _settle if inference == "descent" else settle_by_cut
                Z[block] = settle(inside, pulls, Z[block])
            else:
                totals += np.einsum("is,is->s", Z[block], pulls, dtype=np.float64)
    found: NDArray[np.bool_] = Z[:, np.argmin(totals)] > 0
    return found


def _blocks(y: Labels, rng: np.random.Generator, block_size: int) -> Iterator[NDArray[np.int64]]:
    """Yield disjoint blocks that cover all examples: one at random, and those similar to it that are left."""
    rule = label_neighborhood(y)
    rest = rng.permutation(len(y))
    while len(rest):
        taken = rule.between(None, y[rest[:1]], None, y[rest])[0]
        taken[0] = True
        taken &= np.cumsum(taken) <= block_size
        yield rest[taken]
        rest = rest[~taken]


@jit
def _pairs(
    words: NDArray[np.uint64], block: NDArray[np.int64], similar: NDArray[np.bool_], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the rows of A = (a_ij) for the examples of a block, with a diagonal of 0."""
    k, n = similar.shape
    flat = weights.ravel()
    A = np.empty((k, n), dtype=np.float32)
    entries = np.empty(n, dtype=np.int32)
    for p in range(k):
        i = block[p]
        for j in range(n):
            entries[j] = np.int32(similar[p, j]) * np.int32(weights.shape[1])
        for w in range(words.shape[1]):
            word = words[i, w]
            for j in range(n):
                entries[j] += np.int32(popcount(word ^ words[j, w]))
        for j in range(n):
            A[p, j] = flat[entries[j]]
        A[p, i] = 0
    return A


@jit
def _settle(
    inside: NDArray[np.float32], pulls: NDArray[np.float32], Z: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the block's values (k, starts) after coordinate descent; ``pulls`` is sum_j a_ij z_j over all j."""
    k, n_starts = Z.shape
    best = np.empty_like(Z)
    z, pull, outside = np.empty(k), np.empty(k), np.empty(k)
    for start in range(n_starts):
        outside[:] = pulls[:, start]
        for p in range(k):
            _add(outside, -Z[p, start], inside[p])
        least = np.inf
        for form in range(3):
            z[:] = Z[:, start]
            if form > 0:
                z[:] = 3.0 - 2.0 * form
            pull[:] = outside
            for p in range(k):
                _add(pull, z[p], inside[p])
            _descend(inside, pull, z)
            energy = 0.0
            for p in range(k):
                energy += z[p] * (outside[p] + pull[p])
            if energy < least:
                least = energy
                best[:, start] = z
    return best


@jit
def _descend(inside: NDArray[np.float32], pull: NDArray[np.float64], z: NDArray[np.float64]) -> None:
    """Flip values whose sign the pull opposes, until there are none; update ``pull``."""
    moved = True
    while moved:
        moved = False
        for p in range(len(z)):
            if z[p] * pull[p] > 0:
                z[p] = -z[p]
                _add(pull, 2.0 * z[p], inside[p])
                moved = True


@jit
def _add(total: NDArray[np.float64], factor: float, row: NDArray[np.float32]) -> None:
    for q in range(len(row)):
        total[q] += factor * row[q]


def _constant(value: float) -> dict[str, Any]:
    """Return a tree of one leaf."""
    one = np.zeros(1, dtype=np.int64)
    return {"feature": one, "threshold": one, "left": one, "value": one + value, "roots": one, "offset": 0.0}


def _forest(parts: list[dict[str, Any]], n_features: int) -> ForestMapping:
    """Return the mapping whose bits are the parts."""
    sizes = [len(part["feature"]) for part in parts]
    starts = np.cumsum(sizes) - sizes

    def joined(name: str, moved: bool = False) -> NDArray[Any]:
        return np.concatenate([part[name] + start * moved for part, start in zip(parts, starts, strict=True)])

    return ForestMapping(
        feature=joined("feature"),
        threshold=joined("threshold"),
        left=joined("left", moved=True),
        value=joined("value"),
        roots=joined("roots", moved=True),
        n_trees=[len(part["roots"]) for part in parts],
        offset=[part["offset"] for part in parts],
        n_features=n_features,
    )
