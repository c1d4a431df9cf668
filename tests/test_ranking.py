"""Retrieval measures against plain loops, all tie orders, scikit-learn and trec_eval."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_ranking as oracle
from mihash import pack, ranking
from mihash.errors import InvalidInput

TIES = ("expected", "best", "worst", "index")
DIVISORS = ("retrieved", "relevant")
quick = settings(max_examples=60)


def problem(seed, n_queries, n, n_bits, rate=0.4):
    rng = np.random.default_rng(seed)
    queries, database = rng.random((n_queries, n_bits)) < 0.5, rng.random((n, n_bits)) < 0.5
    return queries, database, rng.random((n_queries, n)) < rate


def agree(values, expected):
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-13)


def expect(measure, queries, database, relevant, ties):
    """Return an oracle's value for each query."""
    values = []
    for query, flags in zip(queries, relevant, strict=True):
        if ties == "index":
            values.append(measure(oracle.ranked_by_index(query, database, flags)))
        else:
            values.append(oracle.over_ties(measure, oracle.all_rankings(query, database, flags), ties))
    return values


@st.composite
def small_problems(draw):
    n_bits = draw(st.integers(1, 3))
    n = draw(st.integers(1, 8))
    bits = draw(st.lists(st.integers(0, 2**n_bits - 1), min_size=n + 1, max_size=n + 1))
    flags = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    rows = np.array([[value >> k & 1 for k in range(n_bits)] for value in bits], dtype=np.bool_)
    return rows[:1], rows[1:], np.array([flags])


# Against all orders of the ties


@quick
@given(small_problems(), st.one_of(st.none(), st.integers(1, 10)))
def test_average_precision_is_that_of_all_tie_orders(case, top):
    queries, database, relevant = case
    for ties in TIES:
        for divisor in DIVISORS:
            measure = functools.partial(oracle.average_precision, top=top, divisor=divisor)
            got = ranking.average_precision(
                pack(queries), pack(database), relevant, queries.shape[1], top, ties, divisor
            )
            agree(got, expect(measure, queries, database, relevant, ties))


@quick
@given(small_problems(), st.integers(1, 10))
def test_gains_and_precision_are_those_of_all_tie_orders(case, top):
    queries, database, relevant = case
    arguments = pack(queries), pack(database), relevant, queries.shape[1], top
    for ties in TIES:
        for name in ("dcg", "ndcg", "precision_at"):
            measure = functools.partial(getattr(oracle, name), top=top)
            got = getattr(ranking, name)(*arguments, ties)
            agree(got, expect(measure, queries, database, relevant, ties))


@pytest.mark.parametrize("divisor", DIVISORS)
def test_choices_of_places_stand_for_permutations(divisor):
    queries, database, relevant = problem(3, 1, 7, 2)
    for top in (2, 4, None):
        measure = functools.partial(oracle.average_precision, top=top, divisor=divisor)
        for ties in ("expected", "best", "worst"):
            orders = oracle.every_order(queries[0], database, relevant[0])
            got = ranking.average_precision(pack(queries), pack(database), relevant, 2, top, ties, divisor)
            agree(got, [oracle.over_ties(measure, orders, ties)])


def test_more_relevant_items_in_the_cut_level_are_not_always_best():
    # A hit, two misses, then a level of a miss and a hit of which one is retrieved: AP@4 is 1/1 with the
    # miss, and (1/1 + 2/4) / 2 with the hit.
    database = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 1]], dtype=np.bool_)
    relevant = [[True, False, False, False, True]]
    arguments = pack(database[:1]), pack(database), relevant, 3, 4
    agree(ranking.average_precision(*arguments, ties="best"), [1.0])
    agree(ranking.average_precision(*arguments, ties="worst"), [(1 + 2 / 4) / 2])
    agree(ranking.average_precision(*arguments, ties="best", divisor="relevant"), [(1 + 2 / 4) / 2])
    agree(ranking.average_precision(*arguments, ties="worst", divisor="relevant"), [1 / 2])


