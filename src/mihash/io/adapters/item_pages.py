"""The items of an index, a page at a time."""

from collections.abc import Iterator

from ...index.online_index import OnlineIndex
from ...store.question import Item


def item_pages(index: OnlineIndex, at_once: int = 2000) -> Iterator[list[Item]]:
    """Yield every item, oldest first, in lists of up to ``at_once``.

    Examples
    --------
    >>> import tempfile, mihash
    >>> with mihash.open(tempfile.mkdtemp(), n_bits=16) as index:
    ...     keys = index.add([[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]], keys=["a", "b", "c"])
    ...     [[item.key for item in page] for page in item_pages(index, 2)]
    [['a', 'b'], ['c']]
    """
    keys = index.keys(limit=at_once)
    while keys:
        yield index.get(keys)
        keys = index.keys(after=keys[-1], limit=at_once)
