"""When MomentHash takes information steps, how many on a block, and when it recomputes its basis."""

FIRST_REFRESH = 100  # examples; then 200, 400, 800, 1600, and so on by `next_refresh`
_EVERY = 1000  # examples between refreshes later, or a share of those in the moments:
_SHARE_LABELLED, _SHARE = 0.1, 0.2
_EARLY, _EARLY_PER_CLASS, _MOST_STEPS = 3000, 20, 10
_SETTLED, _SETTLED_PER_CLASS = 10_000, 1000  # examples until information steps are taken on fewer blocks:
_LATER_BLOCKS = 3  # on every third block
_OFTEN = 5000  # examples; without labels, steps are taken on every n-th block of a stream n times as long,
_RARELY = 20  # but on at least one block in _RARELY


def n_steps(since: int, n_classes: int, replay: int) -> int:
    """Return how many steps to take on a block with labels: several while the stream is young.

    One on the block of an alarm: until the next refresh the basis is that of the old stream, and several steps in
    it would separate the codes of new rows from those of old rows.

    Examples
    --------
    >>> [n_steps(since, n_classes=10, replay=0) for since in (0, 100, 1000, 5000)]
    [1, 10, 3, 1]
    """
    if not since:
        return 1
    early = max(_EARLY, _EARLY_PER_CLASS * n_classes)
    return max(replay, min(max(round(early / since), 1), _MOST_STEPS))


def takes_steps(labelled: bool, since: int, n_blocks: int, n_classes: int, replay: int) -> bool:
    """Tell whether to take information steps on a block; on fewer ones when little is left to learn.

    With labels and replay they are taken on every block.

    Examples
    --------
    >>> [takes_steps(False, since=10_000, n_blocks=n, n_classes=0, replay=0) for n in (100, 101)]
    [True, False]
    >>> [takes_steps(True, since=20_000, n_blocks=200, n_classes=10, replay=replay) for replay in (0, 5)]
    [False, True]
    """
    if not labelled:
        return n_blocks % min(_RARELY, max(1, since // _OFTEN)) == 0
    return bool(replay) or since <= max(_SETTLED, _SETTLED_PER_CLASS * n_classes) or n_blocks % _LATER_BLOCKS == 0


def next_refresh(due: int, labelled: bool, weight: float, block_size: int) -> int:
    """Return after how many examples the basis is recomputed next, after the refresh at ``due``.

    Parameters
    ----------
    due
        When it was due.
    labelled
        Whether there are labels.
    weight
        How many examples count in the moments.
    block_size
        Refreshes are at multiples of it.

    Examples
    --------
    >>> next_refresh(400, True, 400.0, 100), next_refresh(1600, True, 20_000.0, 100)
    (800, 3600)
    """
    if due < _EVERY:
        return 2 * due
    share = _SHARE_LABELLED if labelled else _SHARE
    return due + max(_EVERY, int(share * weight) // block_size * block_size)