def test_a_shuffle_of_large_ties_has_the_expected_mean():
    queries, database, relevant = problem(8, 1, 300, 4, rate=0.3)
    rng = np.random.default_rng(9)
    for top in (None, 40):
        for divisor in DIVISORS:
            values = []
            for _ in range(1500):
                order = rng.permutation(300)
                values.append(
                    ranking.average_precision(
                        pack(queries), pack(database[order]), relevant[:, order], 4, top, "index", divisor
                    )[0]
                )
            got = ranking.average_precision(pack(queries), pack(database), relevant, 4, top, divisor=divisor)[0]
            assert abs(got - np.mean(values)) < 4 * np.std(values) / math.sqrt(len(values))


def test_a_large_cut_level_sums_its_hypergeometric_counts():
    n, r, m = 400, 150, 90  # all items at one distance: AP@m is the mean over x of E[S | x] / x
    relevant = np.zeros((1, n), dtype=np.bool_)
    relevant[0, :r] = True
    expected = 0.0
    for x in range(1, m + 1):
        probability = math.comb(r, x) * math.comb(n - r, m - x) / math.comb(n, m)
        among = [(1 + (x - 1) / (m - 1) * (i - 1)) / i for i in range(1, m + 1)]  # precision, given a hit at i
        expected += probability * math.fsum(among) / m
    codes = np.zeros((n, 1), dtype=np.uint8)
    agree(ranking.average_precision(codes[:1], codes, relevant, 8, m), [expected])


# Against outside references


def test_average_precision_equals_scikit_learn_without_ties():
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(0)
    n_bits = 60
    database = np.arange(n_bits)[None, :] < rng.permutation(n_bits + 1)[:, None]  # item of distance d: d ones
    relevant = rng.random((5, n_bits + 1)) < 0.3
    codes = pack(database)
    queries = np.zeros((5, codes.shape[1]), dtype=np.uint8)
    expected = [average_precision_score(flags, -database.sum(axis=1)) for flags in relevant]
    for ties in TIES:
        agree(ranking.average_precision(queries, codes, relevant, n_bits, ties=ties), expected)


@pytest.mark.parametrize("top", [None, 1, 7, 30])
def test_gains_equal_scikit_learn_which_averages_ties(top):
    from sklearn.metrics import dcg_score, ndcg_score

    queries, database, relevant = problem(1, 6, 50, 6)
    scores = -(queries[:, None, :] != database[None, :, :]).sum(axis=2)
    got = ranking.dcg(pack(queries), pack(database), relevant, 6, top)
    normalised = ranking.ndcg(pack(queries), pack(database), relevant, 6, top)
    for i in range(6):
        agree(got[i], dcg_score(relevant[i : i + 1], scores[i : i + 1], k=top))
        agree(normalised[i], ndcg_score(relevant[i : i + 1], scores[i : i + 1], k=top))


def test_index_order_equals_trec_eval():
    import ir_measures
    from ir_measures import AP, P, nDCG

    queries, database, relevant = problem(2, 4, 80, 10)
    arguments = pack(queries), pack(database), relevant, 10
    run, judged = [], []
    for i, query in enumerate(queries):
        order = sorted(range(80), key=lambda j: (oracle.distance(query, database[j]), j))
        run += [ir_measures.ScoredDoc(str(i), str(j), float(-rank)) for rank, j in enumerate(order)]
        judged += [ir_measures.Qrel(str(i), str(j), int(relevant[i, j])) for j in range(80)]
    ours = {
        AP: ranking.average_precision(*arguments, ties="index"),
        nDCG @ 10: ranking.ndcg(*arguments, 10, "index"),
        P @ 10: ranking.precision_at(*arguments, 10, "index"),
    }
    for row in ir_measures.iter_calc(list(ours), judged, run):
        agree(ours[row.measure][int(row.query_id)], row.value)


@pytest.mark.parametrize("n_bits", [1, 8, 32, 64, 70, 128, 200, 1024])
def test_index_order_is_that_of_a_stable_sort(n_bits):
    n = 2500  # more than a block, and no multiple of four
    queries, database, relevant = problem(n_bits, 3, n + 1, n_bits, rate=0.1)
    distances = (queries[:, None, :] != database[None, :, :]).sum(axis=2)
    ranked = np.take_along_axis(relevant, np.argsort(distances, axis=1, kind="stable"), axis=1)
    arguments = pack(queries), pack(database), relevant, n_bits
    for top in (None, 100):
        for divisor in DIVISORS:
            expected = [oracle.average_precision(row.tolist(), top, divisor) for row in ranked]
            agree(ranking.average_precision(*arguments, top, "index", divisor), expected)
    agree(ranking.dcg(*arguments, 100, "index"), [oracle.dcg(row.tolist(), 100) for row in ranked])
    agree(ranking.precision_at(*arguments, 100, "index"), ranked[:, :100].mean(axis=1))


