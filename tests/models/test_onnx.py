"""ONNX classifiers: the last layer is read from the graph, features come from onnxruntime and are checked."""

import subprocess
import sys

import numpy as np
import pytest

from softscope import FeatureSet, SoftscopeError
from softscope.images import ArrayImages
from softscope.models import extract, open_model

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
    path = write(tmp_path / "m.onnx", ending)
    images = ArrayImages(PIXELS, np.arange(7) % 3, ["a", "b", "c"])
    head, features = extract(path, images, classes=["a", "b", "c"], batch=3, mean=MEAN, std=STD)
    np.testing.assert_allclose(head.weight, weight, rtol=1e-6)
    np.testing.assert_allclose(head.bias, np.zeros(3) if bias is None else bias, rtol=1e-6)
    np.testing.assert_allclose(features.array(), expected_features(), rtol=1e-4, atol=1e-4)
    assert features.labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert open_model(path).preprocessing.size == (2, 2)


def test_a_fixed_batch_and_channels_last_are_understood(tmp_path):
    path = write(tmp_path / "m.onnx", GEMM, shape=(4, 2, 2, 3))
    _, features = extract(path, ArrayImages(PIXELS), out=tmp_path / "f.safetensors", mean=MEAN, std=STD)
    np.testing.assert_allclose(features.array(), expected_features(channels_first=False), rtol=1e-4, atol=1e-4)
    words = {"layer": "after", "model": "m.onnx", "classifier": "logits"}
    assert FeatureSet.open(tmp_path / "f.safetensors").metadata == words


def constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))


