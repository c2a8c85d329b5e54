"""Preprocessing inside a graph: pixels as Pillow resizes them, scaled as `Preprocessing` does it."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402

from softscope.errors import SoftscopeError  # noqa: E402
from softscope.guard.onnx_pixels import RESIZED, take_images  # noqa: E402
from softscope.guard.onnx_running import run  # noqa: E402
from softscope.guard.onnx_tensor import Graph  # noqa: E402
from softscope.images import Encoded, Preprocessing  # noqa: E402

SIZES = [(40, 60), (60, 40), (33, 33), (24, 24), (7, 200), (25, 24), (500, 377)]


def prepared(asked, images, shape=(None, 3, None, None), opset=13):
    """The resized pixels (None without a size) and what the model would get, by the graph; and what was done."""
    own = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    inner = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [own], [])
    done = take_images(Graph(inner, opset), inner.input[0], asked)
    model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    wanted = ["y"] if asked.size is None else ["y", RESIZED]
    values = run(model, {"image": images}, wanted)
    return (values[1] if len(values) > 1 else None), values[0], done


def pillow(done, images):
    return done.decoder().decode(Encoded(list(images), ["i"] * len(images))).images


def photo(rng, height, width):
    """A smooth picture with edges and noise."""
    y, x = np.mgrid[:height, :width]
    waves = np.stack([127 + 120 * np.sin(x / 7 + k) * np.cos(y / (5 + k)) for k in range(3)], axis=2)
    waves[height // 3 :, width // 2 :] += 60
    return np.clip(waves + rng.normal(0, 10, waves.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("way", [{}, {"crop": 0.875}, {"squash": True}], ids=str)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pixels_are_those_of_pillow_but_for_the_order_of_passes_of_tall_images(size, interpolation, way):
    rng = np.random.default_rng(0)
    images = np.stack([photo(rng, *size), rng.integers(0, 256, (*size, 3), np.uint8)])
    ours, _, done = prepared(Preprocessing(size=(24, 24), interpolation=interpolation, **way), images)
    theirs = pillow(done, images)
    if size[0] > size[1]:  # from 13 on Pillow takes the vertical pass first, and rounds between the passes
        assert np.abs(ours - theirs).max() <= 4
        assert np.abs(ours - theirs).mean() < 0.5
    else:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_a_size_that_is_not_square_is_made_by_every_version_of_operators(opset):
    images = np.stack([photo(np.random.default_rng(1), 50, 90)])
    ours, _, done = prepared(Preprocessing(size=(20, 30)), images, opset=opset)
    np.testing.assert_array_equal(ours, pillow(done, images))
    with pytest.raises(SoftscopeError, match="only squares are cropped"):
        prepared(Preprocessing(size=(20, 30), crop=0.9), images)


@pytest.mark.parametrize("shape", [(None, 3, 24, 24), (None, 24, 24, 3), (None, 1, None, None)], ids=str)
@pytest.mark.parametrize("bgr", [False, True])
def test_scale_mean_std_order_and_layout_are_those_of_the_preprocessing(shape, bgr):
    channels = 1 if 1 in shape else 3
    images = np.random.default_rng(2).integers(0, 256, (2, 24, 24, channels), np.uint8)
    mean, std = ((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)) if channels == 3 else ((0.1,), (0.5,))
    asked = Preprocessing(mean=mean, std=std, scale=1 / 128, bgr=bgr and channels == 3, channels=channels)
    _, ours, done = prepared(asked, images, shape)
    np.testing.assert_array_equal(ours, done.apply(images))
    assert ours.shape == (2, *[size or 24 for size in shape[1:]])
