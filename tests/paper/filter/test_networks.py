"""The folded network says what torch says; which pixels matter; which networks can be scanned."""

import numpy as np
import pytest
import torch

from softscope.errors import SoftscopeError
from softscope.images import binarise9
from softscope.paper.datasets import load
from softscope.paper.filter import Folded, ScanStatistics, Unfolded, inputs, scanned
from softscope.paper.nets import Net, build

from .conftest import confident


def test_the_last_row_and_column_never_reach_the_output(net: Net) -> None:
    """The gradient with respect to them is 0 whatever the weights, and so is the change."""
    images = torch.rand(64, 9, 9, 1, requires_grad=True)
    net(images).square().sum().backward()
    gradient = images.grad[..., 0]
    assert gradient[:, 8, :].abs().max() == 0
    assert gradient[:, :, 8].abs().max() == 0
    bits = inputs.images(0, np.arange(256), (9, 9))
    flipped = bits.copy()
    flipped[:, 8, :] ^= 1
    flipped[:, :8, 8] ^= 1
    reference = Unfolded(net)
    np.testing.assert_array_equal(reference.evaluate(bits)[0], reference.evaluate(flipped)[0])


def test_each_of_the_other_64_pixels_reaches_the_output(net: Net) -> None:
    images = torch.rand(256, 9, 9, 1, requires_grad=True)
    net(images).square().sum().backward()
    assert images.grad[:, :8, :8, 0].abs().amax(0).min() > 0


def test_folded_logits_are_those_of_torch_on_random_inputs(net: Net) -> None:
    bits = inputs.images(1, np.arange(20_000), (9, 9))
    logits, length = scanned(net).evaluate(bits)
    expected, norm = scanned(net, folded=False).evaluate(bits)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(length, norm, rtol=1e-5)


@pytest.mark.slow
def test_folded_logits_are_those_of_torch_on_a_million_inputs() -> None:
    net = build("filter", seed=5)
    for start in range(0, 10**6, 50_000):
        bits = inputs.images(2, np.arange(start, start + 50_000), (9, 9))
        expected = scanned(net, folded=False).evaluate(bits)[0]
        np.testing.assert_allclose(scanned(net).evaluate(bits)[0], expected, rtol=0, atol=1e-5)


def test_folded_logits_are_those_of_torch_on_digits(net: Net) -> None:
    bits = binarise9(load("digits", "test").images)[..., 0]
    np.testing.assert_allclose(scanned(net).evaluate(bits)[0], Unfolded(net).evaluate(bits)[0], rtol=0, atol=1e-5)


def test_a_normalisation_fitted_to_the_data_is_folded_too() -> None:
    net = confident(3)
    net.normalise.fit(np.random.default_rng(0).random((10, 9, 9, 1)))
    bits = inputs.images(1, np.arange(1000), (9, 9))
    np.testing.assert_allclose(scanned(net).evaluate(bits)[0], Unfolded(net).evaluate(bits)[0], rtol=0, atol=1e-4)


def test_both_ways_count_the_same(net: Net) -> None:
    counted = [ScanStatistics.empty(10, 5) for _ in range(2)]
    for network, statistics in zip((scanned(net), scanned(net, folded=False)), counted):
        network.scan(0, 4096, 4096 + 5000, statistics)
    np.testing.assert_array_equal(counted[0].numbers, counted[1].numbers)
    np.testing.assert_allclose(counted[0].odds, counted[1].odds, rtol=1e-5)
    # A value on the border of two bins may fall either way.
    assert np.abs(counted[0].counts - counted[1].counts).sum() <= 8


def test_only_filter_networks_are_folded() -> None:
    assert isinstance(scanned(build("filter")), Folded)
    assert isinstance(scanned(build("vgg", blocks=1, features=8, size=8, classes=3)), Unfolded)


def test_pixels_of_an_image_network_are_black_or_white() -> None:
    net = build("vgg", blocks=1, features=8, size=8, classes=3).eval()
    bits = inputs.images(0, np.arange(5), (8, 8))
    with torch.inference_mode():
        expected = net(torch.from_numpy(bits[..., None] * np.uint8(255))).numpy()
    np.testing.assert_allclose(Unfolded(net).evaluate(bits)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_network_of_colour_images_is_refused() -> None:
    with pytest.raises(SoftscopeError, match="one channel"):
        scanned(build("resnet18", classes=10))


def test_a_network_of_one_class_is_refused() -> None:
    with pytest.raises(SoftscopeError, match="single class"):
        scanned(build("filter", classes=1))


def test_weights_that_are_not_finite_are_refused() -> None:
    net = build("filter")
    net.classifier.weight.data[0, 0] = float("nan")
    for folded in (True, False):
        with pytest.raises(SoftscopeError, match=r"classifier\.weight"):
            scanned(net, folded=folded)
