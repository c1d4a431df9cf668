"""Chooses the learner and the code length from the first rows, if `create` was not given them."""

from dataclasses import replace
from typing import Any

from ..errors import InvalidInput
from ..online import MomentHash, RandomRotation
from ..store.change import Change
from ..store.sqlite.settings import UNLESS_LABELLED, with_factors
from ..store.table import Table
from .options import MOST_BITS, N_BITS, Options

_FEWEST, _MOST = 256, 512  # bits of a random rotation that was chosen here


def default_learner(n_features: int, labelled: bool) -> tuple[str, int]:
    """Return the default learner and code length of an index created without options about learning.

    Without labels and with more than 64 features, a random rotation with longer codes finds more, in less time,
    than codes that are learned and shorter (docs/choosing.md).

    Examples
    --------
    >>> default_learner(384, labelled=True), default_learner(64, labelled=False)
    (('momenthash', 64), ('momenthash', 64))
    >>> [default_learner(n_features, labelled=False) for n_features in (96, 384, 1536)]
    [('randomrotation', 256), ('randomrotation', 384), ('randomrotation', 512)]
    """
    if labelled or n_features <= N_BITS:
        return MomentHash.name, default_bits(n_features, labelled)
    return RandomRotation.name, min(max(n_features, _FEWEST), _MOST)


def default_bits(n_features: int, labelled: bool, learner: str = "") -> int:
    """Return the default code length of a learner that was given without one, by the first rows.

    With labels, more than 64 bits gain little. Without, recall grows with the bits, as long as there are
    directions to distinguish. A random rotation has as many bits as there are features.

    Examples
    --------
    >>> default_bits(384, labelled=False), default_bits(384, labelled=True), default_bits(16, labelled=False)
    (128, 64, 64)
    >>> default_bits(384, labelled=False, learner="randomrotation")
    384
    """
    if learner == RandomRotation.name:
        return min(n_features, MOST_BITS)
    return N_BITS if labelled or n_features <= N_BITS else 2 * N_BITS


def with_choices(table: Table, options: Options, change: Change, labelled: bool) -> Options:
    """Choose learner and bits from the first rows, and store the choice; return the options with it."""
    if not len(change.vectors) or not table.setting("choose_bits") or table.database.read_only:
        return options
    learner, about = options.learner, (change.vectors.shape[1], labelled)
    if table.setting("choose_learner"):
        learner, n_bits = default_learner(*about)
    else:
        n_bits = default_bits(*about, learner)
    chosen = replace(options, learner=learner, n_bits=n_bits)
    if chosen != options:
        table.store_settings(options=chosen.to_text())
    return chosen


def settled(table: Table, options: Options, n_bits: Any, learner: Any, trigger: Any) -> Options:
    """Store options given before the first rows, in place of what these would choose; return the options."""
    if (n_bits, learner, trigger) == (None, None, None) or not table.setting("choose_bits") or table.last >= 0:
        return options
    kept = {name: getattr(options, name) for name in ("drift", "metric", "normalize", "reservoir_size")}
    rule = options.trigger if trigger is None else trigger
    chosen = Options.chosen(n_bits, learner, rule, options.seed, **kept)
    is_open = n_bits is None and isinstance(learner, str | None)
    table.store_settings(options=chosen.to_text(), choose_bits=int(is_open), choose_learner=0)
    return chosen


def settle_factors(table: Table, factors: bool | None, read_only: bool) -> None:
    """Check that ``factors`` is what the index was created with; an index without rows stores it.

    By default an index stores the two bytes unless its rows have labels; ``factors`` is then compared with what it
    stores.
    """
    if factors is None:
        return
    if not isinstance(factors, bool):
        raise InvalidInput(f"`factors` must be True, False or None; got {factors!r:.80}.")
    settings = {name: table.setting(name) for name in ("factors", "labels")}
    by_default, has = settings["factors"] == UNLESS_LABELLED, with_factors(settings)
    if by_default and table.last < 0 and not read_only:
        table.store_settings(factors=int(factors), choose_learner=0)  # as `create` does
    elif factors != has:
        stored, verb = None if by_default else bool(settings["factors"]), "have" if has else "do not have"
        raise InvalidInput(
            f"This index was created with factors={stored}, and its codes {verb} the two bytes; got "
            f"factors={factors}. Leave `factors` out, or create another index."
        )
