"""MomentHash: moments and the information step against plain loops, gradients, and input that teaches nothing."""

import numpy as np
import pytest

import mihash
import oracles_moment as oracles
from checks import clusters
from mihash.errors import InvalidInput
from mihash.online import MomentHash
from mihash.online.drawn_rows import StepRows, from_past, from_sample
from mihash.online.information_step import N_BINS, information_step
from mihash.online.moment_basis import Basis, dimension, factor, principal_directions, scale_of, solve
from mihash.online.moments import Moments, indicators
from mihash.online.past_examples import KeptExamples
from mihash.online.planes import Planes, turned_apart
from mihash.ranking import mean_average_precision


@pytest.mark.parametrize("memory", [None, 900])
def test_squares_that_wait_are_counted_and_survive_a_save(memory):
    rng = np.random.default_rng(4)
    blocks, moments = [], Moments(5, memory)
    for _ in range(13):  # more than are added at once, and some that wait
        X = (1 + rng.standard_normal((100, 5))).astype(np.float32)
        moments = moments.after(X, np.ones((100, 1), dtype=np.float32))
        blocks.append((X, np.ones((100, 1))))
    C = oracles.moments(blocks, 5, 1, memory)[2]
    assert np.allclose(moments.covariance(), C, atol=1e-5)
    again = Moments(5, memory)
    again.restore(moments.state())
    for _ in range(3):
        moments, again = moments.after(X), again.after(X)
    assert moments.covariance().tobytes() == again.covariance().tobytes()


@pytest.mark.parametrize("memory", [None, 150])
def test_moments_are_those_of_plain_loops(memory):
    rng = np.random.default_rng(0)
    blocks, moments, seen = [], Moments(5, memory), 0
    for n_classes in (1, 3, 3, 4):  # classes come as the stream goes on
        X = (7 + rng.standard_normal((40, 5)) * [1, 2, 3, 0, 1]).astype(np.float32)
        Y = indicators(rng.integers(-1, n_classes, 40), n_classes)
        moments = moments.after(X, Y)
        blocks.append((X, np.pad(Y, ((0, 0), (0, 4 - n_classes)))))
        seen += 40
    n, mean, C, A = oracles.moments(blocks, 5, 4, memory)
    assert moments.n == pytest.approx(n, rel=1e-6)
    assert np.allclose(moments.mean, mean, atol=1e-6)
    assert np.allclose(moments.covariance(), C, atol=1e-5)
    assert np.allclose(moments.cross(), A, atol=1e-5)


def test_the_memory_grows_with_the_classes():
    X = np.ones((100, 2), dtype=np.float32)
    moments = Moments(2, 200, per_class=150)
    assert moments.memory == 200
    moments = moments.after(X, indicators(np.arange(100) % 3, 3))
    assert moments.memory == 450
    assert moments.after(X).n == pytest.approx(100 + 100 * np.exp(-100 / 450), rel=1e-6)
    assert Moments(2, None, per_class=150).memory is None


def test_moments_about_a_large_mean_lose_no_precision():
    X = np.random.default_rng(1).standard_normal((500, 4)).astype(np.float32)
    far, near = Moments(4, None), Moments(4, None)
    for start in range(0, 500, 100):
        far, near = far.after(X[start : start + 100] + np.float32(1000)), near.after(X[start : start + 100])
    assert np.allclose(far.covariance(), near.covariance(), atol=2e-3)


def test_an_outlier_counts_as_a_row_at_ten_times_the_usual_distance():
    X = np.random.default_rng(2).standard_normal((100, 6)).astype(np.float32)
    moments = Moments(6, None).after(X)
    far = X.copy()
    far[7] *= 1e6
    poisoned = moments.after(far)
    limit = 10 * np.sqrt(np.trace(moments.covariance()))
    assert np.trace(poisoned.covariance()) < np.trace(moments.covariance()) + 1.2 * limit**2 / poisoned.n
    assert np.abs(poisoned.mean).max() < 1.2 * limit / poisoned.n + 1


@pytest.mark.parametrize("n_blocks", [3, 7])  # some rows wait
def test_discounted_moments_are_the_same_with_less_weight(n_blocks):
    rng = np.random.default_rng(4)
    moments = Moments(5, 900)
    for _ in range(n_blocks):
        moments = moments.after(rng.standard_normal((100, 5)).astype(np.float32), np.ones((100, 1), np.float32))
    found = moments.discounted(50)
    assert found.n == pytest.approx(50)
    assert found.counts.sum() == pytest.approx(50)
    assert np.allclose(found.mean, moments.mean)
    assert np.allclose(found.covariance(), moments.covariance(), atol=1e-6)
    assert np.allclose(found.cross(), moments.cross(), atol=1e-6)


