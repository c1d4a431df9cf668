"""What a rehash costs, measured: how many queries could be answered in the time that it takes."""

import time

from ..errors import NotReady
from ..store.table import Table

_QUERIES = 50
_K = 10


def measured_price(table: Table) -> tuple[float, str]:
    """Return the seconds of the last rehash over those of one query, at least 1, and the same in words.

    Queries are stored rows, one at a time.
    """
    versions = [version for version in table.versions() if version.seconds]
    if not versions:
        raise NotReady("No rehash was measured yet: give the price in queries.")
    rehash_s = float(versions[-1].seconds or 0.0)
    rows = next(iter(table.rows_after(-1))).features[:_QUERIES]
    begin = time.perf_counter()
    for row in rows:
        table.search(row, _K)
    query_s = max((time.perf_counter() - begin) / len(rows), 1e-9)
    price = max(1.0, rehash_s / query_s)
    return price, f"the last rehash took {rehash_s:.3g} s, and a query takes {query_s * 1e3:.3g} ms"
