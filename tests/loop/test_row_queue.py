import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mihash.loop.row_queue import RowQueue


def rows(first, n):
    return np.arange(first, first + n, dtype=np.float32)[:, None]


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 9), st.integers(0, 15), st.integers(0, 20)), max_size=15
    ),
    st.booleans(),
)
def test_rows_leave_in_the_order_in_which_they_came(steps, labelled):
    """Whatever is put, taken and dropped: each row once, in order, and `through` names the last that is due."""
    queue, numbers, n_put, n_due, n_dropped = RowQueue(), [], 0, 0, 0
    for size, gap, taken, dropped in steps:
        vectors = rows(n_put, size)
        first = (numbers[-1] if numbers else -1) + gap + 1  # rows that are not learned from lie between
        numbers += range(first, first + size)
        queue.put(vectors, vectors[:, 0].astype(int) if labelled else None, first + size - 1)
        n_put += size
        queue.take(taken)
        n_due = min(n_put, n_due + taken)
        assert (queue.due, queue.later) == (n_due - n_dropped, n_put - n_due)
        assert queue.through == (numbers[n_due - 1] if n_due else -1)
        n = min(dropped, queue.due)
        if n:
            head = queue.head(n)
            assert head.vectors.ravel().tolist() == list(range(n_dropped, n_dropped + n))
            assert (head.labels is None) == (not labelled)
            assert head.labels is None or head.labels.tolist() == head.vectors.ravel().tolist()
        queue.drop(n)
        n_dropped += n


def test_all_vectors_are_converted():
    queue = RowQueue()
    assert queue.first is None
    for first in (0, 5):
        queue.put(rows(first, 5), None)
    queue.take(7)
    queue.convert(lambda vectors: 2 * vectors)
    assert queue.head(10).vectors.ravel().tolist() == list(range(0, 20, 2))
    assert (queue.due, queue.later) == (7, 3)


def test_numbers_count_on():
    queue = RowQueue()
    queue.put(rows(0, 3), None)
    queue.put(rows(3, 4), None)
    queue.take(5)
    assert queue.through == 4
    queue.take()
    assert queue.through == 6


@pytest.mark.parametrize("n", [0, None])
def test_nothing_to_take(n):
    queue = RowQueue()
    queue.put(rows(0, 0), None)
    queue.take(n)
    assert (queue.due, queue.later, queue.through, queue.first) == (0, 0, -1, None)
