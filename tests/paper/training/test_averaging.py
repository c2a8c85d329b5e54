"""The mean of the last weights: the right ones, resumed to the same bits, with batch norm that fits them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from softscope.paper.nets import build
from softscope.paper.training import TrainSettings, evaluate, train
from softscope.paper.training.parts import WeightAverage, estimating_batch_norm

SETTINGS = TrainSettings(
    optimizer="sgd", lr=0.05, epochs=4, batch=32, augment="crop", precision="float32", threads=1, average=0.25
)


@pytest.fixture(scope="module")
def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Small digits of scikit-learn in the middle of 9 x 9 pixels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    padded = np.zeros((300, 9, 9, 1), np.uint8)
    padded[:, :8, :8, 0] = images[:300].reshape(-1, 8, 8) * 15
    return padded, labels[:300]


def weights(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_network_ends_with_the_mean_of_the_weights_of_the_last_quarter_of_the_steps(pictures):
    seen: list[torch.Tensor] = []
    net = build("vgg", blocks=1, size=9)
    train(net, *pictures, SETTINGS, after_step=lambda now, *_: seen.append(now.classifier.weight.clone()))
    assert len(seen) == 40
    torch.testing.assert_close(net.classifier.weight.detach(), torch.stack(seen[-10:]).mean(0))


def test_without_averaging_the_last_weights_stay(pictures):
    seen: list[torch.Tensor] = []
    net = build("vgg", blocks=1, size=9)
    settings = TrainSettings(optimizer="sgd", lr=0.05, epochs=1, batch=32, precision="float32", threads=1)
    train(net, *pictures, settings, after_step=lambda now, *_: seen.append(now.classifier.weight.clone()))
    assert torch.equal(net.classifier.weight, seen[-1])


def test_the_shortest_training_averages_its_last_step(pictures):
    average = WeightAverage(nn.Linear(2, 2), last=0.01, steps=3)
    with torch.no_grad():
        average.parameters[0].fill_(7)
        average.update(2)
        assert not (average.means[0] == 7).any()
        average.update(3)
    assert (average.means[0] == 7).all()


def test_batch_norm_gets_the_plain_mean_over_batches():
    layer = nn.BatchNorm1d(3)
    layer.running_mean.fill_(100)
    batches = torch.randn(5, 16, 3, generator=torch.Generator().manual_seed(0)) + 2
    with estimating_batch_norm(layer):
        for batch in batches:
            layer(batch)
    torch.testing.assert_close(layer.running_mean, batches.mean((0, 1)))
    torch.testing.assert_close(layer.running_var, batches.var(1).mean(0))
    assert layer.momentum == 0.1


def test_an_averaged_network_works_because_batch_norm_was_estimated_again(pictures):
    net = build("vgg", blocks=1, size=9)
    train(net, *pictures, replace(SETTINGS, augment="none"))  # a crop of 4 pixels leaves little of 9
    right = evaluate(net, *pictures)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    assert right.accuracy > 0.9
    assert evaluate(net, *pictures).loss > right.loss


def test_a_killed_training_resumes_to_the_same_mean(tmp_path, pictures):
    class KilledError(Exception):
        pass

    def kill(net, step, steps):
        if step == 35:  # in the last epoch, in the middle of the averaging
            raise KilledError

    settings = replace(SETTINGS, average=0.6)
    whole = build("vgg", blocks=1, size=9)
    train(whole, *pictures, settings)
    with pytest.raises(KilledError):
        train(build("vgg", blocks=1, size=9), *pictures, settings, checkpoint_dir=tmp_path, after_step=kill)
    fresh = build("vgg", seed=9, blocks=1, size=9)
    assert train(fresh, *pictures, settings, checkpoint_dir=tmp_path).resumed_from == 3
    assert same(weights(fresh), weights(whole))
    again = build("vgg", seed=5, blocks=1, size=9)
    assert train(again, *pictures, settings, checkpoint_dir=tmp_path).resumed_from == 4
    assert same(weights(again), weights(whole))


def test_after_epoch_runs_before_the_checkpoint_so_that_a_kill_leaves_no_epoch_out(tmp_path, pictures):
    epochs: list[int] = []

    def killed_once(net, epoch, record):
        epochs.append(epoch)
        if epochs == [1, 2]:
            raise KeyboardInterrupt

    for _ in range(2):
        try:
            train(build("filter"), *pictures, SETTINGS, checkpoint_dir=tmp_path, after_epoch=killed_once)
        except KeyboardInterrupt:
            continue
    assert epochs == [1, 2, 2, 3, 4]
