"""The last modules of a network by themselves: the same features, and nothing else is trained."""

import numpy as np
import pytest
import torch

from softscope.errors import SoftscopeError
from softscope.paper.nets import build
from softscope.paper.nets.base import Tuner, into_tail, through_tail
from softscope.paper.training import TrainSettings, train


@pytest.mark.parametrize("tail", [None, 1, 3])
def test_both_halves_together_are_the_whole_body(tail: int | None) -> None:
    net = build("small", classes=3).eval()
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), dtype=np.uint8))
    with torch.inference_mode():
        whole = net.forward_features(images)
        assert torch.equal(through_tail(net, into_tail(net, images, tail), tail), whole)
        assert torch.equal(Tuner(net, tail)(into_tail(net, images, tail)), net(images))


def test_only_the_tail_and_the_last_layer_are_trained(rng: np.random.Generator) -> None:
    net = build("small", classes=3)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    images = torch.from_numpy(rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8))
    tuner = Tuner(net, 2)
    with torch.inference_mode():
        maps = into_tail(net, images, 2).numpy()
    train(tuner, maps, rng.integers(0, 3, 40), TrainSettings(epochs=1, batch=8, precision="float32"))
    changed = {name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"body.5.weight", "body.5.bias", "classifier.weight", "classifier.bias"}
    assert changed == set(tuner.trained_state())


def test_batch_norms_keep_the_statistics_they_came_with(rng: np.random.Generator) -> None:
    net = build("resnet18", classes=2)
    kept = {name: tensor.clone() for name, tensor in net.state_dict().items() if "running" in name}
    images = rng.integers(0, 256, (8, 8, 8, 3), dtype=np.uint8)
    train(Tuner(net, None), images, [0, 1] * 4, TrainSettings(epochs=1, batch=4, precision="float32"))
    assert all(torch.equal(net.state_dict()[name], tensor) for name, tensor in kept.items())


@pytest.mark.parametrize("tail", [0, 7, -1])
def test_a_tail_that_is_no_part_of_the_body_is_refused(tail: int) -> None:
    with pytest.raises(SoftscopeError, match="modules to train"):
        Tuner(build("small"), tail)
