import numpy as np
import pytest
import torch
from torch import nn

import mihash
from mihash.deep import (
    Augmentation,
    ClassificationLoss,
    DPSHLoss,
    HeldOut,
    MutualInformationLoss,
    Schedule,
    Trainer,
    build_network,
    device_name,
    torch_version,
)
from mihash.errors import InvalidInput, NotReady


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    y = np.arange(160) % 4
    blocks = rng.integers(0, 180, (4, 3, 4, 4)).repeat(4, axis=2).repeat(4, axis=3)
    return (blocks[y] + rng.integers(0, 76, (160, 3, 16, 16))).astype(np.uint8), y


def small_network(scale=2.0):
    return build_network("resnet", 12, width=4, scale=scale, mirror=True, seed=1)


def trainer_for(network, **options):
    settings = {
        "epochs": 4,
        "batch_size": 40,
        "learning_rate": 0.3,
        "augmentation": Augmentation(shift=1, cutout=2),
    }
    loss = options.pop("loss", None) or MutualInformationLoss(12, memory=50)
    return Trainer(network, loss, **{**settings, **options})


def test_a_tiny_network_learns(images):
    X, y = images
    seen = []
    network = build_network("resnet", 12, width=4, scale=2.0, seed=1)
    Trainer(network, ClassificationLoss(12, 4), epochs=4, batch_size=40, learning_rate=0.1).fit(X[:120], y[:120])
    held_out = HeldOut(X[120:], y[120:], X[:120], y[:120], every=2)
    trainer = trainer_for(network, epochs=8)
    history = trainer.fit(X[:120], y[:120], held_out=held_out, progress=lambda *call: seen.append(call))
    assert seen == [(number, 8) for number in range(1, 9)]
    assert [epoch.number for epoch in history] == list(range(1, 9))
    assert history[-1].loss < history[0].loss
    assert [epoch.precision is not None for epoch in history] == [False, True] * 4
    assert history[-1].precision > 0.7  # 1.0 with every seed tried; after half the epochs it may be anything
    codes, queries = trainer.encode(X[:120]), trainer.encode(X[120:])
    expected = mihash.mean_average_precision(queries, codes, (y[120:], y[:120]), 12)
    assert history[-1].precision == pytest.approx(expected, abs=1e-12)
    tensors = HeldOut(*(torch.as_tensor(part) for part in held_out[:4]))
    assert trainer._measure(trainer._held_out(tensors)) == history[-1].precision


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "adamw", "learning_rate": 0.003},
        {"precision": "bfloat16", "clip": 0.1, "schedule": Schedule("step", decay_every=2)},
    ],
)
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(images, options, tmp_path):
    X, y = images
    whole = trainer_for(small_network(), **options)
    whole.fit(X, y)
    file = tmp_path / "checkpoints" / "training.mihash"

    class Stop(Exception):
        pass

    def stop(done, total):
        assert total == len(whole.history)
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        trainer_for(small_network(), **options).fit(X, y, progress=stop, checkpoint=file, checkpoint_every=2)
    assert b"pickle" not in file.read_bytes()
    resumed = trainer_for(small_network(), **options)
    history = resumed.fit(X, y, checkpoint=file, checkpoint_every=2)
    assert [epoch.loss for epoch in history] == [epoch.loss for epoch in whole.history]
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name]), name
    assert trainer_for(small_network(), **options).fit(X, y, checkpoint=file) == history  # nothing left to do


def test_the_same_seed_gives_the_same_network_and_leaves_the_generator_alone(images):
    X, y = images
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second, other = (trainer_for(small_network(), epochs=1, seed=seed) for seed in (0, 0, 1))
    losses = [trainer.fit(X, y)[0].loss for trainer in (first, second, other)]
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_checkpoint_of_another_training_is_refused(images, tmp_path):
    X, y = images
    file = tmp_path / "training.mihash"
    trainer_for(small_network(), epochs=1).fit(X, y, checkpoint=file)
    with pytest.raises(InvalidInput, match="checkpoint was made with"):
        trainer_for(small_network(), epochs=2).fit(X, y, checkpoint=file)
    wider = trainer_for(build_network("resnet", 12, width=6, scale=2.0), epochs=1)
    with pytest.raises(InvalidInput, match="do not fit"):
        wider.fit(X, y, checkpoint=file)