SCALE = np.abs(LAST).max() / 127
QUANTISED = np.round(LAST / SCALE).astype(np.int8)
ENDINGS = {
    "constant nodes": [
        constant("w", LAST),
        constant("b", BIAS),
        helper.make_node("MatMul", ["z", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["logits"]),
    ],
    "transposed constant": [
        constant("w", LAST.T.copy()),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("Gemm", ["z", "t", "bias"], ["logits"]),
    ],
    "spelled-out softmax": [
        *MATMUL[:1],
        helper.make_node("Add", ["product", "bias"], ["l"]),
        helper.make_node("ReduceMax", ["l"], ["m"], axes=[1]),
        helper.make_node("Sub", ["l", "m"], ["s"]),
        helper.make_node("Exp", ["s"], ["e"]),
        constant("axes", np.array([1])),
        helper.make_node("ReduceSum", ["e", "axes"], ["t"]),
        helper.make_node("Div", ["e", "t"], ["logits"]),
    ],
    "quantised weight": [
        constant("q", QUANTISED),
        constant("scale", np.float32(SCALE)),
        constant("zero", np.int8(0)),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"]),
        helper.make_node("MatMul", ["z", "w"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
    ],
    "1x1 convolution": [
        constant("two", np.array([-1, 5, 1, 1])),
        helper.make_node("Reshape", ["z", "two"], ["map"]),
        constant("w", LAST.T[:, :, None, None].copy()),
        helper.make_node("Conv", ["map", "w", "bias"], ["made"]),
        helper.make_node("Flatten", ["made"], ["logits"]),
    ],
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_other_ways_to_write_a_linear_layer_give_the_same_head(tmp_path, ending):
    path = write(tmp_path / "m.onnx", ending)
    head, features = extract(path, ArrayImages(PIXELS), mean=MEAN, std=STD)
    quantised = any(node.op_type == "DequantizeLinear" for node in ending)
    np.testing.assert_allclose(head.weight, (QUANTISED * SCALE if quantised else LAST).T, rtol=1e-5)
    np.testing.assert_allclose(head.bias, BIAS, rtol=1e-6)
    np.testing.assert_allclose(features.array(), expected_features(), rtol=1e-4, atol=1e-4)


def test_one_logit_with_a_sigmoid_is_a_head_of_two_classes(tmp_path):
    ending = [
        constant("w", LAST[:, :1]),
        constant("b", BIAS[:1]),
        helper.make_node("Gemm", ["z", "w", "b"], ["l"]),
        helper.make_node("Sigmoid", ["l"], ["logits"]),
    ]
    head, features = extract(write(tmp_path / "m.onnx", ending), ArrayImages(PIXELS), mean=MEAN, std=STD)
    np.testing.assert_allclose(head.weight, np.stack([0 * LAST[:, 0], LAST[:, 0]]))
    answer = 1 / (1 + np.exp(-(expected_features() @ LAST[:, 0] + BIAS[0])))
    logits = head.logits(features.array())
    np.testing.assert_allclose(np.exp(logits[:, 1]) / np.exp(logits).sum(1), answer, rtol=1e-4)


def test_several_inputs_are_given_by_name(tmp_path):
    nodes = [helper.make_node("Add", ["x", "y"], ["z"]), *MATMUL]
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", 5)) for name in ("x", "y")]
    answer = helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)
    fixed = [numpy_helper.from_array(value, name) for name, value in {"last": LAST, "bias": BIAS}.items()]
    graph = helper.make_graph(nodes, "two", floats, [answer], fixed)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    x, y = (RANDOM.standard_normal((9, 5)).astype(np.float32) for _ in range(2))
    _, features = extract(tmp_path / "m.onnx", {"x": x, "y": y, "labels": np.arange(9) % 3})
    np.testing.assert_allclose(features.array(), x + y, rtol=1e-6)
    assert features.labels.tolist() == [0, 1, 2] * 3
    with pytest.raises(SoftscopeError, match=r"m\.onnx: takes the inputs x, y, got x"):
        extract(tmp_path / "m.onnx", {"x": x})
    with pytest.raises(SoftscopeError, match=r"m\.onnx failed on x \[2, 4\]"):
        extract(tmp_path / "m.onnx", {"x": x[:, :4], "y": y})


HALF = [
    helper.make_node("Add", ["one", "other"], ["sum"]),
    constant("two", np.float32(2)),
    helper.make_node("Div", ["sum", "two"], ["logits"]),
]
OTHER_FIRST, OTHER_LAST = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((12, 4), (4, 3)))
OTHER_Z = [
    constant("other_first", OTHER_FIRST),
    constant("other_last", OTHER_LAST),
    helper.make_node("MatMul", ["flat", "other_first"], ["other_hidden"]),
    helper.make_node("Relu", ["other_hidden"], ["other_z"]),
]
TWO_LAYERS = [
    *OTHER_Z,
    helper.make_node("Gemm", ["z", "last", "bias"], ["one"]),
    helper.make_node("MatMul", ["other_z", "other_last"], ["other"]),
]
TWINS = {
    "half of the sum": [*TWO_LAYERS, *HALF],
    "sum of the halves": [
        *TWO_LAYERS,
        constant("half", np.full((1, 1), 0.5, np.float32)),
        helper.make_node("Mul", ["half", "one"], ["one_half"]),
        helper.make_node("Mul", ["other", "half"], ["other_half"]),
        helper.make_node("Add", ["one_half", "other_half"], ["logits"]),
    ],
    "1x1 convolutions": [
        *OTHER_Z,
        constant("five", np.array([-1, 5, 1, 1])),
        constant("four", np.array([-1, 4, 1, 1])),
        constant("w", LAST.T[:, :, None, None].copy()),
        constant("other_w", OTHER_LAST.T[:, :, None, None].copy()),
        helper.make_node("Reshape", ["z", "five"], ["map"]),
        helper.make_node("Reshape", ["other_z", "four"], ["other_map"]),
        helper.make_node("Conv", ["map", "w", "bias"], ["one"]),
        helper.make_node("Conv", ["other_map", "other_w"], ["other"]),
        *HALF[:2],
        helper.make_node("Div", ["sum", "two"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["logits"]),
    ],
}


@pytest.mark.parametrize("ending", TWINS.values(), ids=TWINS)
def test_the_mean_of_two_heads_is_one_head_on_both_features(tmp_path, ending):
    path = write(tmp_path / "m.onnx", ending)
    head, features = extract(path, ArrayImages(PIXELS), mean=MEAN, std=STD)
    np.testing.assert_allclose(head.weight, np.vstack([LAST, OTHER_LAST]).T / 2, rtol=1e-6)
    np.testing.assert_allclose(head.bias, BIAS / 2, rtol=1e-6)
    x = ((PIXELS / 255 - MEAN) / STD).transpose(0, 3, 1, 2).reshape(7, -1)
    both = np.hstack([np.maximum(x @ FIRST, 0), np.maximum(x @ OTHER_FIRST, 0)])
    np.testing.assert_allclose(features.array(), both, rtol=1e-4, atol=1e-4)


def test_two_heads_on_the_same_features_are_one(tmp_path):
    layers = [
        helper.make_node("Gemm", ["z", "last", "bias"], ["one"]),
        helper.make_node("Gemm", ["z", "turned"], ["other"], transB=1, alpha=3.0),
    ]
    head, features = extract(write(tmp_path / "m.onnx", [*layers, *HALF]), ArrayImages(PIXELS), mean=MEAN, std=STD)
    np.testing.assert_allclose(head.weight, 2 * LAST.T, rtol=1e-6)
    np.testing.assert_allclose(head.bias, BIAS / 2, rtol=1e-6)
    np.testing.assert_allclose(features.array(), expected_features(), rtol=1e-4, atol=1e-4)


def test_a_number_that_the_logits_are_divided_by_goes_into_the_head(tmp_path):
    ending = [
        *MATMUL[:1],
        helper.make_node("Add", ["product", "bias"], ["l"]),
        constant("temperature", np.float32(4)),
        helper.make_node("Div", ["l", "temperature"], ["cooler"]),
        helper.make_node("Softmax", ["cooler"], ["logits"]),
    ]
    head, _ = extract(write(tmp_path / "m.onnx", ending), ArrayImages(PIXELS), mean=MEAN, std=STD)
    np.testing.assert_allclose(head.weight, LAST.T / 4, rtol=1e-6)
    np.testing.assert_allclose(head.bias, BIAS / 4, rtol=1e-6)


def test_an_answer_for_each_position_is_refused(tmp_path):
    ending = [
        constant("places", np.array([-1, 1, 5])),
        constant("thrice", np.array([1, 4, 1])),
        helper.make_node("Reshape", ["z", "places"], ["row"]),
        helper.make_node("Tile", ["row", "thrice"], ["rows"]),
        helper.make_node("MatMul", ["rows", "last"], ["l"]),
        helper.make_node("Softmax", ["l"], ["logits"], axis=2),
    ]
    with pytest.raises(SoftscopeError, match="answers once for each of 4 positions of an input, not once per input"):
        extract(write(tmp_path / "m.onnx", ending), ArrayImages(PIXELS), mean=MEAN, std=STD)


CIRCLE = [helper.make_node("Identity", ["there"], ["here"]), helper.make_node("Identity", ["here"], ["there"])]
NUMBER = [constant("number", np.float32(1.5))]
ENDLESS = {
    "circle behind a bias": [*CIRCLE, helper.make_node("Add", ["here", "bias"], ["logits"])],
    "circle behind a sum of powers": [
        *CIRCLE,
        helper.make_node("Exp", ["z"], ["e"]),
        helper.make_node("Div", ["e", "here"], ["logits"]),
    ],
    "circle of factors": [*NUMBER, helper.make_node("Mul", ["logits", "number"], ["logits"])],
    "circle of sums": [helper.make_node("Add", ["logits", "logits"], ["logits"])],
    "a thousand doublings": [
        helper.make_node("Identity", ["z"], ["d0"]),
        *(helper.make_node("Add", [f"d{number}"] * 2, [f"d{number + 1}"]) for number in range(1000)),
        helper.make_node("Identity", ["d1000"], ["logits"]),
    ],
    "ten thousand factors": [
        *NUMBER,
        helper.make_node("Identity", ["z"], ["d0"]),
        *(helper.make_node("Mul", [f"d{number}", "number"], [f"d{number + 1}"]) for number in range(10_000)),
        helper.make_node("Identity", ["d10000"], ["logits"]),
    ],
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("ending", ENDLESS.values(), ids=ENDLESS)
def test_circles_and_endless_sums_are_refused_at_once(tmp_path, ending):
    with pytest.raises(SoftscopeError, match=r"m\.onnx: logits (comes from|ends in)"):
        open_model(write(tmp_path / "m.onnx", ending))


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ([helper.make_node("Relu", ["z"], ["logits"])], "ends in Relu"),
        (
            [
                *TWO_LAYERS,
                helper.make_node("Add", ["one", "other"], ["sum"]),
                helper.make_node("Add", ["sum", "one"], ["logits"]),
            ],
            "a sum of more than two layers",
        ),
        (
            [
                *TWO_LAYERS,
                helper.make_node("Softmax", ["one"], ["one_s"]),
                helper.make_node("Softmax", ["other"], ["other_s"]),
                helper.make_node("Add", ["one_s", "other_s"], ["logits"]),
            ],
            "addition that is not a bias",
        ),
        ([*MATMUL[:1], helper.make_node("Div", ["product", "product"], ["logits"])], "ends in Div"),
        ([helper.make_node("Add", ["z", "z"], ["logits"])], "addition that is not a bias"),
        ([helper.make_node("Gemm", ["z", "z"], ["logits"], transB=1)], "computed, not stored"),
        (
            [
                *GEMM[:0],
                helper.make_node("MatMul", ["z", "last"], ["l"]),
                helper.make_node("Sigmoid", ["l"], ["logits"]),
            ],
            "one sigmoid per class",
        ),
    ],
)
def test_other_endings_are_refused(tmp_path, ending, words):
    with pytest.raises(SoftscopeError, match=words):
        open_model(write(tmp_path / "m.onnx", ending))


def test_class_names_in_the_files_metadata_are_used(tmp_path):
    path = write(tmp_path / "m.onnx", GEMM)
    model = onnx.load(path)
    for text in ("['cat', 'dog', 'owl']", "{0: 'cat', 1: 'dog', 2: 'owl'}"):
        del model.metadata_props[:]
        model.metadata_props.append(onnx.StringStringEntryProto(key="names", value=text))
        onnx.save(model, path)
        assert open_model(path).classes == ("cat", "dog", "owl")


def test_a_huge_fixed_batch_is_refused_before_anything_is_allocated(tmp_path):
    with pytest.raises(SoftscopeError, match="is exported for batches of 1099511627776"):
        open_model(write(tmp_path / "m.onnx", GEMM, shape=(2**40, 3, 2, 2)))


def test_a_file_that_is_no_onnx_is_refused(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"hello, I am no model" * 5)
    with pytest.raises(SoftscopeError, match=r"m\.onnx"):
        open_model(str(tmp_path / "m.onnx"))


def test_only_features_after_the_nonlinearity_are_offered(tmp_path):
    with pytest.raises(SoftscopeError, match="need a torch model"):
        open_model(write(tmp_path / "m.onnx", GEMM)).prepare(PIXELS, "before")


def test_infinite_answers_are_said(tmp_path):
    with pytest.raises(SoftscopeError, match="NaN or inf"):
        extract(write(tmp_path / "m.onnx", GEMM), ArrayImages(PIXELS), std=(1e-38, 1e-38, 1e-38))


def test_onnx_needs_no_torch(tmp_path):
    path = write(tmp_path / "m.onnx", GEMM)
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np
from softscope.images import ArrayImages
from softscope.models import extract
print(len(extract({str(path)!r}, ArrayImages(np.zeros((3, 2, 2, 3), np.uint8)))[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "3", done.stderr
