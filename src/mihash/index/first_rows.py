"""The code length of an index that none was given for: chosen when its first rows come."""

from dataclasses import replace

from ..online import RandomRotation
from ..store.change import Change
from ..store.sqlite.settings import write_settings
from ..store.table import Table
from .options import MOST_BITS, N_BITS, Options


def default_bits(n_features: int, labelled: bool, learner: str = "") -> int:
    """Return the code length of an index that none was given for, by what its first rows are.

    With labels, more than 64 bits gain little. Without, recall grows with the bits, as long as there are
    directions to tell apart. A random rotation has as many bits as there are features.

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


def with_code_length(table: Table, options: Options, change: Change, labelled: bool) -> Options:
    """Return the options, with a code length that is chosen by the first rows and stored; else as they are."""
    first = len(change.vectors) and table.last < 0 and table.setting("choose_bits")
    if not first or table.database.read_only:
        return options
    chosen = replace(options, n_bits=default_bits(change.vectors.shape[1], labelled, options.learner))
    if chosen != options:
        with table.database.write() as connection:
            write_settings(connection, options=chosen.to_text())
        table.settled(options=chosen.to_text())
    return chosen
