import numpy as np
import pytest
import torch
from torch import nn

from mihash.deep import Augmentation, HashNetwork, Schedule, build_network, network_names, register_network
from mihash.errors import InvalidInput, UnknownName


def test_names_and_seeds():
    assert {"resnet", "vggf"} <= set(network_names())
    one, same, other = (build_network("resnet", 8, width=2, seed=seed) for seed in (1, 1, 2))
    weights = [network.head[0].weight for network in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    with pytest.raises(UnknownName, match=r"known: .*resnet"):
        build_network("nothing", 8)
    with pytest.raises(InvalidInput):
        register_network("", nn.Identity)
    with pytest.raises(InvalidInput, match="builder"):
        register_network("no function", 3)
    register_network("no module", lambda n_bits: n_bits)
    with pytest.raises(InvalidInput, match="torch module"):
        build_network("no module", 8)
    assert build_network("resnet", np.int64(8), width=2).architecture["n_bits"] == 8


def test_building_leaves_the_generator_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    build_network("resnet", 8, width=2)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("name", "arguments", "size"),
    [
        ("resnet", {"width": 2}, 32),
        ("vggf", {"image_size": 32, "n_hidden": 8}, 32),
        ("vggf", {"n_hidden": 8}, 224),
    ],
)
def test_outputs(name, arguments, size):
    images = torch.rand(2, 3, size, size) * 255
    relaxed = build_network(name, 12, scale=4.0, **arguments).eval()
    logits = build_network(name, 12, **arguments).eval()
    with torch.no_grad():
        assert torch.allclose(relaxed(images), torch.tanh(2 * logits(images)), atol=1e-6)
        assert relaxed(images).shape == (2, 12)


def test_vggf_has_the_published_layers():
    layers = list(build_network("vggf", 16, n_hidden=32).backbone)
    convolutions = [(c.out_channels, c.kernel_size[0], c.stride[0]) for c in layers if isinstance(c, nn.Conv2d)]
    assert convolutions == [(64, 11, 4), (256, 5, 1), (256, 3, 1), (256, 3, 1), (256, 3, 1)]
    assert [layer.in_features for layer in layers if isinstance(layer, nn.Linear)] == [256 * 6 * 6, 32]
    with pytest.raises(InvalidInput, match="image_size"):
        build_network("vggf", 16, image_size=64)


def test_standardized_bits_are_balanced_and_mirror_images_get_one_code():
    torch.manual_seed(0)
    images = torch.rand(64, 3, 32, 32) * 255
    network = build_network("resnet", 8, width=2, mirror=True)
    with torch.no_grad():
        logits = network.train()(images)
        assert logits.mean(0).abs().max() < 1e-5
        assert torch.allclose(logits.var(0, unbiased=False), torch.ones(8), atol=1e-2)
        network.eval()
        assert torch.allclose(network(images), network(images.flip(-1)), atol=1e-5)


def test_hash_network_refuses():
    with pytest.raises(InvalidInput):
        HashNetwork(nn.Identity(), 4, 0)
    with pytest.raises(InvalidInput):
        HashNetwork(nn.Identity(), 4, 4, scale=0.0)


def test_a_crop_is_a_shifted_and_reflected_image():
    images = torch.arange(2 * 3 * 6 * 5).view(2, 3, 6, 5).to(torch.uint8)
    torch.manual_seed(0)
    chosen = Augmentation(shift=2, flip=True, cutout=0)(images, torch.tensor([1, 0, 1, 1]))
    assert chosen.dtype == torch.float32
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect").astype(np.float32)
    padded = padded[[1, 0, 1, 1]]
    for image, around in zip(chosen.numpy(), padded, strict=True):
        crops = [around[:, i : i + 6, j : j + 5] for i in range(5) for j in range(5)]
        assert any(np.array_equal(image, crop) or np.array_equal(image, crop[:, :, ::-1]) for crop in crops)


def test_a_cutout_is_a_square_of_the_fill():
    torch.manual_seed(1)
    images = torch.zeros(1, 3, 20, 20)
    chosen = Augmentation(shift=0, flip=False, cutout=6, fill=9.0)(images, torch.zeros(50, dtype=torch.int64))
    areas = (chosen == 9.0).float().mean(1).sum((1, 2))
    assert areas.max() == 36
    assert (areas >= 9).all()
    assert set(chosen.unique().tolist()) == {0.0, 9.0}


def test_no_augmentation_is_the_images_themselves():
    images = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8)
    rows = torch.tensor([3, 1])
    chosen = Augmentation(shift=0, flip=False, cutout=0)(images, rows)
    assert torch.equal(chosen, images[rows].float())
    assert chosen.is_contiguous(memory_format=torch.channels_last)


def test_augmentation_refuses():
    with pytest.raises(InvalidInput):
        Augmentation(shift=-1)
    with pytest.raises(InvalidInput, match="shape"):
        Augmentation()(torch.zeros(3, 4), torch.tensor([0]))


def test_schedules():
    def rates(schedule, n_steps=40, n_epochs=4):
        return [schedule(step, n_steps, n_epochs) for step in range(n_steps)]

    cosine = rates(Schedule("cosine", warm_up=0.25))
    assert np.argmax(cosine) == 9
    assert cosine[0] == pytest.approx(0.1)
    assert cosine[-1] == pytest.approx(0, abs=1e-12)
    assert rates(Schedule("linear"))[-1] == pytest.approx(0, abs=1e-12)
    steps = rates(Schedule("step", decay=0.5, decay_every=2))
    assert steps == [1.0] * 20 + [0.5] * 20
    assert set(rates(Schedule("constant"))) == {1.0}
    with pytest.raises(InvalidInput):
        Schedule("stairs")