# Properties


@quick
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12), st.sampled_from([None, 1, 3, 10, 50]))
def test_worst_expected_best_are_in_order_and_between_0_and_1(seed, n, n_bits, top):
    queries, database, relevant = problem(seed, 4, n, n_bits)
    relevant[:, 0] = True
    arguments = pack(queries), pack(database), relevant, n_bits, top
    values = [
        [ranking.average_precision(*arguments, ties, divisor) for ties in ("worst", "expected", "best", "index")]
        for divisor in DIVISORS
    ]
    values.append([ranking.ndcg(*arguments, ties) for ties in ("worst", "expected", "best", "index")])
    for worst, expected, best, index in values:
        chain = np.array([np.zeros(4), worst, expected, best, np.ones(4)])
        assert (np.diff(chain, axis=0) >= -1e-12).all()
        assert (worst - 1e-12 <= index).all()
        assert (index <= best + 1e-12).all()


@quick
@given(st.integers(0, 10**6), st.sampled_from(["expected", "best", "worst"]), st.sampled_from([None, 5]))
def test_order_of_the_database_does_not_matter(seed, ties, top):
    queries, database, relevant = problem(seed, 3, 30, 5)
    order = np.random.default_rng(seed).permutation(30)
    for divisor in DIVISORS:
        before = ranking.average_precision(pack(queries), pack(database), relevant, 5, top, ties, divisor)
        after = ranking.average_precision(
            pack(queries), pack(database[order]), relevant[:, order], 5, top, ties, divisor
        )
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("ties", TIES)
def test_top_of_n_or_more_is_no_top(ties):
    queries, database, relevant = problem(4, 3, 20, 4)
    arguments = pack(queries), pack(database), relevant, 4
    for divisor in DIVISORS:
        whole = ranking.average_precision(*arguments, None, ties, divisor)
        for top in (20, 21, 10**9):
            agree(ranking.average_precision(*arguments, top, ties, divisor), whole)
    agree(ranking.precision_at(*arguments, 50, ties), relevant.mean(axis=1))


# Labels instead of a matrix


@pytest.mark.parametrize("ties", TIES)
def test_labels_equal_the_matrix(ties):
    queries, database, _ = problem(5, 6, 2100, 70)
    rng = np.random.default_rng(5)
    query_labels, labels = rng.integers(-3, 3, 6), rng.integers(-3, 3, 2100)
    same = query_labels[:, None] == labels[None, :]
    codes = pack(queries), pack(database)
    for top in (None, 50):
        agree(
            ranking.average_precision(*codes, (query_labels, labels), 70, top, ties),
            ranking.average_precision(*codes, same, 70, top, ties),
        )


def test_labels_may_be_strings():
    """Both sides are numbered together: a class that the queries lack must not shift the others."""
    queries, database, _ = problem(5, 4, 300, 16)
    names = np.array(["ant", "bee", "cat", "dog"])
    query_labels, labels = np.array([3, 1, 1, 3]), np.random.default_rng(5).integers(0, 4, 300)
    codes = pack(queries), pack(database)
    agree(
        ranking.average_precision(*codes, (names[query_labels].tolist(), names[labels]), 16),
        ranking.average_precision(*codes, (query_labels, labels), 16),
    )
    objects = names.astype(object)
    agree(
        ranking.average_precision(*codes, (objects[query_labels], objects[labels]), 16),
        ranking.average_precision(*codes, (query_labels, labels), 16),
    )
    with pytest.raises(InvalidInput, match="`labels` must be strings, like `query_labels`; got integers"):
        ranking.average_precision(*codes, (names[query_labels], labels), 16)
    with pytest.raises(InvalidInput, match="one label for each of the 300 rows"):
        ranking.average_precision(*codes, (names[query_labels], names[labels[:-1]]), 16)


