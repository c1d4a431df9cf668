"""A small table whose codes do not find who is near is searched exactly, by vectors in memory."""

import threading
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import mihash
from mihash.errors import DeadlineExceeded
from mihash.mapping import LinearMapping
from mihash.store.change import Change
from mihash.store.held_vectors import EVERY
from mihash.store.question import Question
from mihash.store.rescoring import Rows, distances_to, nearest_of
from mihash.store.sqlite.deadline import deadline
from mihash.store.sqlite.sqlite_table import SQLiteTable

D, N = 6, 4000


def rows(n=N, seed=0):
    own = np.random.default_rng(seed)
    return (own.standard_normal((n, D)) * np.exp(2 * own.standard_normal((n, 1)))).astype(np.float32)


def made(folder, metric="euclidean"):
    table = SQLiteTable.create(folder, metric=metric)
    table.rebuild(
        LinearMapping(np.random.default_rng(1).standard_normal((D, 1)))
    )  # one bit: it tells next to nothing
    return table


def true_nearest(stored, query, k, metric):
    """Return the keys of the k nearest of ``stored``, (key, vector) by age, by (distance, age), in plain loops."""
    found = []
    for age, (key, vector) in enumerate(stored):
        x, q = [float(each) for each in vector], [float(each) for each in query]
        inner = sum(a * b for a, b in zip(x, q, strict=True))
        if metric == "euclidean":
            distance = sum((a - b) ** 2 for a, b in zip(x, q, strict=True))
        elif metric == "ip":
            distance = -inner
        else:
            lengths = (sum(a * a for a in x) * sum(b * b for b in q)) ** 0.5
            distance = 1 - inner / lengths if lengths else 1.0
        found.append((distance, age, key))
    return [key for _, _, key in sorted(found)[:k]]


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "ip"])
def test_answers_are_exact_while_rows_come_and_go(tmp_path, metric):
    X, Q = rows(), rows(5, seed=5)
    X[40] = X[41] = X[42]  # ties go by age
    X[7], X[8], X[9] = 0, 1e-40, 1e-22
    with closing(made(tmp_path / "index", metric)) as table:
        table.add(X[:3000], metadata=[{"part": i % 7} for i in range(3000)])
        assert table.target.choice(10) == (EVERY, 1.0, None)
        stored = dict(enumerate(X[:3000]))
        for change in range(4):
            if change == 1:
                table.add(X[3000:], metadata=[{"part": i % 7} for i in range(3000, N)])
                stored |= dict(enumerate(X[3000:], 3000))
            elif change == 2:
                table.delete(list(range(0, 300, 2)))
                stored = {key: x for key, x in stored.items() if key >= 300 or key % 2}
            elif change == 3:
                table.write(Change.upsert(Q[:2], [1, 5000], metadata=[{"part": 3}] * 2))
                stored.pop(1)
                stored |= {1: Q[0], 5000: Q[1]}
            hits = table.search(Q, 10)
            assert hits.measure == metric
            assert hits.keys.tolist() == [true_nearest(list(stored.items()), q, 10, metric) for q in Q]
            parts = [
                (key, x)
                for key, x in stored.items()
                if (3 if key in (5000,) or (key == 1 and change == 3) else key % 7) == 3
            ]
            filtered = table.search(Q, 10, where={"part": 3}).keys.tolist()
            assert filtered == [true_nearest(parts, q, 10, metric) for q in Q]
            assert table.search(X[42], 3).keys.tolist() == table.search(X[42][None], 3).keys[0].tolist()


def test_distances_and_ties_are_those_of_a_search_that_looks_vectors_up(tmp_path, monkeypatch):
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        held = table.search(rows(30, seed=3), 15)
        monkeypatch.setattr("mihash.store.sqlite.answers.MOST_NUMBERS", 0)
        looked_up = table.search(rows(30, seed=3), 15, rescore=N)
        assert held.measure == looked_up.measure
        assert held.keys.tolist() == looked_up.keys.tolist()
        assert held.distances.tobytes() == looked_up.distances.tobytes()


