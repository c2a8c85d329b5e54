import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softscope.arrays import as_labels, as_matrix, as_rows, as_vector, check_columns, check_finite, chunk_rows, spans
from softscope.errors import SoftscopeError


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.ones((2, 3), np.float16), np.float32),
        (np.ones((2, 3), np.float32), np.float32),
        (np.ones((2, 3), np.float64), np.float64),
        ([[1.0, 2.0, 3.0]], np.float64),
        (torch.ones(2, 3), np.float32),
        (np.memmap, np.float32),
    ],
)
def test_real_matrices_are_taken_as_float32_or_float64(values, dtype, tmp_path):
    if values is np.memmap:
        values = np.memmap(tmp_path / "z", np.float32, "w+", shape=(2, 3))
    matrix = as_matrix(values, "z", columns=3)
    assert type(matrix) is np.ndarray
    assert matrix.dtype == dtype
    assert matrix.shape[1] == 3


def test_a_plain_float_array_is_not_copied():
    z = np.ones((4, 2), np.float32)
    assert np.shares_memory(as_matrix(z, "z"), z)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), r"z: expected a matrix of rows x features, found shape \(3,\)\. z\[None\] is one row"),
        (np.ones((2, 2, 2)), "expected a matrix.* Reshape it to one row per input"),
        (5.0, r"found shape \(\)"),
        (np.ones((0, 3)), r"z: is empty, shape \(0, 3\)"),
        (np.ones((3, 0)), r"z: is empty, shape \(3, 0\)"),
        (np.ones((2, 2), int), "expected float32 or float64, found int64"),
        (np.ones((2, 2), bool), "found bool"),
        (np.ones((2, 2), complex), "found complex128"),
        (np.ones((2, 2), ">f4"), "found >f4"),
        (np.array([["a", "b"]]), "found <U1"),
        (np.array([[None, 1.0]]), "found object .object arrays can't be read safely"),
        ([[1.0], [1.0, 2.0]], "z: is not an array of numbers"),
        (torch.ones(2, 2, device="meta"), r"not an array of numbers \(.*meta"),
        (np.ma.masked_array(np.ones((2, 2)), mask=[[0, 1], [0, 0]]), "masked array"),
    ],
)
def test_what_is_no_real_matrix_is_refused_with_a_reason(values, message):
    with pytest.raises(SoftscopeError, match=message) as caught:
        as_rows(values, "z")
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_another_number_of_columns_is_named_with_what_the_owner_expects():
    with pytest.raises(SoftscopeError, match=r"test.npz: z: has 512 columns, the head expects 640"):
        check_columns(512, "test.npz: z", columns=640)
    check_columns(512, "z", columns=512)
    check_columns(512, "z", columns=None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_bad_row_is_named_with_what_it_holds(value, dtype):
    z = np.zeros((50, 3), dtype)
    z[[17, 31], 1] = value
    with pytest.raises(SoftscopeError, match=rf"z: row 17 holds {value}"):
        check_finite(z, "z")
    with pytest.raises(SoftscopeError, match=r"z: row 117 holds"):
        check_finite(z, "z", first_row=100)
    with pytest.raises(SoftscopeError, match=r"z: row 49 holds"):
        check_finite(z[::-1], "z", numbers=np.arange(50)[::-1] + 31 - 13)
    with pytest.raises(SoftscopeError, match=r"b: row 17 holds"):
        check_finite(z[:, 1], "b")


def test_the_bad_row_is_counted_across_the_pieces_the_check_is_cut_into():
    z = np.zeros((5 * chunk_rows(4), 4), np.float32)
    row = 3 * chunk_rows(4) + 5
    z[row, 2] = np.nan
    with pytest.raises(SoftscopeError, match=rf"row {row} holds nan"):
        check_finite(z, "z")


def test_large_finite_values_pass_even_where_their_sum_overflows():
    check_finite(np.full((100, 3), np.finfo(np.float64).max), "z")
    check_finite(np.full((100, 3), -np.finfo(np.float32).max, np.float32), "z")
    check_finite(np.empty((0, 3)), "z")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, ">i4"])
def test_whole_number_labels_become_int64(dtype):
    labels = as_labels(np.array([0, 2, 1], dtype), "labels", rows=3, classes=3)
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 2, 1]


def test_labels_are_copied():
    labels = np.array([0, 1])
    assert not np.shares_memory(as_labels(labels, "labels"), labels)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 1, 3, 5], r"labels: row 2 has label 3, expected 0\.\.2"),
        ([0, -1, 1, 1], r"labels: row 1 has label -1, expected 0\.\.2"),
        ([0, 1, 2], "labels: 3 labels for 4 rows"),
        ([0.0, 1.0, 2.0, 1.0], "expected whole-number labels, found float64"),
        ([True, False, True, True], "found bool"),
        (["a", "b", "c", "d"], "found <U1"),
        (np.eye(4, dtype=int), r"expected one label per row, found shape \(4, 4\)\. Use labels.argmax"),
        (np.array([0, 1, 2, 2**63], np.uint64), r"row 3 has label 9223372036854775808, expected 0\.\.2"),
    ],
)
def test_bad_labels_are_refused_with_a_reason(values, message):
    with pytest.raises(SoftscopeError, match=message):
        as_labels(values, "labels", rows=4, classes=3)


def test_without_a_number_of_classes_only_negative_labels_are_refused():
    assert as_labels([7, 0], "labels").tolist() == [7, 0]
    with pytest.raises(SoftscopeError, match="row 1 has label -3, expected 0 or more"):
        as_labels([7, -3], "labels")


def test_vectors_have_the_asked_length():
    assert as_vector(np.ones(3, np.float16), "bias", length=3).dtype == np.float32
    assert as_vector([1.0, 2.0], "bias").tolist() == [1, 2]
    for bad in (np.ones((3, 1)), np.ones(2), np.ones(0)):
        with pytest.raises(SoftscopeError, match="bias: expected 3 values, found shape"):
            as_vector(bad, "bias", length=3)
    with pytest.raises(SoftscopeError, match="expected a row of values"):
        as_vector(np.ones((2, 2)), "bias")


@given(rows=st.integers(0, 300), size=st.integers(1, 400))
def test_spans_cover_every_row_once_and_in_order(rows, size):
    cut = list(spans(rows, size))
    assert [i for span in cut for i in range(span.start, span.stop)] == list(range(rows))
    assert all(span.stop - span.start == size for span in cut[:-1])


@given(columns=st.integers(0, 10**9), itemsize=st.sampled_from([4, 8]), budget=st.integers(1, 10**8))
def test_chunks_fit_their_budget_but_always_hold_a_row(columns, itemsize, budget):
    rows = chunk_rows(columns, itemsize, budget)
    assert rows >= 1
    assert rows == 1 or rows * columns * itemsize <= budget
