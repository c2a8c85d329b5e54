"""ONNX classifiers: the last layer is read from the graph, features come from onnxruntime and are checked."""

import numpy as np
import pytest

from softscope import FeatureSet, SoftscopeError
from softscope.models.opening import open_model

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RANDOM = np.random.default_rng(0)
FIRST = RANDOM.standard_normal((12, 5)).astype(np.float32)
LAST = RANDOM.standard_normal((5, 3)).astype(np.float32)
BIAS = RANDOM.standard_normal(3).astype(np.float32)
PIXELS = RANDOM.integers(0, 256, (7, 2, 2, 3), dtype=np.uint8)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


def write(path, ending, shape=("n", 3, 2, 2), output="logits", last=LAST):
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "first"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["z"]),
        *ending,
    ]
    fixed = {"first": FIRST, "last": last, "turned": last.T.copy(), "bias": BIAS}
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in fixed.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return str(path)


GEMM = [helper.make_node("Gemm", ["z", "turned", "bias"], ["logits"], transB=1)]
SCALED_GEMM = [helper.make_node("Gemm", ["z", "last", "bias"], ["logits"], alpha=2.0, beta=0.5)]
MATMUL = [
    helper.make_node("MatMul", ["z", "last"], ["product"]),
    helper.make_node("Add", ["product", "bias"], ["logits"]),
]
NO_BIAS = [helper.make_node("MatMul", ["z", "last"], ["logits"])]
SOFTMAX = [
    *MATMUL[:1],
    helper.make_node("Add", ["bias", "product"], ["l"]),
    helper.make_node("Softmax", ["l"], ["logits"]),
]


def expected_features(channels_first=True):
    x = (PIXELS / 255 - MEAN) / STD
    flat = (x.transpose(0, 3, 1, 2) if channels_first else x).reshape(7, -1)
    return np.maximum(flat @ FIRST, 0)


@pytest.mark.parametrize(
    ("ending", "weight", "bias"),
    [
        (GEMM, LAST.T, BIAS),
        (SCALED_GEMM, 2 * LAST.T, 0.5 * BIAS),
        (MATMUL, LAST.T, BIAS),
        (NO_BIAS, LAST.T, None),
        (SOFTMAX, LAST.T, BIAS),
    ],
    ids=["gemm", "scaled gemm", "matmul and add", "no bias", "softmax"],
)
def test_head_and_features_are_those_computed_by_hand(tmp_path, ending, weight, bias):
    model = open_model(write(tmp_path / "m.onnx", ending), mean=MEAN, std=STD)
    head, features = model.head(["a", "b", "c"]), model.features(PIXELS, np.arange(7) % 3, batch=3)
    np.testing.assert_allclose(head.weight, weight, rtol=1e-6)
    np.testing.assert_allclose(head.bias, np.zeros(3) if bias is None else bias, rtol=1e-6)
    np.testing.assert_allclose(features.array(), expected_features(), rtol=1e-4, atol=1e-4)
    assert model.input_shape == (2, 2, 3)


def test_a_fixed_batch_and_channels_last_are_understood(tmp_path):
    model = open_model(write(tmp_path / "m.onnx", GEMM, shape=(4, 2, 2, 3)), mean=MEAN, std=STD)
    out = tmp_path / "f.safetensors"
    features = model.features(PIXELS, out=out, metadata={"split": "test"})
    np.testing.assert_allclose(features.array(), expected_features(channels_first=False), rtol=1e-4, atol=1e-4)
    assert FeatureSet.open(out).metadata == {
        "layer": "after",
        "model": "m.onnx",
        "classifier": "logits",
        "split": "test",
    }


@pytest.mark.parametrize(
    ("ending", "shape", "words"),
    [
        ([helper.make_node("Relu", ["z"], ["logits"])], ("n", 3, 2, 2), "ends in Relu"),
        ([helper.make_node("Add", ["z", "z"], ["logits"])], ("n", 3, 2, 2), "addition that is no bias"),
        ([helper.make_node("Gemm", ["z", "z"], ["logits"], transB=1)], ("n", 3, 2, 2), "computed, not stored"),
        (GEMM, ("n", 12), "expected float images"),
    ],
)
def test_other_endings_and_inputs_are_refused(tmp_path, ending, shape, words):
    with pytest.raises(SoftscopeError, match=words):
        open_model(write(tmp_path / "m.onnx", ending, shape=shape))


def test_a_file_that_is_no_onnx_is_refused(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"hello, I am no model" * 5)
    with pytest.raises(SoftscopeError, match=r"m\.onnx"):
        open_model(str(tmp_path / "m.onnx"))


def test_only_features_after_the_nonlinearity_are_offered(tmp_path):
    model = open_model(write(tmp_path / "m.onnx", GEMM))
    with pytest.raises(SoftscopeError, match="need a torch model"):
        model.features(PIXELS, layer="before")


def test_infinite_weights_are_said(tmp_path):
    model = open_model(write(tmp_path / "m.onnx", GEMM), std=(1e-38, 1e-38, 1e-38))
    with pytest.raises(SoftscopeError, match="NaN or inf"):
        model.features(PIXELS)
