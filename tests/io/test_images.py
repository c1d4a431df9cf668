"""Features of images: GIST against plain loops, small networks, folders, caches and principal components."""

import importlib

import numpy as np
import pytest

from mihash.errors import InvalidInput, NotReady, UnknownName
from mihash.io.images import Gist, extract_features
from mihash.io.images.image_files import open_images
from mihash.io.readers import Columns, open_source
from oracles_images import plain_gist

rng = np.random.default_rng(0)
PIXELS = rng.integers(0, 256, (6, 40, 30, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    from PIL import Image

    for number, pixels in enumerate(PIXELS):
        file = tmp_path / "images" / ("cat", "dog")[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    return tmp_path / "images"


def written(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive}


def test_gist_is_that_of_plain_loops():
    image = rng.integers(0, 256, (8, 8)).astype(float)
    expected = plain_gist(image, (2, 1), 2)
    found = Gist(8, (2, 1), 2).transform(image[None])[0]
    assert found.shape == expected.shape == (12,)
    assert np.allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("orientation", range(4))
@pytest.mark.parametrize("scale", range(3))
def test_a_grating_is_found_at_its_scale_and_orientation(scale, orientation):
    x, y = np.meshgrid(np.arange(64), np.arange(64))
    angle, cycles = -np.pi * orientation / 4, 0.3 / 1.85**scale
    grating = 128 + 90 * np.sin(2 * np.pi * cycles * (x * np.cos(angle) + y * np.sin(angle)))
    found = Gist(64, (4, 4, 4)).transform(grating[None])[0].reshape(3, 4, 16).mean(axis=2)
    assert np.unravel_index(found.argmax(), found.shape) == (scale, orientation)
    assert found.max() > 1.3 * np.sort(found.ravel())[-2]


def test_gist_knows_where_things_are():
    image = np.full((64, 64), 100.0)
    image[:16, :16] = rng.integers(0, 256, (16, 16))
    fields = Gist(64).transform(image[None])[0].reshape(32, 4, 4).mean(axis=0)
    assert fields.argmax() == 0
    assert fields[0, 0] > 5 * fields[2:, 2:].max()


def test_a_folder_becomes_a_file_that_is_added(folder, tmp_path):
    told = []
    made = extract_features(folder, tmp_path / "out.npz", size=16, progress=lambda *both: told.append(both))
    assert (made.n_images, made.n_features, made.n_known, made.left_out) == (6, 512, 0, ())
    assert told == [(6, 6)]
    found = written(tmp_path / "out.npz")
    assert found["key"].tolist() == ["cat/0.png", "cat/2.png", "cat/4.png", "dog/1.png", "dog/3.png", "dog/5.png"]
    assert found["labels"].tolist() == ["cat"] * 3 + ["dog"] * 3
    (rows,) = open_source(tmp_path / "out.npz", Columns()).rows()
    assert list(rows.keys) == found["key"].tolist()
    assert np.array_equal(rows.X, found["X"])


def test_an_archive_is_read_as_a_folder_of_its_images(folder, tmp_path):
    np.savez(tmp_path / "images.npz", images=PIXELS, labels=[0, 1] * 3)
    extract_features(tmp_path / "images.npz", tmp_path / "a.npz", size=16)
    extract_features(folder, tmp_path / "b.npz", size=16)
    a, b = written(tmp_path / "a.npz"), written(tmp_path / "b.npz")
    assert np.array_equal(a["X"][[0, 2, 4, 1, 3, 5]], b["X"])
    assert a["labels"].tolist() == [0, 1] * 3


def test_what_is_known_is_not_computed_again(folder, tmp_path, monkeypatch):
    cache = tmp_path / "features.cache"
    first = extract_features(folder, tmp_path / "a.npz", size=16, cache=cache)
    (folder / "cat" / "0.png").rename(folder / "dog" / "0.png")
    (folder / "cat" / "2.png").unlink()
    monkeypatch.setattr(Gist, "transform", None)  # whatever is computed is an error
    again = extract_features(folder, tmp_path / "b.npz", size=16, cache=cache)
    assert (first.n_known, again.n_known, again.n_images) == (0, 5, 5)
    a, b = written(tmp_path / "a.npz"), written(tmp_path / "b.npz")
    kept = [
        a["key"].tolist().index(key) for key in ("cat/4.png", "cat/0.png", "dog/1.png", "dog/3.png", "dog/5.png")
    ]
    assert np.array_equal(a["X"][kept], b["X"])
    with pytest.raises(TypeError):  # of another size it is computed
        extract_features(folder, tmp_path / "c.npz", size=32, cache=cache)


def test_an_interrupted_run_keeps_what_it_has(folder, tmp_path):
    cache = tmp_path / "features.cache"
    (folder / "zebra").mkdir()
    (folder / "zebra" / "broken.png").write_bytes(b"no image")
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("mihash.io.images.extraction._AT_ONCE", 2)
        with pytest.raises(InvalidInput, match=r"zebra/broken.png cannot be read as an image"):
            extract_features(folder, tmp_path / "out.npz", size=16, cache=cache)
    assert not (tmp_path / "out.npz").exists()
    made = extract_features(folder, tmp_path / "out.npz", size=16, cache=cache, skip_unreadable=True)
    assert (made.n_images, made.n_known, made.left_out) == (6, 6, ("zebra/broken.png",))


def test_principal_components_are_those_of_the_first_run(folder, tmp_path):
    basis = tmp_path / "basis.npz"
    extract_features(folder, tmp_path / "a.npz", size=16, n_components=3, basis=basis)
    whole = extract_features(folder, tmp_path / "whole.npz", size=16)
    X, found = written(tmp_path / "whole.npz")["X"], written(tmp_path / "a.npz")["X"]
    assert (whole.n_features, found.shape) == (512, (6, 3))
    spread = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:3]
    assert np.allclose(np.linalg.norm(found, axis=0), spread, rtol=1e-4)
    for name in ("cat", "dog"):
        (folder / name / ("0.png" if name == "cat" else "1.png")).unlink()
    extract_features(folder, tmp_path / "b.npz", size=16, n_components=3, basis=basis)
    assert np.allclose(written(tmp_path / "b.npz")["X"], found[[1, 2, 4, 5]], atol=1e-5)
    with pytest.raises(InvalidInput, match="3 directions of 512 features; this run needs 2"):
        extract_features(folder, tmp_path / "b.npz", size=16, n_components=2, basis=basis)
    with pytest.raises(InvalidInput, match="at most 3 principal"):
        extract_features(folder, tmp_path / "b.npz", size=16, n_components=4)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"model": "sift"}, UnknownName, "gist, onnx"),
        ({"model": "torchvision:"}, UnknownName, "one of"),
        ({"model": "torchvision:resnet18"}, InvalidInput, "nothing is downloaded"),
        ({"model": "onnx", "weights": "nowhere.onnx"}, InvalidInput, "no file"),
        ({"weights": "x"}, InvalidInput, "no weights"),
        ({"basis": "x"}, InvalidInput, "n_components"),
        ({"size": 2}, InvalidInput, "size"),
    ],
)
def test_bad_options(folder, tmp_path, options, error, words):
    with pytest.raises(error, match=words):
        extract_features(folder, tmp_path / "out.npz", **options)


