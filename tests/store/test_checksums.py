import numpy as np
import pytest

from mihash.store.sqlite.checksums import row_checks

rng = np.random.default_rng(0)
WORD = 1 << 64


def constants(n):
    """SplitMix64 from 0, with the last bit set."""
    out = []
    for i in range(1, n + 1):
        z = i * 0x9E3779B97F4A7C15 % WORD
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        out.append((z ^ (z >> 31)) | 1)
    return out


def check(row, number):
    words = row.view(np.uint32 if row.itemsize == 4 else np.uint16)
    c = constants(len(words) + 1)
    return (c[0] * (number + 1) + sum(c[j + 1] * int(word) for j, word in enumerate(words))) % WORD


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("d", [1, 2, 7, 128])
def test_a_check_is_the_sum_in_the_docstring(dtype, d):
    X = rng.standard_normal((9, d)).astype(dtype)
    ids = rng.integers(0, 1 << 40, 9)
    assert row_checks(X, ids).tolist() == [check(row, int(number)) for row, number in zip(X, ids, strict=True)]


def test_checks_are_what_older_files_hold():
    X = np.array([[1.0, -2.5, 0.0], [0.0, 0.0, 3e38]], dtype=np.float32)
    assert row_checks(X, np.array([0, 4096])).tolist() == [6365022406024482223, 6728344560454817181]
    assert row_checks(X[:1].astype(np.float16), np.array([7])).tolist() == [6941656961151953016]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_change_of_one_byte_is_noticed(dtype):
    row = rng.standard_normal(5).astype(dtype)
    raw = row.view(np.uint8)
    changed = np.tile(raw, (len(raw) * 255, 1))
    for at in range(len(raw)):
        changed[at * 255 : (at + 1) * 255, at] ^= np.arange(1, 256, dtype=np.uint8)
    checks = row_checks(changed.view(dtype), np.full(len(changed), 3))
    assert (checks != row_checks(row[None], np.array([3]))).all()


def test_a_row_under_another_id_and_numbers_in_another_order_are_noticed():
    X = rng.standard_normal((1, 6)).astype(np.float32)
    same = row_checks(X, np.array([5]))
    assert len(set(row_checks(np.tile(X, (1000, 1)), np.arange(1000)).tolist())) == 1000
    assert (row_checks(X[:, ::-1].copy(), np.array([5])) != same).all()
    assert (row_checks(-X, np.array([5])) != same).all()


def test_a_check_belongs_to_its_row_alone_and_the_input_is_left_as_it_was():
    X = rng.standard_normal((20, 4)).astype(np.float32)
    before, ids = X.copy(), np.arange(20)
    whole = row_checks(X, ids)
    assert np.array_equal(row_checks(X[5:9], ids[5:9]), whole[5:9])
    assert np.array_equal(row_checks(np.asfortranarray(X), ids), whole)
    assert np.array_equal(X, before)
    assert row_checks(X[:0], ids[:0]).shape == (0,)


def test_negative_zero_is_another_number():
    zero = np.zeros((1, 2), dtype=np.float32)
    assert row_checks(zero, np.array([1])) != row_checks(-zero, np.array([1]))


def test_zeros_do_not_have_the_check_zero():
    assert (row_checks(np.zeros((10, 4), dtype=np.float32), np.arange(10)) != 0).all()
