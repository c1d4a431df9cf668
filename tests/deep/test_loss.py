import numpy as np
import pytest
import torch

import oracles_deep as oracles
from mihash import information as numpy_information
from mihash.deep import MutualInformationLoss
from mihash.deep.loss import information
from mihash.errors import InvalidInput


def problem(seed, n=14, n_bits=6, n_classes=3, multi=False):
    rng = np.random.default_rng(seed)
    codes = np.tanh(1.5 * rng.standard_normal((n, n_bits)))
    if multi:
        return codes, (rng.random((n, n_classes)) > 0.6).astype(np.int64)
    return codes, rng.integers(0, n_classes, n)


def value_and_gradient(codes, labels, n_bins=None, loss=None):
    tensor = torch.tensor(codes, requires_grad=True)
    loss = loss or MutualInformationLoss(codes.shape[1], n_bins)
    value = loss(tensor, torch.as_tensor(labels))
    value.backward()
    return value.item(), tensor.grad.numpy()


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("n_bins", [None, 3, 9])
def test_value_and_gradient_are_those_of_the_equations(multi, n_bins):
    for seed in range(4):
        codes, labels = problem(seed, multi=multi)
        value, gradient = value_and_gradient(codes, labels, n_bins)
        assert value == pytest.approx(oracles.information_loss(codes, labels, n_bins), abs=1e-9)
        expected = oracles.information_loss_gradient(codes, labels, n_bins)
        assert np.abs(gradient - expected).max() <= 1e-9


def test_value_and_anchor_gradient_are_those_of_numpy():
    codes, labels = problem(0, n=40, n_bits=16)
    everything = torch.tensor(codes)
    for i in range(5):
        others = np.arange(40) != i
        near = labels[others] == labels[i]
        anchor = torch.tensor(codes[i], requires_grad=True)
        distances = (16 - everything[others] @ anchor)[None] / 2
        value = information(distances, torch.tensor(near)[None], torch.ones(1, 39, dtype=torch.bool), 16, 16).sum()
        value.backward()
        expected = numpy_information.mutual_information(distances[0].detach().numpy(), near, 16)
        assert value.item() == pytest.approx(expected, abs=1e-6)
        gradient = numpy_information.mutual_information_gradient(codes[i], codes[others], near)
        assert np.abs(anchor.grad.numpy() - gradient).max() <= 1e-6


def test_on_saturated_codes_the_value_is_minus_quality():
    rng = np.random.default_rng(0)
    bits, labels = rng.random((50, 24)) > 0.4, rng.integers(0, 4, 50)
    value, gradient = value_and_gradient(np.where(bits, 1.0, -1.0), labels)
    packed = np.packbits(bits, axis=1, bitorder="little")
    assert value == pytest.approx(-numpy_information.quality(packed, labels, 24), abs=1e-9)
    assert np.isfinite(gradient).all()


def test_on_the_centres_of_bins_the_derivative_to_the_right_is_taken():
    rng = np.random.default_rng(1)
    codes, labels = np.sign(rng.standard_normal((10, 5))), rng.integers(0, 2, 10)
    _, gradient = value_and_gradient(codes, labels)
    assert np.abs(gradient - oracles.information_loss_gradient(codes, labels)).max() <= 1e-9


@pytest.mark.parametrize("multi", [False, True])
def test_gradcheck(multi):
    for seed in range(3):
        codes, labels = problem(seed, n=9, n_bits=4, multi=multi)
        loss = MutualInformationLoss(4, 5)
        tensor = torch.tensor(codes, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, y=labels, f=loss: f(x, torch.tensor(y)), (tensor,))


