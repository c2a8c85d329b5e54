"""The paper's networks: sizes counted by hand, output shapes, timm's interface."""

import numpy as np
import pytest
import torch

from softscope.errors import SoftscopeError
from softscope.paper.nets import NETS, build

CONV_LENET = (5 * 5 * 1 + 1) * 32 + (3 * 3 * 32 + 1) * 64 + (3 * 3 * 64 + 1) * 128
VGG_BLOCKS = (
    (9 * 1 + 1) * 32 + (9 * 32 + 1) * 32 + 2 * 32,
    (9 * 32 + 1) * 64 + (9 * 64 + 1) * 64 + 2 * 64,
    (9 * 64 + 1) * 128 + (9 * 128 + 1) * 128 + 2 * 128,
    (9 * 128 + 1) * 128 + (9 * 128 + 1) * 128 + 2 * 128,
)
# ImageNet's ResNet18 has 11,689,512 parameters; the 7x7 stem and the 1000-class layer are exchanged.
RESNET_BODY = 11_689_512 - 7 * 7 * 3 * 64 - (512 + 1) * 1000 + 3 * 3 * 3 * 64
VIT_STEM = 27 * 24 + 2 * 24 + 9 * 24 * 64 + 2 * 64 + 2 * (9 * 128 * 128 + 2 * 128) - 9 * 64 * 128 + 16 * 128
VIT_BLOCK = 2 * 128 + 129 * 3 * 128 + 129 * 128 + 2 * 128 + 129 * 256 + 257 * 128

CASES = [
    ("toy", {}, (2,), 16, 3, 3 * 16 + 17 * 16 + 17 * 3),
    ("lenet", {"features": 16, "classes": 3}, (28, 28, 1), 16, 3, CONV_LENET + 2049 * 16 + 17 * 3),
    ("lenet", {"features": 4, "classes": 2, "activation": "tanh"}, (28, 28, 1), 4, 2, CONV_LENET + 2049 * 4 + 5 * 2),
    ("filter", {}, (9, 9, 1), 64, 10, 10 * 16 + (9 * 16 + 1) * 32 + (4 * 32 + 1) * 64 + 65 * 10),
    ("filter", {"conv_layers": 2}, (9, 9, 1), 128, 10, 10 * 16 + (9 * 16 + 1) * 32 + 129 * 10),
    ("filter", {"conv_layers": 1}, (9, 9, 1), 144, 10, 10 * 16 + 145 * 10),
    ("small", {}, (8, 8, 1), 64, 10, 10 * 32 + (9 * 32 + 1) * 64 + (64 * 4 * 4 + 1) * 64 + 65 * 10),
    ("vgg", {"blocks": 1}, (28, 28, 1), 512, 10, VGG_BLOCKS[0] + (32 * 14 * 14 + 1) * 512 + 513 * 10),
    ("vgg", {"blocks": 2}, (28, 28, 1), 512, 10, sum(VGG_BLOCKS[:2]) + (64 * 7 * 7 + 1) * 512 + 513 * 10),
    ("vgg", {"blocks": 3}, (28, 28, 1), 512, 10, sum(VGG_BLOCKS[:3]) + (128 * 3 * 3 + 1) * 512 + 513 * 10),
    ("vgg", {"blocks": 4}, (28, 28, 1), 512, 10, sum(VGG_BLOCKS) + (128 + 1) * 512 + 513 * 10),
    ("resnet18", {"classes": 100}, (32, 32, 3), 512, 100, RESNET_BODY + 513 * 100),
    ("vit", {}, (32, 32, 3), 128, 10, VIT_STEM + 3 * VIT_BLOCK + 2 * 128 + 129 * 10),
    # The published Lite0 and Lite1 have 4,652,008 and 5,416,680 parameters with their 1000-class layer.
    ("efficientnet_lite", {"variant": "lite0", "classes": 7}, (64, 64, 3), 1280, 7, 4_652_008 - 1281 * 993),
    ("efficientnet_lite", {"classes": 1000}, (64, 64, 3), 1280, 1000, 5_416_680),
]


def batch(shape: tuple[int, ...], n: int = 3) -> torch.Tensor:
    pixels = np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)
    return torch.from_numpy(pixels)


