import numpy as np
import pytest

from mihash.online.stream_kernel import StreamKernel


def kernel_of(rows, n_anchors):
    return StreamKernel(n_anchors).after(np.asarray(rows, dtype=np.float32), None)


def width(kernel):
    return kernel.state()["width"]


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)


def test_the_width_of_ordinary_rows_is_half_their_mean_distance(rows):
    distances = [np.linalg.norm(rows[i] - rows[j]) for i in range(50) for j in range(i)]
    assert width(kernel_of(rows, 50)) == pytest.approx(np.mean(distances) / 2, rel=1e-3)


def test_an_outlier_is_no_anchor(rows):
    bad = rows.copy()
    bad[7] = 1e6
    kernel = kernel_of(bad, 50)
    assert np.array_equal(kernel.state()["anchors"], np.delete(rows, 7, axis=0)[:50])
    assert width(kernel) == pytest.approx(width(kernel_of(rows, 50)), rel=0.05)


def test_it_waits_for_an_ordinary_row_instead_of_an_outlier(rows):
    bad = rows[:50].copy()
    bad[7] = 1e6
    kernel = kernel_of(bad, 50)
    assert not kernel.ready
    assert kernel.after(rows[50:51], None).ready


def test_far_anchors_count_for_little(rows):
    far = rows.copy()
    far[:3] *= 8  # not far enough to be left out
    assert width(kernel_of(far, 60)) < 1.15 * width(kernel_of(rows, 60))


def test_equal_rows_have_a_width():
    rows = np.zeros((10, 2))
    rows[0] = 1
    assert 0 < width(kernel_of(rows, 10)) < 1
    assert width(kernel_of(np.zeros((10, 2)), 10)) > 0
    assert width(kernel_of(np.zeros((1, 2)), 1)) > 0


def test_a_saved_map_keeps_its_width(rows):
    state = kernel_of(rows, 50).state() | {"width": 123.0}
    assert width(StreamKernel(50).restored(state)) == 123.0