def degenerate(kind, n, n_bits, generator):
    logits = torch.randn(n, n_bits, generator=generator)
    labels = torch.randint(0, 3, (n,), generator=generator)
    if kind == "one class":
        labels[:] = 1
    elif kind == "all different":
        labels = torch.arange(n)
    elif kind == "one image":
        logits[:] = logits[0].clone()
    elif kind == "saturated":
        logits *= 1e4
    elif kind == "zeros":
        logits[:] = 0
    elif kind == "one item":
        logits, labels = logits[:1], labels[:1]
    elif kind == "one item of a class":
        labels[:] = 0
        labels[0] = 1
    return logits, labels


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "kind",
    ["none", "one class", "all different", "one image", "saturated", "zeros", "one item", "one item of a class"],
)
def test_degenerate_minibatches_have_finite_values_and_gradients(kind, dtype):
    for seed in range(20):
        logits, labels = degenerate(kind, 24, 16, torch.Generator().manual_seed(seed))
        logits = logits.to(dtype).requires_grad_()
        remembering = MutualInformationLoss(16, 5, memory=30)
        for loss in (remembering, remembering, MutualInformationLoss(16)):
            value = loss(torch.tanh(logits), labels)
            (gradient,) = torch.autograd.grad(value, logits)
            assert torch.isfinite(value)
            assert -1 <= value.item() <= 0
            assert torch.isfinite(gradient).all()
        if kind in ("one class", "all different", "one item"):
            assert not gradient.any()
            assert value == 0


def test_anchors_without_one_side_give_no_gradient():
    """Item 0 has no neighbour: it is no anchor, but an other to the rest."""
    codes, labels = problem(3)
    labels[0] = 99
    value, _ = value_and_gradient(codes, labels)
    assert value == pytest.approx(oracles.information_loss(codes, labels), abs=1e-9)
    distances = torch.zeros(1, 3, requires_grad=True)
    near, counted = torch.zeros(1, 3, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)
    information(distances, near, counted, 4, 4).sum().backward()
    assert not distances.grad.any()


def test_under_autocast_histograms_are_float32():
    codes, labels = problem(0, n=64, n_bits=32)
    single = torch.tensor(codes, dtype=torch.float32)
    loss = MutualInformationLoss(32)
    plain = loss(single, torch.tensor(labels))
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(single, torch.tensor(labels))
    assert value.dtype == torch.float32
    assert value == plain


def test_float32_is_close_to_float64():
    codes, labels = problem(5, n=128, n_bits=64)
    exact, gradient = value_and_gradient(codes, labels)
    value, single = value_and_gradient(codes.astype(np.float32), labels)
    assert value == pytest.approx(exact, abs=1e-5)
    assert np.abs(single - gradient).max() <= 1e-5


def test_memory_adds_constant_others():
    codes, labels = problem(0, n=10)
    more, more_labels = problem(1, n=8)
    loss = MutualInformationLoss(6, memory=20).double()
    loss(torch.tensor(more), torch.tensor(more_labels))
    loss.eval()
    value, gradient = value_and_gradient(codes, labels, loss=loss)
    expected = oracles.information_loss(codes, labels, kept=more, kept_labels=more_labels)
    assert value == pytest.approx(expected, abs=1e-9)
    assert gradient.shape == codes.shape
    assert gradient.any()


def test_memory_is_a_ring_and_only_training_fills_it():
    loss = MutualInformationLoss(2, memory=5)
    for start in (0, 3, 6):
        rows = torch.arange(start, start + 3)
        loss((rows[:, None] / 10).expand(3, 2), rows)
    assert loss.kept_labels.tolist() == [5, 6, 7, 8, 4]
    assert torch.allclose(loss.kept[:, 0], loss.kept_labels / 10)
    loss.eval()
    loss(torch.zeros(2, 2), torch.tensor([70, 70]))
    assert 70 not in loss.kept_labels.tolist()
    loss.train()
    loss(torch.zeros(9, 2), torch.arange(20, 29))
    assert sorted(loss.kept_labels.tolist()) == [24, 25, 26, 27, 28]


