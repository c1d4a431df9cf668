import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mihash import state
from mihash.errors import CorruptStore, InvalidInput, StoreError, UnsupportedVersion

scalars = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8) | st.floats(allow_nan=False)
)
arrays = st.sampled_from([np.float32, np.int64, np.uint8, np.bool_]).flatmap(
    lambda kind: st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda shape: np.ones(shape, dtype=kind))
)


@given(st.dictionaries(st.text(max_size=5), scalars | arrays | st.lists(scalars, max_size=3), max_size=5))
def test_round_trip(values):
    again = state.load(state.dump(values))
    assert again.keys() == values.keys()
    for key, value in values.items():
        if isinstance(value, np.ndarray):
            assert again[key].dtype == value.dtype
            assert np.array_equal(again[key], value)
            assert again[key].flags.writeable
        else:
            assert again[key] == value


def test_golden_bytes():
    data = state.dump({"a": 1, "w": np.array([1, 2], dtype=">u2")})
    header = b'{"a": 1, "w": {"__array__": ["<u2", [2], 0]}}'
    assert data[:16] == b"mihash01" + len(header).to_bytes(8, "little")
    assert data[16:-32] == header + b"\x01\x00\x02\x00"


@pytest.mark.parametrize("position", [9, 20, -1, -40])
def test_a_flipped_byte_is_noticed(position):
    data = bytearray(state.dump({"w": np.arange(9)}))
    data[position] ^= 1
    with pytest.raises(CorruptStore):
        state.load(bytes(data))


@pytest.mark.parametrize("n", [0, 5, 8, 30, 60])
def test_truncation_is_noticed(n):
    with pytest.raises(CorruptStore):
        state.load(state.dump({"w": np.arange(9)})[:n])


def test_newer_formats_are_refused():
    with pytest.raises(UnsupportedVersion, match="format 99"):
        state.load(b"mihash99" + bytes(100))


def test_files(tmp_path):
    path = tmp_path / "a.state"
    state.write(path, {"n": 1})
    state.write(path, {"n": 2})
    assert state.read(path) == {"n": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["a.state"]
    with pytest.raises(StoreError, match=r"There is no file .*none"):
        state.read(tmp_path / "none")
    with pytest.raises(StoreError, match="Cannot read"):
        state.read(tmp_path)
    with pytest.raises(StoreError, match="Cannot write"):
        state.write(tmp_path / "no" / "folder", {})


def signed(header):
    body = b"mihash01" + len(header).to_bytes(8, "little") + header
    return body + hashlib.blake2b(body, digest_size=32).digest()


@pytest.mark.parametrize(
    "header",
    [
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' * 3_000 + b"1" + b"}" * 3_000,
        b'{"w": {"__array__": ["<f4", [9], 0]}}',
        b'{"w": {"__array__": ["no type", [1], 0]}}',
        b'{"w": {"__array__": 3}}',
        b"{",
    ],
    ids=["lists", "dictionaries", "too long", "no type", "no array", "no JSON"],
)
def test_a_state_that_somebody_else_has_signed_is_a_named_error(header):
    with pytest.raises(CorruptStore, match=r"nested too deeply|not as mihash writes it"):
        state.load(signed(header))


def test_what_is_nested_too_deeply_is_not_saved():
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidInput, match="nested too deeply"):
        state.dump({"a": value})