def test_bad_images(tmp_path):
    with pytest.raises(InvalidInput, match="no images"):
        open_images(tmp_path)
    with pytest.raises(InvalidInput, match="neither a folder"):
        open_images(tmp_path / "missing")
    np.savez(tmp_path / "bad.npz", images=np.zeros((2, 3, 4)))
    with pytest.raises(InvalidInput, match="must be uint8"):
        open_images(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", images=np.zeros((2, 3, 4), np.uint8), labels=[1])
    with pytest.raises(InvalidInput, match="2 images and 1 labels"):
        open_images(tmp_path / "bad.npz")
    (tmp_path / "torn.npz").write_bytes(b"PK junk")
    with pytest.raises(InvalidInput, match="cannot be read"):
        open_images(tmp_path / "torn.npz")
    with pytest.raises(InvalidInput, match=r"end in \.npz"):
        extract_features(tmp_path, tmp_path / "out.npy")
    with pytest.raises(InvalidInput, match="not negative"):
        Gist(8).transform(np.full((1, 8, 8), -1.0))


@pytest.mark.needs("torch")
def test_features_of_a_network_are_what_its_last_layer_is_fed():
    import torch

    from mihash.deep.pretrained import LastInput

    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 2),
    )
    inputs = rng.standard_normal((5, 3, 8, 8)).astype(np.float32)
    with torch.inference_mode():
        expected = network[:4](torch.from_numpy(inputs)).numpy()
    assert np.array_equal(LastInput(network).transform(inputs), expected)
    with pytest.raises(InvalidInput, match="no linear layer"):
        LastInput(torch.nn.Conv2d(3, 4, 3))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_weights_come_from_a_file(folder, tmp_path, library):
    import torch

    weights = tmp_path / "weights.pt"

    def extract(name):
        return extract_features(folder, tmp_path / "out.npz", model=f"{library}:{name}", weights=weights, size=64)

    torch.save({"layer.weight": torch.zeros(3, 4)}, weights)
    try:
        module = importlib.import_module(library)
    except (ImportError, RuntimeError):  # it is not there, or was built for another torch
        with pytest.raises(NotReady, match=f"pip install {library}|does not fit the torch"):
            extract("resnet18")
        return
    with pytest.raises(UnknownName, match="has no network 'resnet0'"):
        extract("resnet0")
    with pytest.raises(InvalidInput, match="does not have the parameters of resnet18"):
        extract("resnet18")
    build = module.create_model if library == "timm" else module.models.get_model
    torch.save(build("resnet18", num_classes=7).state_dict(), weights)
    assert extract("resnet18").n_features == 512
    assert len(np.unique(written(tmp_path / "out.npz")["X"], axis=0)) == 6


@pytest.mark.needs("onnxruntime")
def test_an_onnx_network(folder, tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs onnx, which makes the file")
    helper = onnx.helper
    means = helper.make_node("GlobalAveragePool", ["images"], ["means"])
    shape = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 3, *sides])
        for name, sides in (("images", (20, 20)), ("means", (1, 1)))
    ]
    graph = helper.make_graph([means], "means", shape[:1], shape[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "means.onnx",
    )
    made = extract_features(folder, tmp_path / "out.npz", model="onnx", weights=tmp_path / "means.onnx")
    assert made.n_features == 3
    expected = open_images(folder).read(0, 20, grey=False).mean(axis=(0, 1)) / 255
    found = written(tmp_path / "out.npz")["X"][0] * np.array([0.229, 0.224, 0.225]) + [0.485, 0.456, 0.406]
    assert np.allclose(found, expected, atol=1e-5)
    (tmp_path / "torn.onnx").write_bytes(b"junk")
    with pytest.raises(InvalidInput, match="cannot be read as an ONNX network"):
        extract_features(folder, tmp_path / "out.npz", model="onnx", weights=tmp_path / "torn.onnx")