def test_memory_is_saved_with_the_module():
    codes, labels = problem(0, multi=True)
    loss = MutualInformationLoss(6, memory=20, n_classes=3).double()
    loss(torch.tensor(codes), torch.tensor(labels))
    other = MutualInformationLoss(6, memory=20, n_classes=3).double()
    other.load_state_dict(loss.state_dict())
    again = [module(torch.tensor(codes), torch.tensor(labels)).item() for module in (loss, other)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("codes", "labels"),
    [
        (torch.zeros(4, 5), torch.zeros(4, dtype=torch.int64)),
        (torch.zeros(4, 6, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)),
        (torch.zeros(4, 6), torch.zeros(3, dtype=torch.int64)),
        (torch.zeros(4, 6), torch.zeros(4, 2, 2, dtype=torch.int64)),
        (torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64)),
        (torch.full((4, 6), 1.5), torch.zeros(4, dtype=torch.int64)),
        (torch.full((4, 6), torch.nan), torch.zeros(4, dtype=torch.int64)),
        (torch.zeros(4, 6), torch.tensor([0.5, 1.0, 1.0, torch.nan])),
        (torch.zeros(4, 6), 2 * torch.eye(4) - 1),
        (torch.zeros(4, 6), [0, 1, 0, 1]),
        (np.zeros((4, 6)), torch.zeros(4, dtype=torch.int64)),
    ],
)
def test_bad_input(codes, labels):
    with pytest.raises(InvalidInput):
        MutualInformationLoss(6)(codes, labels)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.uint16, torch.uint64])
def test_labels_of_any_whole_type(dtype):
    codes, labels = problem(0, n_classes=2)
    expected, _ = value_and_gradient(codes, labels)
    typed = torch.tensor(labels).to(dtype)
    assert MutualInformationLoss(6)(torch.tensor(codes), typed).item() == expected
    remembering = MutualInformationLoss(6, memory=9)
    for _ in range(2):
        assert torch.isfinite(remembering(torch.tensor(codes), typed))


def test_bad_parameters():
    for arguments in ({"n_bits": 0}, {"n_bits": 4, "n_bins": 0}, {"n_bits": 4, "memory": -1}):
        with pytest.raises(InvalidInput):
            MutualInformationLoss(**arguments)
    with pytest.raises(InvalidInput, match="n_classes"):
        MutualInformationLoss(6, memory=4)(torch.zeros(4, 6), torch.zeros(4, 3, dtype=torch.int64))


def test_the_joint_loss_is_the_sum_of_its_terms():
    codes, labels = problem(0, n_bits=6)
    joint = MutualInformationLoss(6, 3, n_classes=3, classification=0.5, seed=4)
    W = joint.classifier.classifier.weight.detach().numpy().astype(np.float64)
    value, gradient = value_and_gradient(codes, labels, loss=joint)
    pure, pure_gradient = value_and_gradient(codes, labels, 3)
    expected, expected_gradient = oracles.classification_loss(codes, labels, W)
    assert value == pytest.approx(pure + 0.5 * expected, abs=1e-6)
    assert np.abs(gradient - pure_gradient - 0.5 * expected_gradient).max() <= 1e-6
    assert joint.classifier.classifier.weight.grad is not None
    assert [name for name, _ in MutualInformationLoss(6).named_parameters()] == []


def test_the_joint_loss_can_be_double():
    codes, labels = problem(2, n_bits=6)
    joint = MutualInformationLoss(6, n_classes=3, classification=0.5, seed=4).double()
    W = joint.classifier.classifier.weight.detach().numpy()
    assert W.dtype == np.float64
    value, gradient = value_and_gradient(codes, labels, loss=joint)
    pure, pure_gradient = value_and_gradient(codes, labels)
    expected, expected_gradient = oracles.classification_loss(codes, labels, W)
    assert value == pytest.approx(pure + 0.5 * expected, abs=1e-12)
    assert np.abs(gradient - pure_gradient - 0.5 * expected_gradient).max() <= 1e-12


def test_the_joint_loss_takes_classes_with_a_memory_too():
    codes, labels = problem(1, n_bits=6)
    joint = MutualInformationLoss(6, memory=20, n_classes=3, classification=1.0)
    for _ in range(2):
        assert np.isfinite(value_and_gradient(codes, labels, loss=joint)[0])
    with pytest.raises(InvalidInput, match="`n_classes` must be given"):
        MutualInformationLoss(6, classification=0.5)
    with pytest.raises(InvalidInput):
        joint(torch.zeros(2, 6), torch.eye(2, 3))