@pytest.mark.parametrize("n_classes", [1, 5, 64, 150])
def test_several_labels_equal_the_matrix(n_classes):
    queries, database, _ = problem(6, 6, 500, 20)
    rng = np.random.default_rng(6)
    query_labels = (rng.random((6, n_classes)) < 2 / n_classes).astype(np.int64)
    labels = rng.random((500, n_classes)) < 2 / n_classes
    query_labels[0] = 0  # a query without a label has no relevant item
    shared = (query_labels[:, None, :] * labels[None, :, :]).any(axis=2)
    codes = pack(queries), pack(database)
    for ties in TIES:
        agree(
            ranking.average_precision(*codes, (query_labels, labels), 20, 30, ties),
            ranking.average_precision(*codes, shared, 20, 30, ties),
        )
    assert np.isnan(ranking.average_precision(*codes, (query_labels, labels), 20)[0])


# Within a radius, and distributions


def test_precision_within_a_radius():
    queries, database, relevant = problem(7, 5, 40, 12)
    for radius in (0, 2, 6, 12, 100):
        got = ranking.precision_within(pack(queries), pack(database), relevant, 12, radius)
        rows = zip(queries, relevant, strict=True)
        agree(got, [oracle.precision_within(query, database, flags, radius) for query, flags in rows])
    assert ranking.precision_within(pack([[1, 1]]), pack([[0, 0]]), [[True]], 2, 1) == 0.0  # an empty ball
    assert ranking.precision_within(pack([[1, 1]]), pack([[0, 0]]), [[True]], 2, 2) == 1.0


def test_distance_counts_are_those_of_a_plain_loop():
    queries, database, relevant = problem(10, 5, 3000, 9)  # more than a block of codes
    items, hits = np.zeros((2, 5, 10), dtype=np.int64)
    for i, query in enumerate(queries):
        for row, flag in zip(database, relevant[i], strict=True):
            distance = sum(query != row)
            items[i, distance] += 1
            hits[i, distance] += flag
    got = ranking.distance_counts(pack(queries), pack(database), relevant, 9)
    np.testing.assert_array_equal(got, (items, hits))


def test_distance_distributions_are_means_of_each_query():
    queries, database, relevant = problem(10, 5, 60, 9)
    relevant[0], relevant[1] = True, False  # nobody irrelevant; nobody relevant
    got = ranking.distance_distributions(pack(queries), pack(database), relevant, 9)
    for ours, expected in zip(got, oracle.distance_distributions(queries, database, relevant), strict=True):
        agree(ours, expected)
        agree(ours.sum(), 1)


@pytest.mark.parametrize("n_bits", [1, 7, 8, 63, 64, 65, 1024])
def test_distances_0_and_b_are_counted(n_bits):
    codes = pack(np.array([[False] * n_bits, [True] * n_bits]))
    p_pos, p_neg = ranking.distance_distributions(codes[:1], codes, [[True, False]], n_bits)
    assert p_pos.shape == p_neg.shape == (n_bits + 1,)
    assert p_pos[0] == 1
    assert p_neg[n_bits] == 1
    for ties in TIES:
        agree(ranking.average_precision(codes[:1], codes, [[False, True]], n_bits, ties=ties), [0.5])


# Awkward cases, each with its named outcome


@pytest.mark.parametrize("ties", TIES)
def test_a_query_without_a_relevant_item_is_undefined_and_left_out(ties):
    queries, database, relevant = problem(11, 3, 20, 4)
    relevant[1] = False
    arguments = pack(queries), pack(database), relevant, 4
    for top in (None, 5):
        for divisor in DIVISORS:
            values = ranking.average_precision(*arguments, top, ties, divisor)
            assert np.isnan(values).tolist() == [False, True, False]
            mean = ranking.mean_average_precision(*arguments, top, ties, divisor)
            agree(mean, (values[0] + values[2]) / 2)
        assert np.isnan(ranking.ndcg(*arguments, top, ties)).tolist() == [False, True, False]
        assert ranking.dcg(*arguments, top, ties)[1] == 0
    assert ranking.precision_at(*arguments, 5, ties)[1] == 0
    assert ranking.precision_within(*arguments, 4)[1] == 0


@pytest.mark.parametrize("ties", TIES)
def test_relevant_items_that_are_not_retrieved_score_0(ties):
    codes = pack([[0, 0], [0, 1], [1, 1]])
    for divisor in DIVISORS:
        values = ranking.average_precision(codes[:1], codes, [[False, False, True]], 2, 2, ties, divisor)
        assert values.tolist() == [0.0]