def test_rows_that_compact_removes_are_forgotten(tmp_path):
    X = rows()
    with mihash.open(tmp_path / "index", n_bits=1, learner="lsh") as index:
        index.add(X)
        index.wait()
        assert index.search(X[500], 1).keys.tolist() == [500]
        assert (index.stats().rescore, index.stats().recall) == (N, 1.0)
        index.delete(list(range(100)))
        index.compact()
        stored = list(enumerate(X))[100:]
        keys = index.search(rows(5, seed=9), 10).keys.tolist()
        assert keys == [true_nearest(stored, q, 10, "euclidean") for q in rows(5, seed=9)]


def test_a_reader_follows(tmp_path):
    X = rows()
    with (
        closing(made(tmp_path / "index")) as table,
        closing(SQLiteTable(tmp_path / "index", read_only=True)) as reader,
    ):
        table.add(X[:800])
        assert reader.search(X[3], 1).keys.tolist() == [3]
        table.add(X[800:])
        assert reader.search(X[850], 1).keys.tolist() == [850]
        table.delete([850])
        assert reader.search(X[850], 1).keys.tolist() != [850]


def test_threads_search_while_rows_come(tmp_path):
    X, Q, wrong = rows(), rows(20, seed=8), []
    with closing(made(tmp_path / "index")) as table:
        table.add(X[:3000])
        table.search(Q[0])
        true = {
            n: [true_nearest(list(enumerate(X[:n])), q, 5, "euclidean") for q in Q]
            for n in range(3000, N + 1, 250)
        }

        def search():
            for _ in range(10):
                found = table.search(Q, 5).keys.tolist()
                if found not in true.values():
                    wrong.append(found)

        threads = [threading.Thread(target=search) for _ in range(4)]
        for thread in threads:
            thread.start()
        for start in range(3000, N, 250):
            table.add(X[start : start + 250])
        for thread in threads:
            thread.join()
        assert not wrong
        assert table.search(Q, 5).keys.tolist() == true[N]


def test_a_search_of_an_older_edition_is_exact_after_more_rows_were_read(tmp_path):
    X = rows()
    with closing(made(tmp_path / "index")) as table:
        table.add(X[:2000])
        table.search(X[0])
        older, question = table.edition, table.target.chosen(Question.of(X[5:6], D, k=3))
        assert question.compares_all
        table.add(X[2000:2100])
        table.search(X[0])
        ((ids, _),) = table.answers.nearest(older, question, True).found
        assert ids.tolist() == true_nearest(list(enumerate(X[:2000])), X[5], 3, "euclidean")


def test_tiny_numbers_are_not_mixed_up(tmp_path):
    """Their products are rounded to nothing in float32."""
    X, Q = rows() * np.float32(1e-22), rows(5, seed=2) * np.float32(1e-22)
    for metric in ("euclidean", "ip"):
        with closing(made(tmp_path / metric, metric)) as table:
            table.add(X)
            question = replace(Question.of(Q, D, k=10, rescore=0), compares_all=True)
            found = [ids.tolist() for ids, _ in table.nearest(question).found]
            assert found == [true_nearest(list(enumerate(X)), q, 10, metric) for q in Q]


def test_a_search_that_is_late_is_stopped(tmp_path):
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        table.search(rows(1), 5)
        with deadline(time.monotonic() + 0.05), pytest.raises(DeadlineExceeded):
            table.search(np.repeat(rows(200, seed=4), 100, axis=0), 5)


