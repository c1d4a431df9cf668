"""The stream of the demo."""

import base64
import struct
import time
import zlib

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.service import Replay, Running
from mihash.service.demo_stream import as_image
from over_http import Caller


def unpacked(uri):
    """Return the pixels of a PNG, read by hand."""
    head, _, text = uri.partition(",")
    assert head == "data:image/png;base64"
    file = base64.b64decode(text)
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(file):
        (n,) = struct.unpack(">I", file[at : at + 4])
        name, data = file[at + 4 : at + 8], file[at + 8 : at + 8 + n]
        assert struct.unpack(">I", file[at + 8 + n : at + 12 + n]) == (zlib.crc32(name + data),)
        parts[name] = data
        at += 12 + n
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (depth, colour) == (8, 0)
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), dtype=np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_an_image():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 5), dtype=np.uint8)
    assert np.array_equal(unpacked(as_image(pixels)), pixels)


def test_rows_are_those_of_the_data_with_noise():
    dataset = mihash.datasets.digits()
    replay = Replay(dataset.X, dataset.y, side=8, turn_after=1000, seed=3)
    again = Replay(dataset.X, dataset.y, side=8, turn_after=1000, seed=3)
    X, y, about = replay.rows(200)
    assert np.array_equal(again.rows(200)[0], X)  # seeded
    distances = np.linalg.norm(X[:, None] - dataset.X[None], axis=2)
    nearest = distances.argmin(axis=1)
    assert np.array_equal(dataset.y[nearest], y)
    assert 0 < distances.min(axis=1).max() < 10
    assert len(set(nearest)) > 190  # each row once a round
    for vector, label, each in zip(X[:5], y, about, strict=False):
        assert (each["digit"], each["turned"]) == (label, 0)
        ink = 1 - unpacked(each["image"]) / 255
        np.testing.assert_allclose(ink.ravel(), np.clip(vector / 16, 0, 1), atol=1 / 255)
    replay.rows(800)
    turned, labels, about = replay.rows(100)
    assert about[0]["turned"] == 90
    upright = np.rot90(turned.reshape(-1, 8, 8), -1, axes=(1, 2)).reshape(-1, 64)
    nearest = np.linalg.norm(upright[:, None] - dataset.X[None], axis=2).argmin(axis=1)
    assert np.array_equal(dataset.y[nearest], labels)


def test_the_demo_streams(tmp_path):
    dataset = mihash.datasets.digits()
    replay = Replay(dataset.X, dataset.y, rate=1000, side=8)
    with Running(lambda: mihash.OnlineIndex.create(tmp_path / "index", n_bits=16), background=replay) as service:
        call = Caller(service).ready()
        end = time.monotonic() + 30
        while call.get("/v1/stats").body["items"] < 800 and time.monotonic() < end:
            time.sleep(0.1)
        stats = call.get("/v1/stats").body
        assert stats["items"] >= 800
        assert stats["rates"]["rows_per_s"] > 0
        assert stats["decisions"] > 3
        found = call.post("/v1/search", {"key": 17, "k": 3, "metadata": True}).body["results"][0]
        assert all(each["image"].startswith("data:image/png") for each in found["metadata"])
        folder = service.service.index.folder
    with mihash.OnlineIndex.open(folder) as index:
        assert len(index) == replay._n  # all that it has sent is there


@pytest.mark.parametrize("y", [None, np.eye(3, dtype=np.int64)[np.arange(50) % 3]])
def test_other_data(y):
    X = np.random.default_rng(0).standard_normal((50, 6))
    rows, labels, about = Replay(X, y, turn_after=10).rows(120)
    assert rows.shape == (120, 6)
    assert (labels is None) == (y is None)
    assert about == [{}] * 120


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"rate": float("nan")}, {"turn_after": -1}])
def test_refusals(wrong):
    with pytest.raises(InvalidInput):
        Replay(np.zeros((3, 2)), None, **wrong)