@pytest.mark.parametrize(("name", "config", "shape", "features", "classes", "parameters"), CASES)
def test_sizes_are_those_counted_by_hand(name, config, shape, features, classes, parameters):
    net = build(name, **config).eval()
    assert sum(p.numel() for p in net.parameters()) == parameters
    with torch.inference_mode():
        z = net.forward_features(batch(shape))
        logits = net(batch(shape))
        assert z.shape == (3, features)
        assert logits.shape == (3, classes)
        assert torch.equal(net.forward_head(z, pre_logits=True), z)
        assert torch.equal(net.get_classifier()(z), logits)


def test_every_registered_network_is_counted():
    assert {case[0] for case in CASES} == set(NETS)


@pytest.mark.parametrize(("name", "shape"), [("toy", (2,)), ("lenet", (28, 28, 1)), ("resnet18", (32, 32, 3))])
def test_relu_features_are_never_negative(name, shape):
    with torch.inference_mode():
        assert (build(name).eval().forward_features(batch(shape)) >= 0).all()


def test_tanh_features_stay_within_one_and_take_both_signs():
    with torch.inference_mode():
        z = build("lenet", features=32, activation="tanh").eval().forward_features(batch((28, 28, 1)))
    assert (z.abs() <= 1).all()
    assert (z < 0).any()
    assert (z > 0).any()


def test_resnet_keeps_its_maxpool_so_the_last_map_is_two_by_two():
    net = build("resnet18").eval()
    maps = []
    net.body[-3].register_forward_hook(lambda module, inputs, output: maps.append(output.shape))
    with torch.inference_mode():
        net(batch((32, 32, 3)))
    assert maps == [(3, 512, 2, 2)]


def test_the_same_seed_builds_the_same_weights_and_leaves_the_callers_random_state_alone():
    torch.manual_seed(5)
    first, second, other = build("toy", seed=1), build("toy", seed=1), build("toy", seed=2)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


def test_a_grey_batch_may_leave_out_its_channel_axis():
    net = build("lenet").eval()
    images = batch((28, 28, 1))
    with torch.inference_mode():
        assert torch.equal(net(images), net(images[..., 0]))


def test_uint8_and_float_pixels_on_one_scale_give_the_same_logits():
    net = build("vgg", blocks=1).eval()
    images = batch((28, 28, 1))
    with torch.inference_mode():
        assert torch.equal(net(images), net(images.float()))


def test_normalisation_fitted_on_images_gives_each_channel_mean_zero_and_std_one():
    net = build("resnet18")
    images = batch((32, 32, 3), n=20)
    images[..., 1] //= 2
    net.normalise.fit(images.numpy())
    normal = net.normalise(images).reshape(-1, 3)
    torch.testing.assert_close(normal.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(normal.std(0, correction=0), torch.ones(3), atol=1e-4, rtol=0)


def test_a_constant_channel_does_not_divide_by_zero():
    net = build("lenet")
    net.normalise.fit(np.full((4, 28, 28), 7, np.uint8))
    assert net.normalise.mean.item() == 7
    assert net.normalise.std.item() == 1


def test_a_replaced_classifier_is_used_and_frozen():
    net = build("lenet", features=4, classes=3)
    weight = np.arange(12, dtype=np.float64).reshape(3, 4)
    net.replace_classifier(weight)
    assert net.classifier.bias is None
    assert not net.classifier.weight.requires_grad
    with torch.no_grad():
        z = net.forward_features(batch((28, 28, 1)))
        torch.testing.assert_close(net(batch((28, 28, 1))), z @ torch.tensor(weight, dtype=torch.float32).T)
    net.replace_classifier(weight, [1.0, 2.0, 3.0], trainable=True)
    assert net.classifier.bias.tolist() == [1.0, 2.0, 3.0]
    assert net.classifier.weight.requires_grad


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: build("alexnet"), "'alexnet': not a network"),
        (lambda: build("lenet", depth=3), "depth"),
        (lambda: build("lenet", activation="gelu"), "no activation is called 'gelu'"),
        (lambda: build("vgg", blocks=5), "5 blocks"),
        (lambda: build("filter", conv_layers=4), "4 convolutions"),
        (lambda: build("lenet")(batch((32, 32, 3))), "expected a batch of 28 x 28 x 1"),
        (lambda: build("resnet18")(batch((32, 32, 1))), "expected a batch of any x any x 3"),
        (lambda: build("toy").replace_classifier(np.ones((3, 5))), "5 columns"),
        (lambda: build("toy").replace_classifier(np.ones((4, 16))), "4 rows"),
        (lambda: build("toy").replace_classifier(np.ones((3, 16)), [1.0]), "expected 3 values"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(make, words):
    with pytest.raises(SoftscopeError, match=words):
        make()
