"""Runbooks that are made from vectors."""

import numpy as np
import pytest

from mihash.errors import InvalidInput, UnknownName
from mihash.runbooks.runbook import Runbook, live_rows
from mihash.runbooks.workload import KINDS, made

rng = np.random.default_rng(0)
X = (5 * rng.standard_normal((8, 6))[rng.integers(0, 8, 430)] + rng.standard_normal((430, 6))).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_comes_once_and_queries_never(kind):
    workload = made(kind, X, n_steps=10, n_queries=30)
    inserted = [row for step in workload.runbook.steps for row in step.rows]
    assert sorted(inserted) == list(range(400))
    assert {row.tobytes() for row in workload.X} | {row.tobytes() for row in workload.queries} == {
        row.tobytes() for row in X
    }
    assert workload.queries.shape == (30, 6)
    assert Runbook.from_text(workload.runbook.to_text()) == workload.runbook
    again = made(kind, X, n_steps=10, n_queries=30)
    assert np.array_equal(again.X, workload.X)
    assert again.runbook == workload.runbook


def test_a_window_slides():
    live = live_rows(made("sliding-window", X, n_steps=10, n_queries=30).runbook)
    assert [tags.min() for tags, _ in live] == [0, 0, 0, 0, 0, 0, 40, 80, 120, 160]
    assert [len(tags) for tags, _ in live] == [40, 80, 120, 160, 200, 240, 240, 240, 240, 240]


def test_items_expire():
    live = live_rows(made("expiration", X, n_steps=20, n_queries=30).runbook)
    lasting = [sum(tag in tags for tags, _ in live) for tag in range(20)]
    assert lasting == [2] * 15 + [10] * 3 + [20] * 2  # of the first 20: 10, 2 and 1 in 13


def test_clusters_come_one_after_the_other():
    workload = made("clustered", X, n_steps=8, n_queries=30)
    live = live_rows(workload.runbook)
    assert len(live) == 8
    parts = [workload.X[step.rows.start : step.rows.stop] for step in workload.runbook.steps if len(step.rows)]
    assert np.mean([part.std(axis=0).mean() for part in parts]) < 0.6 * X.std(axis=0).mean()
    assert len(live[-1][0]) < 400


def test_refused():
    with pytest.raises(UnknownName, match="sliding-window, expiration, clustered"):
        made("random", X)
    with pytest.raises(InvalidInput, match="too few"):
        made("clustered", X, n_queries=400)