def test_vectors_multi_labels_and_a_remainder():
    rng = np.random.default_rng(0)
    Y = (rng.random((50, 3)) > 0.5).astype(np.uint8)
    X = rng.standard_normal((50, 5)) + Y @ rng.standard_normal((3, 5)) * 2
    trainer = Trainer(nn.Linear(5, 6), DPSHLoss(6), epochs=3, batch_size=20, learning_rate=0.1)
    history = trainer.fit(X, Y)
    assert history[-1].loss < history[0].loss
    assert Trainer(nn.Linear(5, 6), DPSHLoss(6), epochs=1, batch_size=512).fit(X, Y)  # fewer than a minibatch


def test_divergence_is_told():
    X, y = np.ones((20, 3)), np.arange(20) % 2
    broken = nn.Linear(3, 4)
    nn.init.constant_(broken.weight, torch.nan)
    with pytest.raises(NotReady, match="smaller learning rate"):
        Trainer(broken, DPSHLoss(4), epochs=1, batch_size=10).fit(X, y)


def test_bad_arguments():
    for options in (
        {"epochs": 0},
        {"optimizer": "none"},
        {"precision": "float8"},
        {"learning_rate": -1.0},
        {"momentum": 1.0},
        {"device": "gpu"},
    ):
        with pytest.raises(InvalidInput):
            Trainer(nn.Linear(3, 4), DPSHLoss(4), **options)
    with pytest.raises(InvalidInput, match="no parameter"):
        Trainer(nn.Identity(), DPSHLoss(4))
    with pytest.raises(InvalidInput):
        Trainer(nn.Linear(3, 4), DPSHLoss(4)).fit(np.zeros((4, 3)), [0, 1])
    with pytest.raises(InvalidInput):
        Trainer(nn.Linear(3, 4), DPSHLoss(4)).fit(np.zeros(4), [0, 1, 0, 1])
    with pytest.raises(InvalidInput, match="numbers"):
        Trainer(nn.Linear(3, 4), DPSHLoss(4)).fit(np.full((4, 3), "a"), [0, 1, 0, 1])
    with pytest.raises(InvalidInput, match="checkpoint_every"):
        Trainer(nn.Linear(3, 4), DPSHLoss(4)).fit(np.zeros((4, 3)), [0, 1, 0, 1], checkpoint_every=0)
    X, y = np.zeros((4, 3)), [0, 1, 0, 1]
    with pytest.raises(InvalidInput, match="of one kind"):
        Trainer(nn.Linear(3, 4), DPSHLoss(4), epochs=1).fit(X, y, held_out=HeldOut(X, np.eye(4, dtype=int), X, y))
    untouched = Trainer(nn.Linear(3, 4), DPSHLoss(4), epochs=1)
    with pytest.raises(InvalidInput, match="one label for each of the 4 rows; got 2"):
        untouched.fit(X, y, held_out=HeldOut(X, y[:2], X, y))
    assert untouched.history == []
    with pytest.raises(InvalidInput, match="warm_up"):
        Schedule(warm_up=2.0)
    if not torch.cuda.is_available():
        with pytest.raises(NotReady, match="CUDA"):
            Trainer(nn.Linear(3, 4), DPSHLoss(4), device="cuda")


def test_a_classifier_takes_classes_of_any_whole_type_and_refuses_others():
    loss, outputs = ClassificationLoss(4, 3), torch.zeros(2, 4)
    assert loss(outputs, torch.tensor([0, 2], dtype=torch.int32)) == loss(outputs, torch.tensor([0, 2]))
    for labels in (torch.tensor([0, 3]), torch.tensor([-1, 0]), torch.tensor([0.0, 1.0]), torch.eye(2)):
        with pytest.raises(InvalidInput):
            loss(outputs, labels)


def test_the_device_and_the_version_have_names():
    assert device_name("cpu") == "cpu"
    assert torch.__version__.startswith(torch_version())
