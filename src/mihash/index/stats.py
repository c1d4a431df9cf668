"""The state of an index in numbers: what `stats`, HTTP, metrics and the command line show."""

from dataclasses import dataclass, field
from typing import Any

from ..online import learner_class
from ..records import Record

_DEGENERATE = 0.1  # of the entropy that a bit can have
_FEW = 100  # rows that say nothing yet about the codes


@dataclass(frozen=True)
class Stats(Record):
    """The state of an index.

    Attributes
    ----------
    items, deleted
        Stored items, and deleted rows that are still on the disk until `compact`.
    n_features, n_bits, learner, metric, dtype, labels, theta, interval
        The options of the index, and those chosen from its first rows. ``theta`` is None if the trigger has a
        price, or a theta relative to the quality of the table.
    version
        The version that answers queries; None before the first row.
    decisions, updates, alarms
        How many decisions were made, how many versions of the table were built, and how many alarms the drift
        watch has raised.
    rehashing, paused
        Whether a version is being built, and whether building is paused.
    rehash_error, learning_error, write_error
        Why the last build failed, why learning has stopped, why decisions are only in memory; None if nothing
        is wrong.
    bytes_on_disk, sqlite
        The size of the folder, and the version of the SQLite library.
    warning
        A sentence if most items have the same few codes, or if the recall of searches is below its target; else
        None.
    codes_sampled, codes_distinct, bit_entropy
        Rows sampled, and distinct codes among them; the mean entropy of a bit, at most 1. None before the first
        row.
    rescore, recall
        How many candidates a search for ten items reads by default, and the share of the true ten that these find
        on a sample. None before the first such search, and if there are few items.
    shards
        The state of each shard of an index on Ray; else empty.
    """

    items: int
    deleted: int
    n_features: int | None
    n_bits: int
    learner: str
    metric: str
    dtype: str
    labels: bool
    theta: float | None
    interval: int
    version: int | None
    decisions: int
    updates: int
    rehashing: bool
    paused: bool
    rehash_error: str | None
    learning_error: str | None
    write_error: str | None
    bytes_on_disk: int
    sqlite: str
    warning: str | None = None
    codes_sampled: int | None = None
    codes_distinct: int | None = None
    bit_entropy: float | None = None
    rescore: int | None = None
    recall: float | None = None
    alarms: int = 0
    shards: list[dict[str, Any]] = field(default_factory=list)


def degenerate_codes(
    codes_sampled: int, codes_distinct: int, bit_entropy: float, *, learner: str, is_exact: bool
) -> str | None:
    """Return a warning about codes that hardly distinguish items, or None.

    Parameters
    ----------
    codes_sampled, codes_distinct, bit_entropy
        As in `Stats`.
    learner
        The name of the learner. If it never changes its mapping, a rehash is no remedy.
    is_exact
        Whether searches compare all vectors, so that the codes do not matter.

    Examples
    --------
    >>> degenerate_codes(300, 290, 0.98, learner="lsh", is_exact=False)
    >>> degenerate_codes(300, 1, 0.0, learner="lsh", is_exact=True)[-69:]
    'Searches are exact all the same: they compare all vectors, in memory.'
    """
    if codes_sampled < _FEW or bit_entropy >= _DEGENERATE:
        return None
    advice = "Check the features for outliers and constant values, then request a rehash."
    if not learner_class(learner).learned_names:
        advice = (
            f"A rehash does not help, because the hyperplanes of {learner} never change. Remove outliers and "
            "constant values, scale the features to similar ranges, and add them to a new index."
        )
        if is_exact:
            advice = "Searches are exact all the same: they compare all vectors, in memory."
    return (
        f"The codes are degenerate: {codes_sampled} rows share {codes_distinct} code(s), and the mean entropy of "
        f"a bit is {bit_entropy:.2f} of 1. {advice}"
    )


def low_recall(recall: float | None, target: float) -> str | None:
    """Return a warning about searches that find less than their target on a sample, or None.

    Examples
    --------
    >>> low_recall(0.96, target=0.95), low_recall(0.412, target=0.95)[:56]
    (None, 'Searches find 41 % of the true nearest on a sample, less')
    """
    if recall is None or recall >= target:
        return None
    return (
        f"Searches find {100 * recall:.0f} % of the true nearest on a sample, less than the {100 * target:.0f} % "
        "that they aim at: near items have the same codes. Set a larger `rescore` or `recall` in searches, "
        "or create an index with longer codes."
    )