@pytest.mark.parametrize("ties", TIES)
def test_nothing_to_average_is_nan_without_a_warning(ties):
    codes = pack([[0, 0], [0, 1]])
    assert math.isnan(ranking.mean_average_precision(codes, codes, np.zeros((2, 2)), 2, ties=ties))
    assert math.isnan(ranking.mean_average_precision(codes[:0], codes, np.zeros((0, 2)), 2, ties=ties))
    assert math.isnan(ranking.mean_average_precision(codes, codes[:0], np.zeros((2, 0)), 2, ties=ties))
    assert ranking.precision_at(codes, codes[:0], ([1, 2], np.zeros(0, dtype=int)), 2, 3, ties).tolist() == [
        0,
        0,
    ]
    p_pos, p_neg = ranking.distance_distributions(codes, codes, np.zeros((2, 2)), 2)
    assert np.isnan(p_pos).all()
    assert p_neg.tolist() == [0.5, 0.5, 0.0]


def test_arguments_are_left_as_they_were_and_may_be_read_only():
    queries, database, relevant = problem(12, 2, 20, 64)
    arrays = [pack(queries), pack(database), relevant]
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    ranking.average_precision(*arrays, 64, ties="index")
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relevant": [[True, False]]}, r"`relevant` must have shape \(2, 3\); got \(1, 2\)"),
        ({"relevant": [[0, 1, 2], [0, 0, 0]]}, "`relevant` must hold True or False"),
        ({"relevant": ([1, 2], [1, 2])}, "`labels` must have one label for each of the 3 rows; got 2"),
        ({"relevant": ([1], [1, 2, 3])}, "`query_labels` must have one label for each of the 2 rows; got 1"),
        ({"relevant": ([1, 2], [[1, 0], [0, 1], [1, 1]])}, "must be of one kind"),
        ({"relevant": ([[1, 0, 0], [0, 1, 0]], [[1, 0], [0, 1], [1, 1]])}, r"got shapes \(2, 3\) and \(3, 2\)"),
        ({"relevant": ([True, False], [True, True, False])}, "got booleans"),
        ({"relevant": ([1], [2], [3])}, r"must be \(query_labels, labels\); got 3 parts"),
        ({"top": 0}, "`top` must be a whole number of at least 1; got 0"),
        ({"top": 2.0}, "`top` must be a whole number"),
        ({"ties": "random"}, "`ties` must be one of 'expected', 'best', 'worst', 'index'; got 'random'"),
        ({"divisor": "all"}, "`divisor` must be one of 'retrieved', 'relevant'; got 'all'"),
        ({"n_bits": 9}, "`query_codes` must have 2 bytes for 9 bits; got 1"),
        ({"n_bits": 1}, "`query_codes` has ones beyond its 1 bits"),
        ({"n_bits": 0}, "`n_bits` must be a whole number of 1 to 32767; got 0"),
        ({"codes": [[1, 2], [3, 4], [5, 6]]}, "`codes` must be packed codes"),
        ({"codes": np.zeros((3, 2), dtype=np.uint8)}, "`codes` must have 1 bytes for 3 bits; got 2"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    codes = pack([[0, 1, 0], [1, 1, 0], [0, 0, 0]])
    good = {"query_codes": codes[:2], "codes": codes, "relevant": np.ones((2, 3)), "n_bits": 3}
    with pytest.raises(InvalidInput, match=message):
        ranking.average_precision(**(good | change))


@pytest.mark.parametrize("radius", [-1, 1.5, None])
def test_a_radius_is_a_whole_number(radius):
    codes = pack([[0, 1, 0]])
    with pytest.raises(InvalidInput, match="`radius` must be a whole number of at least 0"):
        ranking.precision_within(codes, codes, [[True]], 3, radius)


def test_precision_at_needs_a_top():
    codes = pack([[0, 1, 0]])
    with pytest.raises(InvalidInput, match="`top` must be a whole number of at least 1; got None"):
        ranking.precision_at(codes, codes, [[True]], 3, None)


def test_importing_ranking_loads_neither_scipy_nor_scikit_learn():
    import subprocess
    import sys

    # Numba itself looks at scipy's version; a working part of scipy would be ours.
    check = "import sys, mihash.ranking; print({'scipy.special', 'scipy.stats', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
