"""Shape and finiteness checks with messages that teach, and how rows are cut into chunks."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import SoftscopeError

Floats = NDArray[np.float64]
CHUNK_BYTES = 1 << 24


def memory_bytes() -> int:
    """The memory of this machine; without end where it isn't known."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else sys.maxsize


def as_matrix(values: Any, name: str, *, columns: int | None = None, owner: str = "the head") -> NDArray:
    """`values` as a finite float32 or float64 matrix with `columns` columns (float16 becomes float32)."""
    matrix = as_rows(values, name, columns=columns, owner=owner)
    check_finite(matrix, name)
    return matrix


def as_rows(values: Any, name: str, *, columns: int | None = None, owner: str = "the head") -> NDArray:
    """Like `as_matrix` without reading the values: for arrays too large to check at once."""
    array = as_array(values, name)
    check_real(array.dtype, name)
    check_shape(array.shape, name)
    check_columns(array.shape[1], name, columns=columns, owner=owner)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def as_vector(values: Any, name: str, *, length: int | None = None) -> NDArray:
    """`values` as a finite one-dimensional float array of `length`."""
    array = as_array(values, name)
    check_real(array.dtype, name)
    if array.ndim != 1 or array.size == 0 or (length is not None and array.size != length):
        expected = f"{length} values" if length is not None else "a row of values"
        raise SoftscopeError(f"{name}: expected {expected}, found shape {array.shape}", "Check what was passed")
    check_finite(array, name)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def as_labels(values: Any, name: str, *, rows: int | None = None, classes: int | None = None) -> NDArray[np.int64]:
    """`values` as int64 labels in 0..classes-1, one for each of `rows` rows."""
    array = as_array(values, name)
    check_labels(array.dtype, array.shape, name, rows=rows)
    labels = array.astype(np.int64)
    outside = labels < 0 if classes is None else (labels < 0) | (labels >= classes)
    if outside.any():
        row = int(outside.argmax())
        allowed = "0 or more" if classes is None else f"0..{classes - 1}"
        raise SoftscopeError(
            f"{name}: row {row} has label {array[row]}, expected {allowed}",
            "Number the classes as the rows of the head's weight",
        )
    return labels


def as_array(values: Any, name: str) -> NDArray:
    """`values` (array, list, torch tensor) as a numpy array of whatever dtype, or a SoftscopeError."""
    if isinstance(values, np.ma.MaskedArray):
        raise SoftscopeError(f"{name}: is a masked array", "Drop the masked rows, then pass a plain array")
    torch = sys.modules.get("torch")  # a tensor can't exist before torch is imported
    try:
        if torch is not None and isinstance(values, torch.Tensor):
            values = values.float() if values.dtype == torch.bfloat16 else values
            return np.asarray(values.numpy(force=True))
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise SoftscopeError(f"{name}: is not an array of numbers ({reason})", "Pass a numpy array") from error


def check_real(dtype: np.dtype, name: str) -> None:
    """Raise unless `dtype` is float16, float32 or float64."""
    if dtype not in (np.float16, np.float32, np.float64):
        why = "object arrays can't be read safely" if dtype.hasobject else "features are real numbers"
        raise SoftscopeError(f"{name}: expected float32 or float64, found {dtype} ({why})", "Use .astype(np.float32)")


def check_shape(shape: tuple[int, ...], name: str) -> None:
    """Raise unless `shape` is that of a matrix with at least one row and one column."""
    if len(shape) != 2:
        hint = "z[None] is one row" if len(shape) == 1 else "Reshape it to one row per input, z.reshape(len(z), -1)"
        raise SoftscopeError(f"{name}: expected a matrix of rows x features, found shape {shape}", hint)
    if 0 in shape:
        raise SoftscopeError(f"{name}: is empty, shape {shape}", "Give at least one row")


def check_labels(dtype: np.dtype, shape: tuple[int, ...], name: str, *, rows: int | None) -> None:
    """Raise unless `dtype` and `shape` are those of one whole-number label for each of `rows` rows."""
    if dtype.kind not in "iu":
        raise SoftscopeError(f"{name}: expected whole-number labels, found {dtype}", "Use labels.astype(np.int64)")
    if len(shape) != 1:
        raise SoftscopeError(f"{name}: expected one label per row, found shape {shape}", "Use labels.argmax(1)")
    if rows is not None and shape[0] != rows:
        raise SoftscopeError(f"{name}: {shape[0]} labels for {rows} rows", "Save features and labels together")


def check_columns(given: int, name: str, *, columns: int | None, owner: str = "the head") -> None:
    """Raise unless there are `columns` columns."""
    if columns is not None and given != columns:
        raise SoftscopeError(
            f"{name}: has {given} columns, {owner} expects {columns}",
            "Take features from the layer that feeds the head, from the same network",
        )


def check_finite(array: NDArray, name: str, *, first_row: int = 0, numbers: NDArray | None = None) -> None:
    """Raise a SoftscopeError that names the first row with NaN or inf.

    Row i of `array` is called `first_row` + i, or `numbers[i]` where its rows were gathered from elsewhere.
    """
    for span in spans(len(array), chunk_rows(array[0].size) if len(array) else 1):
        finite = np.isfinite(array[span])
        if finite.all():
            continue
        row, *column = np.argwhere(~finite)[0]
        number = first_row + span.start + row if numbers is None else numbers[span.start + row]
        raise SoftscopeError(
            f"{name}: row {number} holds {array[span][(row, *column)]}, expected finite numbers",
            "Drop the rows with NaN or inf, or fix their source",
        )


def chunk_rows(columns: int, itemsize: int = 8, budget: int = CHUNK_BYTES) -> int:
    """How many rows of `columns` items fit into `budget` bytes, at least 1."""
    return max(1, budget // max(1, columns * itemsize))


def spans(rows: int, size: int) -> Iterator[slice]:
    """Consecutive slices of `size` rows that cover 0..rows."""
    for start in range(0, rows, size):
        yield slice(start, min(rows, start + size))


def rows_in(inputs: Any) -> int:
    """How many inputs a batch holds: an array, a list of texts, or a tuple or dict of these."""
    if isinstance(inputs, Mapping):
        return rows_in(next(iter(inputs.values())))
    if isinstance(inputs, tuple):
        return rows_in(inputs[0])
    return int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)  # sparse matrices have no len


def placed(blocks: Iterable[NDArray]) -> Iterator[tuple[slice, NDArray]]:
    """Consecutive blocks of rows, each with the slice of all rows that it covers."""
    start = 0
    for block in blocks:
        yield slice(start, start + len(block)), block
        start += len(block)


def square_norms(rows: NDArray) -> Floats:
    """norm(row)^2 in float64."""
    wide = rows.astype(np.float64, copy=False)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))