def decaying(n, d, seed):
    """Rows whose variances fall by a tenth from direction to direction, about a mean that is not 0."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return ((rng.standard_normal((n, d)) * 0.9 ** np.arange(d)) @ turn + rng.standard_normal(d)).astype(np.float32)


@pytest.mark.parametrize("memory", [None, 900])
def test_leading_directions_are_those_of_the_whole_covariance(memory):
    X = decaying(1300, 60, seed=6)
    whole, leading = Moments(60, memory), Moments(60, memory, rank=25)
    for start in range(0, 1300, 100):  # rows are gathered twice, and some wait
        whole, leading = (each.after(X[start : start + 100]) for each in (whole, leading))
        if start in (0, 200):
            leading = leading.gathered()  # early refreshes, with fewer rows than features too
    C, found = whole.covariance(), leading.covariance()
    values = np.linalg.eigvalsh(C.astype(np.float64))[::-1]
    assert np.allclose((found.excess + found.rest)[:12], values[:12], rtol=0.02)
    assert found.trace == pytest.approx(np.trace(C), rel=1e-4)
    assert np.allclose(found.directions.T @ found.directions, np.eye(found.directions.shape[1]), atol=1e-4)
    assert dimension(found) == dimension(C) == 60
    assert scale_of(found, leading) == pytest.approx(scale_of(C, whole), rel=1e-4)
    dense = found.directions * found.excess @ found.directions.T + found.rest * np.eye(60)
    A = X[:3].T
    assert np.allclose(solve(factor(found, 0.3), A), np.linalg.solve(dense + 0.3 * np.eye(60), A), atol=1e-4)
    assert np.allclose(solve(factor(found, 0.3), A), solve(factor(C, 0.3), A), atol=0.05 * np.abs(A).max())
    assert np.array_equal(principal_directions(found, 4, None)[1], found.directions[:, :4])


def test_with_fewer_rows_than_the_rank_the_covariance_is_exact():
    X = decaying(100, 150, seed=7)
    found = Moments(150, None, rank=120).after(X).covariance()
    dense = found.directions * found.excess @ found.directions.T + found.rest * np.eye(150)
    assert found.rest < 1e-3 * found.excess[0]
    assert np.allclose(dense, np.cov(X.T, bias=True), atol=0.02)


def test_leading_moments_survive_a_save_and_take_memory_that_grows_with_the_rank():
    X, y = decaying(700, 300, seed=8), np.ones((700, 1), dtype=np.float32)
    moments = Moments(300, 500, rank=10)
    for start in range(0, 700, 100):
        moments = moments.after(X[start : start + 100], y[start : start + 100])
    again = Moments(300, 500, rank=10)
    again.restore(moments.state())
    for _ in range(6):
        moments, again = moments.after(X[:100]), again.after(X[:100])
        found, restored = moments.covariance(), again.covariance()
        assert found.directions.tobytes() == restored.directions.tobytes()
        assert len(moments.state()["squares"]) <= 10
        assert len(moments.state()["waiting"]) < 500


def test_a_low_rank_is_nearly_as_good_as_all_of_the_covariance():
    X, y = clusters(2500, d=120, n_classes=6, spread=1.5, seed=24)
    found = [
        retrieval(learned(MomentHash(16, rank=rank), X[:2000], y[:2000]), X[2000:], y[2000:])
        for rank in (None, 60)
    ]
    assert found[1] > found[0] - 0.03


@pytest.mark.parametrize(("d", "n"), [(20, 6), (120, 8), (5, 5)])
def test_principal_directions_are_those_of_the_full_decomposition(d, n):
    rng = np.random.default_rng(3)
    X = (rng.standard_normal((400, d)) * 0.9 ** np.arange(d) @ rng.standard_normal((d, d))).astype(np.float32)
    C = X.T @ X / np.float32(400)
    expected, directions = np.linalg.eigh(C.astype(np.float64))
    for start in (None, principal_directions(C, n, None)[1]):
        values, found = principal_directions(C, n, start)
        assert np.allclose(values, expected[::-1][:n], rtol=1e-3)
        assert np.allclose(found.T @ found, np.eye(n), atol=1e-4)
        assert np.linalg.norm(directions[:, ::-1][:, :n].T @ found) ** 2 > n - 0.01


def test_rare_corrections_go_as_far_as_frequent_ones_along_a_gradient_that_stays():
    rng = np.random.default_rng(5)
    C = np.cov(rng.standard_normal((6, 50))).astype(np.float32)
    basis = Basis(
        np.zeros(6, np.float32), np.eye(6, 2, dtype=np.float32), np.eye(2, dtype=np.float32), *factor(C, 0.5)
    )
    gradient = rng.standard_normal((6, 3)).astype(np.float32)
    assert np.allclose(basis.precondition(gradient), np.linalg.solve(C + 0.5 * np.eye(6), gradient), atol=1e-5)
    ends = []
    for every in (1, 4):
        planes = Planes.at(np.ones((2, 3), dtype=np.float32), np.zeros(3, dtype=np.float32), 6)
        for _ in range(200):
            before = planes
            planes = planes.moved(
                basis,
                np.ones(3, np.float32),
                None,
                gradient,
                np.ones(3, np.float32),
                rate=0,
                correction=0.1,
                every=every,
                least_weight=0.5,
            )
        ends.append((planes.d - before.d) / every)
        assert np.array_equal(planes.m, np.ones((2, 3)))
        assert not planes.c.any()
    assert np.allclose(ends[0], ends[1], rtol=1e-3)


def sample(n=24, b=5, seed=0, n_anchors=15):
    rng = np.random.default_rng(seed)
    P = rng.standard_normal((n, b)) * rng.uniform(0.3, 3, b)
    y = rng.integers(0, 3, n)
    y[4] = 9  # an anchor without neighbours
    near = (y[:n_anchors, None] == y).astype(np.uint8)
    return P, near


@pytest.mark.parametrize("smoothing", [0.0, 5.0])
def test_information_is_that_of_plain_loops(smoothing):
    P, near = sample()
    step = information_step(P.astype(np.float32), near, 2.0, smoothing)
    spread = np.sqrt((P**2).mean(axis=0))
    assert np.allclose(step.spread, spread, rtol=1e-5)
    expected = oracles.information(P, near, 2.0 / spread, N_BINS, smoothing)
    assert np.allclose(step.information, expected, atol=1e-5)
    assert step.information[4] == 0


@pytest.mark.parametrize("smoothing", [0.0, 5.0])
def test_the_gradient_is_that_of_finite_differences(smoothing):
    P, near = sample(seed=3)
    steep = 2.0 / np.sqrt((P**2).mean(axis=0))
    step = information_step(P.astype(np.float32), near, 2.0, smoothing)
    V = np.tanh(P * steep)
    fixed = oracles.log_ratios(*oracles.histograms(V, near, N_BINS), smoothing) if smoothing else None
    h = 1e-6
    worst = 0.0
    for i in range(len(P)):
        for j in range(P.shape[1]):
            ends = []
            for sign in (1, -1):
                moved = P.copy()
                moved[i, j] += sign * h
                ends.append(oracles.information(moved, near, steep, N_BINS, smoothing, fixed).mean())
            worst = max(worst, abs((ends[0] - ends[1]) / (2 * h) - step.gradient[i, j]))
    assert worst <= 1e-6


def retrieval(mapping, X, y, n=200):
    relevant = y[:n, None] == y[n:]
    return mean_average_precision(mapping.encode(X[:n]), mapping.encode(X[n:]), relevant, mapping.n_bits)


def learned(learner, X, y, size=300):
    system = mihash.OnlineHashing(learner, mihash.FixedRate(), reservoir_size=size)
    system.feed(X, y)
    return system.current


def test_it_is_better_than_the_papers_method_on_correlated_classes():
    X, y = clusters(4000, d=32, n_classes=8, spread=3.0, seed=5)
    scores = {
        cls.__name__: retrieval(learned(cls(32, seed=0), X[:3000], y[:3000]), X[3000:], y[3000:])
        for cls in (MomentHash, mihash.online.MIHash, mihash.online.HMOH)
    }
    assert scores["MomentHash"] > max(scores["MIHash"], scores["HMOH"]) - 0.01, scores


def test_with_many_classes_and_few_examples_it_keeps_up_with_the_papers_method():
    X, y = clusters(5000, d=32, n_classes=60, spread=1.5, seed=15)
    scores = {
        cls.__name__: retrieval(learned(cls(32, seed=0), X[:4000], y[:4000], 600), X[4000:], y[4000:])
        for cls in (MomentHash, mihash.online.MIHash, mihash.online.HMOH)
    }
    assert scores["MomentHash"] > max(scores["MIHash"], scores["HMOH"]) - 0.01, scores


def test_without_labels_it_is_better_than_hyperplanes_at_the_true_neighbours():
    X, _ = clusters(2500, d=24, n_classes=40, seed=6)
    hyperplanes = mihash.online.LSH(32, seed=0)
    hyperplanes.start(24)
    distances = ((X[:100, None].astype(float) - X[None, 100:]) ** 2).sum(axis=2)
    nearest = np.argsort(distances, axis=1)[:, :10]
    recall = {}
    for name, mapping in (
        ("learned", learned(MomentHash(32), X[100:], None)),
        ("hyperplanes", hyperplanes.mapping),
    ):
        found = np.argsort(mihash.hamming(mapping.encode(X[:100]), mapping.encode(X[100:])), axis=1)[:, :50]
        recall[name] = np.mean([np.isin(a, b).mean() for a, b in zip(nearest, found, strict=True)])
    assert recall["learned"] > recall["hyperplanes"] + 0.05, recall


@pytest.mark.parametrize(("d", "b"), [(90, 64), (60, 48), (12, 70)])
def test_hyperplanes_that_are_turned_apart_have_powers_of_the_singular_values(d, b):
    W = np.random.default_rng(30).standard_normal((d, b)) * np.arange(1, b + 1)
    W[:, 2] += 2 * W[:, 1]
    found = turned_apart(W.astype(np.float32))
    assert np.allclose(found, oracles.turned_apart(W), atol=1e-5 * np.abs(W).max())
    assert np.array_equal(turned_apart(np.zeros((d, b), dtype=np.float32)), np.zeros((d, b)))
    orthogonal = np.linalg.qr(W[:, : min(d, b)])[0].astype(np.float32) * 3
    assert np.allclose(turned_apart(orthogonal), orthogonal, atol=1e-5)
    W[:, 2], W[:, 3] = W[:, 1], 0  # the same hyperplane twice, and none
    found = turned_apart(W.astype(np.float32))
    assert np.allclose(found[:, 2], found[:, 1], rtol=1e-3)
    assert not found[:, 3].any()


@pytest.mark.parametrize("n_bits", [32, 64])
def test_without_labels_hyperplanes_of_long_codes_are_handed_out_turned_apart(n_bits):
    X, y = clusters(600, d=12, seed=32)
    for labels in (None, y):
        learner = MomentHash(n_bits)
        mapping = learned(learner, X, labels, 200)
        W = learner._planes.mean_weights(learner._basis)
        expected = oracles.turned_apart(W) if labels is None else W
        assert np.allclose(mapping.weights, expected, atol=1e-4 * np.abs(W).max())
        assert learner.mapping is learner.copy().mapping  # made once, until it learns again
        again = MomentHash(n_bits)
        again.restore(learner.state())
        assert again.mapping == mapping


@pytest.mark.parametrize(
    "kind", ["one class", "constant", "duplicates", "constant feature", "few rows", "own class"]
)
@pytest.mark.parametrize("labels", [True, False])
def test_degenerate_streams_are_learned_from_without_error(kind, labels):
    X, y = clusters(600, d=10, n_classes=4, seed=7)
    if kind == "one class":
        y = np.zeros_like(y)
    elif kind == "constant":
        X = np.ones_like(X)
    elif kind == "duplicates":
        X, y = X[np.arange(600) % 3], y[np.arange(600) % 3]
    elif kind == "constant feature":
        X[:, 3] = 5
    elif kind == "few rows":
        X = np.random.default_rng(0).standard_normal((600, 700)).astype(np.float32)
    elif kind == "own class":
        y = np.arange(600)
    mapping = learned(MomentHash(12), X, y if labels else None)
    assert np.isfinite(mapping.arrays()["weights"]).all()
    assert len(mapping.encode(X)) == 600


@pytest.mark.parametrize("memory", ["never", 99, True])
def test_a_memory_is_a_number_or_auto(memory):
    with pytest.raises(InvalidInput, match="`memory` must be"):
        MomentHash(8, memory=memory)
    assert [MomentHash(8, memory=value).memory for value in (None, "auto", 300)] == [None, "auto", 300]


def test_classes_may_come_and_vanish():
    X, y = clusters(3000, d=16, n_classes=9, seed=8)
    order = np.argsort(y // 3, kind="stable")  # three classes, then three others, then three others
    X, y = X[order], y[order]
    mapping = learned(MomentHash(32, memory=500), X, y)
    last = y >= 6
    assert retrieval(mapping, X[last], y[last], 100) > 0.9


def test_more_classes_than_columns_are_learned_from(monkeypatch):
    monkeypatch.setattr("mihash.online.moment_hash._MOST_CLASSES", 5)
    X, y = clusters(1500, d=16, n_classes=9, seed=9)
    learner = MomentHash(16)
    mapping = learned(learner, X, y)
    assert len(learner.learned()["classes"]) == 5
    hyperplanes = mihash.online.LSH(16)
    hyperplanes.start(16)
    assert retrieval(mapping, X, y) > retrieval(hyperplanes.mapping, X, y) + 0.1


@pytest.mark.parametrize("memory", [100, 150, 210])
def test_a_short_memory_does_not_diverge(memory):
    X, y = clusters(4000, d=16, n_classes=4, seed=10)
    mapping = learned(MomentHash(16, memory=memory), X, y, size=200)
    assert np.abs(mapping.arrays()["weights"]).max() < 1e3
    assert retrieval(mapping, X, y) > 0.8


@pytest.mark.parametrize("size", [1e4, 1e8, 1e14])
@pytest.mark.parametrize("labels", [True, False])
def test_an_outlier_in_the_first_block_does_not_decide_what_is_learned(size, labels):
    X, y = clusters(3000, d=16, n_classes=6, seed=11)
    poisoned = X.copy()
    poisoned[5] = size
    scores = [
        retrieval(learned(MomentHash(24), each, y if labels else None), X[:1000], y[:1000])
        for each in (X, poisoned)
    ]
    assert scores[1] > scores[0] - 0.1, scores


def test_a_small_sample_is_enough_for_information_steps():
    X, y = clusters(2000, d=16, n_classes=4, seed=12)
    learner = MomentHash(16)
    learned(learner, X, y, size=30)
    assert learner.learned()["planes"]["k"] > 0


@pytest.mark.parametrize("labels", [True, False])
def test_on_a_kernel_map_it_tells_rings_apart(labels):
    rng = np.random.default_rng(16)
    y = rng.integers(0, 2, 2500)
    angle = rng.uniform(0, 2 * np.pi, 2500)
    X = ((1 + 2 * y) * np.stack([np.cos(angle), np.sin(angle)])).T + 0.2 * rng.standard_normal((2500, 2))
    X = X.astype(np.float32)
    given = y[:2000] if labels else None
    linear = learned(MomentHash(16), X[:2000], given)
    kernel = learned(MomentHash(16, features="rbf", n_anchors=250), X[:2000], given)
    assert (linear.kind, kernel.kind) == ("linear", "kernel")
    assert kernel.arrays()["anchors"].tolist() == X[:250].tolist()
    if labels:
        assert retrieval(kernel, X[2000:], y[2000:]) > 0.95 > retrieval(linear, X[2000:], y[2000:])


def test_until_there_are_anchors_it_is_random_hyperplanes():
    X, y = clusters(500, d=8, seed=17)
    mapping = learned(MomentHash(8, features="rbf", n_anchors=501), X, y)
    hyperplanes = mihash.online.LSH(8, seed=0)
    hyperplanes.start(8)
    assert mapping == hyperplanes.mapping


def test_each_step_takes_other_anchors_from_the_sample():
    X, y = clusters(1200, d=8, n_classes=4, seed=14)
    reservoir = mihash.Reservoir(1000)
    reservoir.add(np.arange(1200.0)[:, None], y)
    block = StepRows(X[:100], y[:100])
    steps = list(from_sample(block, reservoir, n_steps=3, n_others=150, seed=0))
    assert all(rows is block for rows, _ in steps)
    drawn = [np.searchsorted(np.sort(reservoir.X.ravel()), others.X.ravel()) for _, others in steps]
    assert all(len(np.unique(rows)) == len(rows) == 150 for rows in drawn)
    firsts = [set(rows[:50].tolist()) for rows in drawn]
    assert len(firsts[0] & firsts[1]) < 20  # 2.5 of 50 are expected
    assert len(firsts[1] & firsts[2]) < 20
    assert max(rows.max() for rows in drawn) > 900


def test_one_step_is_taken_in_a_basis_from_before_an_alarm():
    X, y = clusters(900, d=8, seed=23)
    learner, reservoir, steps = MomentHash(8), mihash.Reservoir(200), []
    learner.start(8)
    for start in range(0, 900, 100):
        if start == 600:
            learner.refresh(200)
        rows = slice(start, start + 100)
        slots = reservoir.plan(100)
        learner.learn(X[rows], y[rows], reservoir, slots)
        reservoir.apply(X[rows], y[rows], slots)
        steps.append(0 if learner._planes is None else learner._planes.k)
    assert steps[6:8] == [1, 1 + 10]  # the averages begin anew; the basis is refreshed after the block


def test_a_replay_draws_from_the_whole_past_and_reads_each_row_once():
    asked = []

    class Counted(KeptExamples):
        def at(self, places):
            asked.append(places)
            return super().at(places)

    past = Counted()
    for start in range(0, 1000, 100):
        past = past.after(np.arange(start, start + 100, dtype=np.float32)[:, None], np.arange(start, start + 100))
    block = StepRows(np.full((100, 1), 5000, dtype=np.float32), np.zeros(100, dtype=np.int64))
    steps = list(from_past(block, past, n_seen=1000, n_steps=4, n_others=150, seed=0))
    assert steps[0][0] is block
    assert len(asked) == 1
    assert len(np.unique(asked[0])) == len(asked[0])
    for number, parts in enumerate(steps):
        rows = np.concatenate([part.X.ravel() for part in parts[number == 0 :]])
        assert [len(part.X) for part in parts] == [100, 150]
        assert len(np.unique(rows)) == len(rows)
        assert rows.max() > 900
        assert rows.min() < 100
    assert all(np.array_equal(part.X.ravel(), part.y) for parts in steps[1:] for part in parts)
    few = Counted().after(np.zeros((60, 1), dtype=np.float32), np.zeros(60, dtype=np.int64))
    assert [len(part.X) for part in list(from_past(block, few, 60, 2, 150, seed=0))[1]] == [30, 30]


def test_a_replay_is_better_than_one_step_on_the_sample():
    scores = []
    for seed in (21, 22, 23):
        X, y = clusters(5500, d=40, n_classes=20, spread=5.0, seed=seed)
        learners = (MomentHash(16, replay=replay, seed=seed) for replay in (0, 5))
        scores.append([retrieval(learned(each, X[:5000], y[:5000]), X[5000:], y[5000:]) for each in learners])
    sample, past = np.mean(scores, axis=0)
    assert past > sample + 0.05, scores


def test_a_state_from_before_a_parameter_is_read():
    X, y = clusters(300, seed=22)
    system = mihash.OnlineHashing(MomentHash(8), reservoir_size=50)
    system.feed(X, y)
    saved = system.learner.state()
    for part, name in ((saved["parameters"], "replay"), (saved["learned"], "kept")):
        del part[name]
    again = MomentHash(8)
    again.restore(saved)
    assert again.mapping == system.current
    with pytest.raises(InvalidInput, match="replay"):
        MomentHash(8, replay=2).restore(saved)


def test_a_rule_of_the_loop_says_who_is_a_neighbour():
    X, _ = clusters(1500, d=12, seed=13)
    found = []
    for rule in (None, 0.5, 3.0):
        system = mihash.OnlineHashing(MomentHash(16), mihash.FixedRate(), reservoir_size=200, neighbors=rule)
        system.feed(X)
        found.append(system.current.fingerprint)
    assert len(set(found)) == 3


def test_learning_goes_on_where_projections_cancel():
    """Whole numbers on a line: all projections may cancel, and what is left is not given a spread of one."""
    for seed in (2, 5, 7):  # before, `feed` raised for each: numbers overflowed
        X = np.random.default_rng(seed).integers(0, 5, (20_000, 1)).astype(np.float32)
        system = mihash.OnlineHashing(MomentHash(64), mihash.PriceUpdate(), reservoir_size=2000)
        system.feed(X)
        assert system.seen == 20_000
        assert np.isfinite(system.current.weights).all()