def test_a_table_that_has_become_too_large_looks_up_candidates(tmp_path, monkeypatch):
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        assert table.target.choice(10).rescore == EVERY
        monkeypatch.setattr("mihash.store.sqlite.answers.MOST_NUMBERS", N * D // 2 - 1)
        hits = table.search(rows(3, seed=6), 5)
        assert hits.measure == "euclidean"
        assert hits.keys.shape == (3, 5)


def test_an_index_whose_items_are_all_deleted(tmp_path):
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        table.search(rows(1), 5)
        table.delete(list(range(N)))
        assert table.search(rows(1), 5).keys.shape == (1, 0)
        plain = table.search(rows(1), 5, rescore=0, margins=False)
        assert (plain.measure, plain.distances.dtype.kind) == ("hamming", "i")


def test_the_recall_of_an_exact_search_is_one(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=1, learner="lsh") as index:
        index.add(rows())
        index.wait()
        found = index.evaluate(10, 50)
        assert (found.rescored, found.candidates, found.rescore) == (1.0, 1.0, N - 1)
        assert found.recall < 0.5
        assert index.search(key=5, k=3).keys.tolist() == true_nearest(
            [(key, x) for key, x in enumerate(rows()) if key != 5], rows()[5], 3, "euclidean"
        )


def test_a_large_table_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr("mihash.store.recall_target.MOST_NUMBERS", N * D - 1)
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        assert table.target.choice(10).rescore <= N


def held(table):
    return table.answers._held._rows


def test_what_was_read_before_a_deadline_is_kept(tmp_path, monkeypatch):
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        choice = table.target.choice(10)
        table.free_vectors()
        late = iter([True, True])
        monkeypatch.setattr("mihash.store.held_vectors.is_late", lambda: next(late, False))
        monkeypatch.setattr("mihash.store.sqlite.segments.SCAN_ROWS", 500)
        asked = replace(Question.of(rows(2, seed=3), D, k=5, rescore=0), compares_all=True)
        sizes = []
        for _ in range(2):
            with pytest.raises(DeadlineExceeded):
                table.nearest(asked)
            sizes.append(table.answers._held._n)
        assert 0 < sizes[0] < sizes[1] < N
        found = [ids.tolist() for ids, _ in table.nearest(asked).found]
        assert found == [true_nearest(list(enumerate(rows())), q, 5, "euclidean") for q in asked.queries]
        assert choice.rescore == EVERY


def test_many_queries_and_rows_are_compared_in_parts(tmp_path, monkeypatch):
    Q = rows(30, seed=3)
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        whole = table.search(Q, 7)
        monkeypatch.setattr("mihash.store.held_vectors._ROWS", 999)
        monkeypatch.setattr("mihash.store.held_vectors._SCORES", 3 * N)
        parts = table.search(Q, 7)
        assert parts.keys.tolist() == whole.keys.tolist()
        assert parts.distances.tobytes() == whole.distances.tobytes()


def test_a_large_number_of_candidates_is_a_number(tmp_path, monkeypatch):
    Q = rows(4, seed=3)
    with closing(made(tmp_path / "index")) as table:
        table.add(rows())
        monkeypatch.setattr("mihash.store.sqlite.answers.MOST_NUMBERS", 0)
        for many in (EVERY - 1, EVERY, 2**62):
            found = table.search(Q, 5, rescore=many).keys.tolist()
            assert found == [true_nearest(list(enumerate(rows())), q, 5, "euclidean") for q in Q]
    with mihash.open(tmp_path / "other", n_bits=1, learner="lsh") as index:
        index.add(rows())
        assert index.evaluate(10, 20, rescore=2**31 - 1).rescored == 1.0


def test_the_memory_is_freed_once_codes_find_enough(tmp_path):
    near = np.random.default_rng(2).standard_normal((N, D)).astype(np.float32)
    with closing(made(tmp_path / "index")) as table:
        table.add(near)
        table.search(near[0])
        assert held(table) is not None
        table.rebuild(LinearMapping(np.random.default_rng(1).standard_normal((D, 128))))
        assert table.search(near[0], 5).keys[0] == 0
        assert table.target.choice(10).rescore < EVERY
        assert held(table) is None


def test_one_long_row_does_not_make_all_others_near():
    X = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)
    X[17] *= 1e6
    compared = []

    def counted(query, vectors, metric, near):
        compared.append(len(near))
        return distances_to(query, vectors, metric, near)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mihash.store.rescoring.distances_to", counted)
        ((ids, _),) = nearest_of(Rows.of(np.arange(3000), X), X[5:6], 10, "euclidean")
    assert ids.tolist() == true_nearest(list(enumerate(X)), X[5], 10, "euclidean")
    assert compared[0] < 30
