"""How data sets are read: the hub's parquet layout, a column of encoded images and a column of labels.

`image` is a struct of bytes and path (or plain bytes), `label` a whole number; class names are in the schema's
metadata under the key `huggingface`. The other names the hub's own files use for these columns are understood too.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels
from ..canonical import parse_json
from ..errors import SoftscopeError
from ..files import existing_file, first_line
from .decoding import Encoded

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label", "labels")
_BLOCK_ROWS = 256


@dataclass(frozen=True)
class Columns:
    """Which columns of a parquet file hold images and labels, and the class names written beside them."""

    image: str
    label: str | None
    class_names: tuple[str, ...] | None


def count_rows(files: Sequence[Path]) -> int:
    """Rows of all files together, from their footers."""
    total = 0
    for path in files:
        with _open(path) as file:
            total += int(file.metadata.num_rows)
    return total


def read_columns(path: Path, *, labelled: bool = True) -> Columns:
    """The file's image and label columns, or a SoftscopeError that lists what it has; labels only if `labelled`."""
    import pyarrow as pa

    with _open(path) as file:
        schema = file.schema_arrow
    image = next((name for name in IMAGE_COLUMNS if name in schema.names), None)
    label = next((name for name in LABEL_COLUMNS if name in schema.names), None)
    if image is None or (label is None and labelled):
        wanted, known = ("image", IMAGE_COLUMNS) if image is None else ("label", LABEL_COLUMNS)
        raise SoftscopeError(
            f"{path}: no {wanted} column; there is {', '.join(schema.names[:8]) or 'none'}",
            f"Name it {' or '.join(known)}",
        )
    kind = schema.field(image).type
    if pa.types.is_struct(kind):
        kind = kind.field("bytes").type if kind.get_field_index("bytes") >= 0 else None
    if kind is None or not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise SoftscopeError(
            f"{path}: column {image} holds {schema.field(image).type}, not encoded images",
            "Expected a struct with a field bytes, as the Hugging Face hub writes it",
        )
    if label is None:
        return Columns(image, None, None)
    if not pa.types.is_integer(schema.field(label).type):
        raise SoftscopeError(
            f"{path}: column {label} holds {schema.field(label).type}, expected whole numbers", "Number the classes"
        )
    return Columns(image, label, _class_names(schema.metadata or {}, label))


def read_labels(files: Sequence[Path], *, classes: int | None) -> NDArray[np.int64]:
    """All labels in file order, each in 0..classes-1."""
    parts = []
    for path in files:
        column = read_columns(path).label
        with _open(path) as file:
            values = file.read(columns=[column]).column(column)
        if values.null_count:
            raise SoftscopeError(f"{path}: {values.null_count} rows have no label", "Drop these rows")
        parts.append(as_labels(values.to_numpy(), str(path), classes=classes))
    return np.concatenate(parts)


def read_images(files: Sequence[Path], rows: NDArray[np.int64]) -> Iterator[Encoded]:
    """The encoded images of the ascending `rows` (numbered through all files), in blocks; nothing else is kept."""
    first = 0
    for path in files:
        column = read_columns(path, labelled=False).image
        with _open(path) as file:
            last = first + int(file.metadata.num_rows)
            wanted = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)] - first
            if len(wanted):
                yield from _blocks_of(file, path, column, wanted)
        first = last


def _blocks_of(file: Any, path: Path, column: str, wanted: NDArray[np.int64]) -> Iterator[Encoded]:
    """Only row groups that hold a wanted row are read, a batch at a time."""
    start = 0
    for group in range(file.metadata.num_row_groups):
        rows = int(file.metadata.row_group(group).num_rows)
        mine = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + rows)] - start
        if len(mine):
            batch_start = 0
            for batch in file.iter_batches(batch_size=_BLOCK_ROWS, row_groups=[group], columns=[column]):
                stop = batch_start + batch.num_rows
                take = mine[np.searchsorted(mine, batch_start) : np.searchsorted(mine, stop)] - batch_start
                if len(take):
                    yield _encoded(batch.column(0), take, path, start + batch_start)
                batch_start = stop
        start += rows


def _encoded(values: Any, take: NDArray[np.int64], path: Path, offset: int) -> Encoded:
    import pyarrow as pa

    chosen = values.take(pa.array(take))
    names = [f"{path} row {offset + row}" for row in take.tolist()]
    if not pa.types.is_struct(chosen.type):
        return Encoded(chosen.to_pylist(), names)
    if chosen.type.get_field_index("path") >= 0:
        originals = chosen.field("path").to_pylist()
        names = [f"{name} ({original})" if original else name for name, original in zip(names, originals)]
    return Encoded(chosen.field("bytes").to_pylist(), names)


def _class_names(metadata: dict[bytes, bytes], label: str) -> tuple[str, ...] | None:
    try:
        names = parse_json(metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, ValueError, TypeError):
        return None
    return tuple(map(str, names)) if isinstance(names, list) and names else None


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """The parquet file, with what pyarrow raises on a damaged one turned into a SoftscopeError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    existing_file(path)
    try:
        with pa.OSFile(os.fsencode(path)) as source, pq.ParquetFile(source) as file:  # bytes: never an address
            yield file
    except PermissionError as error:
        raise SoftscopeError(f"{path}: permission denied", "Make the file readable for you") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise SoftscopeError(
            f"{path}: not a whole parquet file ({first_line(error)[:160]})", "Delete it and get it again"
        ) from error
