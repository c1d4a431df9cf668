import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.mapping.factors import estimates, factors_of
from mihash.store.question import Question
from mihash.store.recall_target import _NEVER, _Moment

rng = np.random.default_rng(0)
X = (rng.standard_normal((20, 12))[rng.integers(0, 20, 900)] + 0.4 * rng.standard_normal((900, 12))).astype("f4")
Q = X[:4] + np.float32(0.1)


def made(folder, **options):
    index = mihash.open(folder, **{"n_bits": 40, "learner": "lsh"} | options)
    index.add(X[:500])
    index.add(X[500:])
    index.wait()
    return index


def test_codes_are_ranked_by_the_estimate_and_come_back_as_they_were(tmp_path):
    index = made(tmp_path / "index")
    edition = index._table.edition
    assert np.array_equal(edition.factors, factors_of(edition.mapping.margins(X), 12))
    question = Question(Q, 20, factors=True)
    hits = question.hits(index._table.nearest(question))
    margins, codes = edition.mapping.margins(Q), edition.mapping.encode(X)
    for query, own, keys, distances in zip(Q, margins, hits.keys, hits.distances, strict=True):
        bits = np.unpackbits(codes ^ edition.mapping.encode(query), axis=1, bitorder="little", count=40)
        sums, rows = (bits * own).sum(axis=1)[None].astype("f4"), np.arange(len(codes))[None]
        found = estimates(sums, own[None], edition.factors, rows, 12)[0]
        assert distances == pytest.approx(np.sort(found)[:20], rel=1e-4, abs=1e-5)
        assert found[keys] == pytest.approx(distances, rel=1e-4, abs=1e-5)
    index.delete([3, 700])
    index.compact()
    before = index.search(Q, 20, rescore=0)
    assert index.verify()["rows"] == 898
    index.close()
    with mihash.open(tmp_path / "index") as again:
        assert np.array_equal(
            again._table.edition.factors, factors_of(edition.mapping.margins(np.delete(X, [3, 700], 0)), 12)
        )
        after = again.search(Q, 20, rescore=0)
        assert after.keys.tolist() == before.keys.tolist()
        assert after.distances.tolist() == before.distances.tolist()
        with pytest.raises(
            InvalidInput, match="created with factors=None, and its codes have the two bytes; got factors=False"
        ):
            mihash.OnlineIndex.open_or_create(tmp_path / "index", read_only=True, factors=False)


def test_an_index_without_them_has_codes_alone(tmp_path):
    with made(tmp_path / "index", factors=False) as index:
        assert not index._table.edition.has_factors
        with index._table.database.read() as connection:
            sizes = connection.execute("SELECT length(codes), n FROM code").fetchall()
        assert all(size == 5 * n for size, n in sizes)
    with pytest.raises(InvalidInput, match="`factors` must be True, False or None"):
        mihash.open(tmp_path / "other", factors="yes")


def test_codes_learned_from_labels_have_none_unless_asked_for(tmp_path):
    for factors, expected in ((None, False), (True, True)):
        with mihash.open(tmp_path / str(factors), factors=factors, learner="momenthash", n_bits=16) as index:
            index.add(X, np.arange(900) % 5)
            index.wait()
            assert index._table.edition.has_factors == expected
            index.verify()


def test_an_existing_index_is_opened_with_what_it_has(tmp_path):
    """By default codes have the two bytes unless there are labels: to ask for what there is, is no error."""
    with mihash.open(tmp_path / "plain", n_bits=16) as index:
        index.add(X)
    with mihash.open(tmp_path / "labelled", n_bits=16) as index:
        index.add(X, np.arange(900) % 5)
    for name, has in (("plain", True), ("labelled", False)):
        mihash.open(tmp_path / name, factors=has).close()
        with pytest.raises(
            InvalidInput, match=f"created with factors=None.*got factors={not has}. Leave `factors` out"
        ):
            mihash.open(tmp_path / name, factors=not has)
        with pytest.raises(InvalidInput, match="must be True, False or None"):
            mihash.open(tmp_path / name, factors="yes")


