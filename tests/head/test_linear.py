import json

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import save_file

from softscope.errors import SoftscopeError, printable
from softscope.head import Head

NAMES = ["<script>alert(1)</script>", "naïve 猫", 'quote " and \\', ""]


def dot(a, b):
    return mpmath.fsum(mpmath.mpf(float(x)) * mpmath.mpf(float(y)) for x, y in zip(a, b))


def cosine(a, b):
    return dot(a, b) / mpmath.sqrt(dot(a, a) * dot(b, b))


def by_hand(weight, bias, z):
    """Logits, norms, cosines to classes and between classes, one number at a time in 50 digits."""
    with mpmath.workdps(50):
        shifts = np.zeros(len(weight)) if bias is None else bias
        logits = [[dot(w, row) + float(shift) for w, shift in zip(weight, shifts)] for row in z]
        norms = [mpmath.sqrt(dot(row, row)) for row in z]
        cosines = [[cosine(w, row) for w in weight] for row in z]
        between = [[cosine(w, v) for v in weight] for w in weight]
        return [np.array(values, dtype=float) for values in (logits, norms, cosines, between)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_bias", [False, True])
def test_logits_norms_and_cosines_agree_with_50_digit_arithmetic(rng, dtype, with_bias):
    weight, z = rng.normal(size=(3, 5)).astype(dtype), rng.normal(size=(7, 5)).astype(dtype)
    bias = rng.normal(size=3).astype(dtype) if with_bias else None
    head = Head(weight, bias)
    logits, norms, cosines, class_cosines = by_hand(weight, bias, z)
    assert head.logits(z).dtype == dtype
    np.testing.assert_allclose(head.logits(z), logits, atol=20 * np.finfo(dtype).eps)
    np.testing.assert_allclose(head.norms(z), norms, rtol=1e-14)
    np.testing.assert_allclose(head.cosines(z), cosines, atol=1e-14)
    np.testing.assert_allclose(head.class_cosines, class_cosines, atol=1e-14)
    np.testing.assert_allclose(head.weight_norms, by_hand(z, None, weight)[1], rtol=1e-14)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1.0, 1e200, 1e308])
def test_tiny_and_huge_rows_keep_their_direction_and_length(scale):
    z = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, -1.0], [1.0, 0.0, 0.0]]) * scale
    head = Head(np.eye(3))
    with mpmath.workdps(50):
        expected = [float(mpmath.sqrt(k) * mpmath.mpf(scale)) for k in (3, 2, 1)]
    np.testing.assert_allclose(head.norms(z), expected, rtol=1e-15)
    np.testing.assert_allclose(head.cosines(z)[0], np.full(3, 3**-0.5), rtol=1e-15)
    np.testing.assert_allclose(head.cosines(z)[1], [0, 2**-0.5, -(2**-0.5)], rtol=1e-15)
    np.testing.assert_allclose(Head(z).class_cosines[0], [1, 0, 3**-0.5], atol=1e-15)
    np.testing.assert_allclose(Head(z).weight_norms, expected, rtol=1e-15)


def test_norms_stay_finite_where_the_true_norm_is_beyond_float64():
    assert Head(np.eye(3)).norms(np.full((1, 3), 1.7e308)) == np.finfo(np.float64).max


def test_zero_rows_and_zero_weights_have_cosine_zero():
    head = Head(np.array([[0.0, 0.0], [1.0, 2.0]]))
    np.testing.assert_allclose(head.cosines(np.array([[0.0, 0.0], [1.0, 2.0]])), [[0, 0], [0, 1]], rtol=1e-15)
    assert np.array_equal(head.class_cosines, [[0, 0], [0, 1]])
    assert np.array_equal(head.norms(np.zeros((1, 2))), [0])


finite32 = st.floats(-(2.0**40), 2.0**40, width=32)


@given(z=hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.just(3)), elements=finite32))
def test_cosines_lie_in_minus_one_to_one_and_never_change_with_the_length_of_z(z):
    head = Head(np.array([[1, 2, 3], [-1, 0, 1], [0, 0, 1]], np.float32))
    cosines = head.cosines(z)
    assert np.all(np.abs(cosines) <= 1)
    np.testing.assert_allclose(head.cosines(z * np.float32(4)), cosines, atol=1e-12)
    np.testing.assert_allclose(cosines * head.norms(z)[:, None] * head.weight_norms, z @ head.weight.T.astype(float),
                               rtol=1e-9, atol=1e-9 * (1 + np.abs(z).max()))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_do_not_depend_on_how_rows_are_cut(rng, dtype, monkeypatch):
    head, z = Head(rng.normal(size=(5, 8)), rng.normal(size=5)), rng.normal(size=(101, 8)).astype(dtype)
    whole = [head.logits(z), head.norms(z), head.cosines(z)]
    for rows in (1, 7, 100):
        monkeypatch.setattr("softscope.head.linear.chunk_rows", lambda *_, rows=rows: rows)
        for cut, expected in zip([head.logits(z), head.norms(z), head.cosines(z)], whole):
            np.testing.assert_allclose(cut, expected, rtol=0, atol=30 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 10, 300])
def test_logits_of_a_row_are_the_same_bits_whatever_rows_are_beside_it(rng, dtype, classes):
    head, z = Head(rng.normal(size=(classes, 40)), rng.normal(size=classes)), rng.normal(size=(2500, 40)).astype(dtype)
    whole = head.logits(z)
    np.testing.assert_allclose(whole, z @ head.weight.T + head.bias, atol=1e3 * np.finfo(dtype).eps)
    for row in (0, 7, 1023, 1024, 2499):
        assert np.array_equal(head.logits(z[row : row + 1])[0], whole[row])
    assert np.array_equal(head.logits(z[::-3]), whole[::-3])


