"""parquet: a file, or a folder of files in sorted order, read in record batches and never whole.

Either a column `z` of lists, one a row, or one float column per feature; labels in a column `label` or `labels`. One
column a feature needs memory for a page of each column (about 3 MB a feature as most writers set it), whatever N.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..arrays import CHUNK_BYTES, as_labels, check_shape, chunk_rows
from ..errors import SoftscopeError
from ..files import existing, first_line, reading
from .sources import Opened, Source, UnchangedFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_LABELS = ("label", "labels")


@dataclass(frozen=True)
class _Layout:
    """Which columns hold the features and the labels; a file and its neighbours must agree in all of it."""

    columns: tuple[str, ...]
    lists: bool
    dtype: np.dtype
    label: str | None
    width: int

    def __str__(self) -> str:
        shape = f"lists of {self.width}" if self.lists else f"{self.width} columns {', '.join(self.columns[:3])} ..."
        return f"{shape} of {self.dtype}, {f'labels in {self.label!r}' if self.label else 'no labels'}"


@dataclass(frozen=True)
class _Part:
    """One file: what its columns are, and how many rows each of its row groups has."""

    file: UnchangedFile
    layout: _Layout
    groups: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(self.groups)

    def batches(
        self, columns: tuple[str, ...], size: int, groups: Sequence[int]
    ) -> Iterator[tuple[int, "pa.RecordBatch"]]:
        """Record batches of at most `size` rows of the row groups `groups`, each with the number of its first row."""
        self.file.check()
        starts = [0, *accumulate(self.groups)]
        with reading(self.file.path, "parquet"), _open_file(self.file.path, len(columns)) as parquet:
            for group in groups:
                row = starts[group]
                for batch in parquet.iter_batches(batch_size=size, row_groups=[group], columns=list(columns)):
                    yield row, batch
                    row += batch.num_rows
                if row != starts[group + 1]:
                    raise ValueError(f"{row - starts[group]} rows, expected {self.groups[group]}")

    def features(self, size: int, groups: Sequence[int], *, holes: bool) -> Iterator[tuple[int, NDArray]]:
        """The features in these batches; `holes` as in `Source.blocks`."""
        for row, batch in self.batches(self.layout.columns, size, groups):
            if self.layout.lists:
                yield row, _from_lists(batch.column(0), self.layout, f"{self.file.path}: z", row, holes=holes)
            else:
                yield row, _from_columns(batch, self.layout, self.file.path, row, holes=holes)

    def labels(self) -> NDArray[np.int64]:
        """The labels of the file."""
        column = self.layout.label or ""
        blocks = [np.empty(0, np.int64)]
        for row, batch in self.batches((column,), 1 << 16, range(len(self.groups))):
            _check_nulls(batch.column(0), f"{self.file.path}: {column}", row)
            blocks.append(as_labels(batch.column(0).to_numpy(), f"{self.file.path}: {column}"))
        return np.concatenate(blocks)


class ParquetSource(Source):
    """Rows of one or more parquet files, one after the other."""

    def __init__(self, parts: list[_Part], name: str) -> None:
        self.parts, self.name = parts, name
        layout = parts[0].layout
        self.shape = (sum(part.rows for part in parts), layout.width)
        self.dtype = layout.dtype
        self.files = tuple(part.file for part in parts)

    def blocks(self, size: int, first: int = 0, *, holes: bool = False) -> Iterator[NDArray]:
        pieces = self._pieces(size, lambda _, stop: stop > first, holes=holes)
        return regroup((piece[max(0, first - row) :] for row, piece in pieces), size)

    def gather(self, indices: NDArray[np.int64]) -> NDArray:
        """The rows `indices`, out of the row groups that hold any of them."""
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]

        def held(start: int, stop: int) -> bool:
            return bool(np.searchsorted(wanted, start) < np.searchsorted(wanted, stop))

        for row, piece in self._pieces(chunk_rows(self.shape[1]), held):
            low, high = np.searchsorted(wanted, [row, row + len(piece)])
            out[order[low:high]] = piece[wanted[low:high] - row]
            if high == len(wanted):
                break
        return out

    def _pieces(
        self, size: int, needed: Callable[[int, int], bool], *, holes: bool = False
    ) -> Iterator[tuple[int, NDArray]]:
        """The rows of every row group with `needed(its first row, the row after its last)`.

        They come in pieces of at most `size` rows, each with the number of its first row.
        """
        first = 0
        for part in self.parts:
            stops = first + np.cumsum(part.groups)
            groups = [group for group, stop in enumerate(stops) if needed(stop - part.groups[group], stop)]
            if groups:
                for row, piece in part.features(size, groups, holes=holes):
                    yield first + row, piece
            first += part.rows


def open_parquet(path: str | os.PathLike[str], *, labels: bool = True) -> Opened:
    """The features and labels of a parquet file or a folder of them; footers and labels are read, features are not."""
    parts = [_part(file) for file in _files(existing(path))]
    filled = [part for part in parts if part.rows]
    first = (filled or parts)[0]
    check_shape((len(filled), first.layout.width), f"{path}: z")
    for part in filled:
        if part.layout != first.layout:
            raise SoftscopeError(
                f"{part.file.path}: found {part.layout}, expected {first.layout} as in {first.file.path.name}",
                "Write all files of a folder with the same columns",
            )
    known = np.concatenate([part.labels() for part in filled]) if labels and first.layout.label else None
    return Opened(ParquetSource(filled, f"{path}: z"), known, {})


def regroup(pieces: Iterable[NDArray], size: int) -> Iterator[NDArray]:
    """The rows of `pieces` as blocks of exactly `size` rows (the last may be shorter)."""
    pending: list[NDArray] = []
    count = 0
    for piece in pieces:
        rest = piece
        while count + len(rest) >= size:
            cut = size - count
            yield np.concatenate([*pending, rest[:cut]])
            pending, count, rest = [], 0, rest[cut:]
        pending.append(rest)
        count += len(rest)
    if count:
        yield np.concatenate(pending)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    with reading(path, "folder"):
        files = sorted(
            file for file in path.iterdir() if file.suffix.lower() == ".parquet" and file.name[0] not in "._"
        )
    if not files:
        raise SoftscopeError(f"{path}: a folder without a .parquet file", "Give a feature file, or a folder of parquet")
    return files


def _part(path: Path) -> _Part:
    file = UnchangedFile.of(path)
    with reading(path, "parquet"), _open_file(path, 1) as parquet:
        metadata = parquet.metadata
        groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows:
            raise ValueError(f"{metadata.num_rows} rows in groups of {groups[:9]}")
        return _Part(file, _layout(parquet, str(path)), groups)


@contextmanager
def _open_file(path: Path, columns: int) -> Iterator["pq.ParquetFile"]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Without a buffer of its own, or with pre-buffering, a whole column of a row group is read at once, however large.
    buffer = min(1 << 20, max(1 << 12, CHUNK_BYTES // columns))
    how = {"buffer_size": buffer, "pre_buffer": False, "page_checksum_verification": True}
    # Bytes are a name and nothing else: pyarrow takes the text `a:b` for an address and refuses what is not UTF-8.
    with pa.OSFile(os.fsencode(path)) as source, pq.ParquetFile(source, **how) as parquet:
        yield parquet


def _layout(parquet: "pq.ParquetFile", path: str) -> _Layout:
    schema = parquet.schema_arrow
    names = schema.names
    if len(set(names)) < len(names):
        raise SoftscopeError(f"{path}: two columns of one name", "Rename one of them")
    labels = [name for name in names if name in _LABELS]
    if len(labels) > 1:
        raise SoftscopeError(f"{path}: found both columns 'label' and 'labels', expected one", "Drop one of them")
    label = labels[0] if labels else None
    if label:
        _check_whole(schema.field(label).type, f"{path}: {label}")
    if "z" in names and _is_list(schema.field("z").type):
        kind = schema.field("z").type
        dtype = _float_type(kind.value_type, f"{path}: z")
        return _Layout(("z",), True, dtype, label, _list_width(parquet, kind, f"{path}: z"))
    columns = tuple(name for name in names if name != label)
    if not columns:
        raise SoftscopeError(
            f"{path}: expected a column 'z' of lists or a float column per feature, found {', '.join(names) or 'none'}",
            "Write the features as a column 'z'",
        )
    dtypes = [_float_type(schema.field(name).type, f"{path}: column '{name}'") for name in columns]
    return _Layout(columns, False, np.result_type(*dtypes), label, len(columns))


def _is_list(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _float_type(kind: "pa.DataType", name: str) -> np.dtype:
    import pyarrow as pa

    if not pa.types.is_floating(kind):
        raise SoftscopeError(
            f"{name}: expected float32 or float64, found {first_line(ValueError(kind))}",
            "Cast the column, or drop it if it is not a feature",
        )
    return np.promote_types(kind.to_pandas_dtype(), np.float32)


def _check_whole(kind: "pa.DataType", name: str) -> None:
    import pyarrow as pa

    if not pa.types.is_integer(kind):
        raise SoftscopeError(
            f"{name}: expected whole-number labels, found {first_line(ValueError(kind))}", "Number the classes"
        )


def _list_width(parquet: "pq.ParquetFile", kind: "pa.DataType", name: str) -> int:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch in parquet.iter_batches(batch_size=1, columns=["z"]):
        _check_nulls(batch.column(0), name, 0)
        return int(batch.column(0).value_lengths()[0].as_py())
    return 0


def _from_lists(column: "pa.Array", layout: _Layout, name: str, row: int, *, holes: bool) -> NDArray:
    if holes:
        import pyarrow as pa

        block = np.full((len(column), layout.width), np.nan, layout.dtype)
        whole = column.value_lengths().to_numpy(zero_copy_only=False) == layout.width
        values = column.filter(pa.array(whole)).flatten()
        block[whole] = values.to_numpy(zero_copy_only=False).reshape(-1, layout.width)
        return block
    _check_nulls(column, name, row)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != layout.width)
    if len(odd):
        raise SoftscopeError(
            f"{name}: row {row + odd[0]} has {lengths[odd[0]]} values, expected {layout.width}",
            "Give every row as many values as the first",
        )
    values = column.flatten()
    if values.null_count:
        bad = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise _null(name, row + bad // layout.width)
    return np.asarray(values.to_numpy(), layout.dtype).reshape(len(column), layout.width)


def _from_columns(batch: "pa.RecordBatch", layout: _Layout, path: Path, row: int, *, holes: bool) -> NDArray:
    block = np.empty((batch.num_rows, layout.width), layout.dtype)
    for number, name in enumerate(layout.columns):
        column = batch.column(number)
        if not holes:
            _check_nulls(column, f"{path}: column '{name}'", row)
        block[:, number] = column.to_numpy(zero_copy_only=False)
    return block


def _check_nulls(column: "pa.Array", name: str, row: int) -> None:
    if column.null_count:
        raise _null(name, row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]))


def _null(name: str, row: int) -> SoftscopeError:
    return SoftscopeError(f"{name}: row {row} is missing (null)", "Drop the rows with missing values")