@pytest.mark.parametrize("factors", [True, False])
def test_an_index_without_rows_takes_them_over(tmp_path, factors):
    mihash.open(tmp_path / "index").close()
    with mihash.open(tmp_path / "index", factors=factors) as index:
        index.add(X, np.arange(900) % 5)
        assert index._table.edition.has_factors == factors
    with pytest.raises(InvalidInput, match=f"created with factors={factors}"):
        mihash.open(tmp_path / "index", factors=not factors)


def test_they_are_used_where_they_find_more(tmp_path):
    for n_bits in (6, 12, 96):
        with made(tmp_path / str(n_bits), learner="randomrotation", n_bits=n_bits) as index:
            recalls = []
            for factors in (False, True):
                index._table.target._factors_pay = (_Moment(index.version, index._table.last, len(index)), factors)
                recalls.append(index.evaluate(rescore=100).candidates)
            index._table.target._factors_pay = (_NEVER, False)
            assert index._table.target.factors_pay(Question(Q)) == (recalls[1] > recalls[0])
            assert index.evaluate(rescore=100).candidates == max(recalls)
            assert not index._table.target.factors_pay(Question(Q, margins=False))
            assert not index._table.target.factors_pay(Question(Q, radius=3))


@pytest.mark.parametrize(
    ("d", "labels", "learner", "expected"),
    [
        (12, False, "momenthash", 64),
        (64, False, "momenthash", 64),
        (100, True, "momenthash", 64),
        (100, False, "randomrotation", 256),
        (300, False, "randomrotation", 300),
        (600, False, "randomrotation", 512),
    ],
)
def test_learner_and_code_length_are_chosen_by_the_first_rows(tmp_path, d, labels, learner, expected):
    rows = rng.standard_normal((300, d))
    with mihash.open(tmp_path / "index") as index:
        with pytest.raises(InvalidInput):
            index.add(rows * np.nan)
        index.add(rows, np.arange(300) % 3 if labels else None)
        index.wait()
        assert index.stats()["learner"] == index.options.learner == learner
        assert index.stats()["n_bits"] == index.snapshot.n_bits == index.options.n_bits == expected
        before = index.search(rows[:3], rescore=0)
    with mihash.open(tmp_path / "index") as index:
        assert index.options.n_bits == expected
        assert index.search(rows[:3], rescore=0).distances.tolist() == before.distances.tolist()
        index.add(rows + 1, np.arange(300) % 3 if labels else None)


def test_labels_after_rows_that_were_refused_choose_again(tmp_path):
    rows = rng.standard_normal((300, 100))
    with mihash.open(tmp_path / "index") as index:
        with pytest.raises(InvalidInput):
            index.add(rows, keys=[1] * 300)
        index.add(rows, np.arange(300) % 3)
        assert (index.options.learner, index.options.n_bits) == ("momenthash", 64)


@pytest.mark.parametrize(
    "given",
    [
        {"n_bits": 128},
        {"learner": "momenthash"},
        {"trigger": mihash.PriceUpdate(20)},
        {"drift": mihash.DriftWatch()},
        {"normalize": False},
        {"factors": False},
    ],
)
def test_who_gives_an_option_of_learning_gets_a_learner(tmp_path, given):
    with mihash.open(tmp_path / "index", **given) as index:
        index.add(rng.standard_normal((50, 100)))
        assert (index.options.learner, index.options.n_bits) == ("momenthash", 128)


def test_a_code_length_that_was_given_stays(tmp_path):
    for number, options in enumerate([{"n_bits": 24}, {"learner": mihash.online.LSH(48)}]):
        with mihash.open(tmp_path / str(number), **options) as index:
            index.add(rng.standard_normal((50, 100)))
            assert index.snapshot.n_bits == (24, 48)[number]