def test_a_head_is_taken_from_a_torch_classifier(rng):
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    head, x = Head.from_torch(model, ["a", "b", "c"]), torch.randn(9, 6)
    with torch.no_grad():
        np.testing.assert_allclose(head.logits(model[:2](x).numpy()), model(x).numpy(), atol=1e-6)
    assert head.classes == ("a", "b", "c")


def test_float64_logits_need_both_sides_in_float64(rng):
    weight, z = rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    assert Head(weight).logits(z).dtype == np.float64
    assert Head(weight).logits(z.astype(np.float32)).dtype == np.float32
    assert Head(weight.astype(np.float32)).logits(z).dtype == np.float32
    assert Head(weight.astype(np.float16)).weight.dtype == np.float32


def test_arrays_are_copied_and_read_only(rng):
    weight, bias = rng.normal(size=(3, 4)), rng.normal(size=3)
    head = Head(weight, bias)
    weight[:] = bias[:] = 0
    assert head.weight.all()
    assert head.bias.all()
    with pytest.raises(ValueError, match="read-only"):
        head.weight[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        head.bias[0] = 1


def test_read_only_and_strided_features_are_accepted(rng):
    z = rng.normal(size=(10, 8))[::2, ::2]
    z.flags.writeable = False
    head = Head(rng.normal(size=(3, 4)))
    np.testing.assert_allclose(head.logits(z), np.array(z) @ head.weight.T, rtol=1e-13)
    assert head.cosines(z).shape == (5, 3)


@pytest.mark.parametrize("bias", [None, [0.5, -1.0, 2.0, 0.0]])
@pytest.mark.parametrize("classes", [None, NAMES])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_head_comes_back_as_it_was(tmp_path, rng, bias, classes, dtype):
    head = Head(rng.normal(size=(4, 6)).astype(dtype), None if bias is None else np.array(bias), classes)
    path = tmp_path / "head.safetensors"
    head.save(path)
    again = Head.load(path)
    assert np.array_equal(again.weight, head.weight)
    assert again.weight.dtype == dtype
    np.testing.assert_array_equal(again.bias, np.zeros(4) if bias is None else bias)
    assert again.classes == (None if classes is None else tuple(classes))
    assert again.name == str(path)
    with safe_open(path, framework="numpy") as file:
        assert np.array_equal(file.get_tensor("weight"), head.weight)


@given(names=st.lists(st.text(), min_size=2, max_size=2))
def test_any_text_is_a_class_name_that_survives_a_file(tmp_path, names):
    head = Head(np.eye(2), classes=names)
    assert head.classes == tuple(map(printable, names))
    head.save(tmp_path / "head.safetensors")
    assert Head.load(tmp_path / "head.safetensors").classes == head.classes


def test_a_class_without_a_name_is_called_by_its_number(head):
    assert head.class_name(2) == "hen"
    assert Head(np.eye(3)).class_name(2) == "2"


def test_repr_says_what_the_head_is(head):
    assert repr(head) == "Head(4 classes, 12 features, bias, float32)"
    assert "no bias" in repr(Head(np.eye(2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((1, 3)),), "at least 2 classes"),
        ((np.ones(3),), "expected a matrix"),
        ((np.ones((2, 0)),), "is empty"),
        ((np.eye(2, dtype=int),), "found int64"),
        ((np.array([[1, np.nan], [0, 1]]),), "weight: row 0 holds nan"),
        (([[1.0, 2.0], [3.0]],), "not an array of numbers"),
        ((np.eye(2), np.ones(3)), "bias: expected 2 values, found shape"),
        ((np.eye(2), np.array([0.0, np.inf])), "bias: row 1 holds inf"),
        ((np.eye(2, dtype=np.float32), np.array([0.0, 1e300])), "bias as float32: row 1 holds inf"),
        ((np.eye(2), None, ["a"]), "1 class names for 2 rows"),
        ((np.eye(2), None, "ab"), "1 class names for 2 rows"),
    ],
)
def test_a_bad_head_is_refused_with_a_reason(arguments, message):
    with pytest.raises(SoftscopeError, match=message):
        Head(*arguments, name="mine")


def test_features_of_another_width_are_refused_with_both_widths(head):
    with pytest.raises(SoftscopeError, match=r"z: has 11 columns, the head \(head\) expects 12"):
        head.logits(np.ones((3, 11)))


def test_logits_beyond_float32_are_refused_not_returned_as_inf():
    head = Head(np.full((2, 2), 1e30, np.float32))
    with pytest.raises(SoftscopeError, match=r"beyond the range of float32: row 1 holds inf"):
        head.logits(np.array([[1, 1], [1e30, 1e30]], np.float32))


def test_a_file_without_weight_says_which_tensors_it_has(tmp_path):
    save_file({"fc.weight": np.eye(2), "fc.bias": np.ones(2)}, tmp_path / "net.safetensors")
    with pytest.raises(
        SoftscopeError, match=r"net.safetensors: expected tensors 'weight' and 'bias', found fc.bias, fc"
    ):
        Head.load(tmp_path / "net.safetensors")


@pytest.mark.parametrize("classes", ["nonsense", '{"a": 1}', "[1, 2]", "[" * 100_000, json.dumps(["one"])])
def test_hostile_class_names_in_a_file_are_refused(tmp_path, classes):
    save_file({"weight": np.eye(2)}, tmp_path / "head.safetensors", metadata={"classes": classes})
    with pytest.raises(SoftscopeError, match=r"head.safetensors"):
        Head.load(tmp_path / "head.safetensors")
