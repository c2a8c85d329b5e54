"""How data sets are read and written: the hub's parquet layout, a column of encoded images and a column of labels.

`image` is a struct of bytes and path (or plain bytes), `label` a whole number; class names are in the schema's
metadata under the key `huggingface`. The other names the hub's own files use for these columns are understood too. A
split is written whole or not at all.
"""

import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels
from ..canonical import parse_json
from ..errors import SoftscopeError
from ..files import atomic_path, existing_file, first_line
from ..progress import Progress, silent
from .decoding import Decoder, Encoded
from .pixels import Images

if TYPE_CHECKING:
    from .loading import ImageSet
    from .sources import ImageSource

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label", "labels")
_BLOCK_ROWS = 256
_GROUP_ROWS = 1000


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
            count = int(file.metadata.num_rows)
            if len(wanted := _between(rows, first, count)):
                yield from _blocks_of(file, path, column, wanted)
        first += count


def _blocks_of(file: Any, path: Path, column: str, wanted: NDArray[np.int64]) -> Iterator[Encoded]:
    """Only row groups that hold a wanted row are read, a batch at a time."""
    first = 0
    for group in range(file.metadata.num_row_groups):
        count = int(file.metadata.row_group(group).num_rows)
        if len(_between(wanted, first, count)):
            row = first
            for batch in file.iter_batches(batch_size=_BLOCK_ROWS, row_groups=[group], columns=[column]):
                if len(take := _between(wanted, row, batch.num_rows)):
                    yield _encoded(batch.column(0), take, path, row)
                row += batch.num_rows
        first += count


def _between(rows: NDArray[np.int64], first: int, count: int) -> NDArray[np.int64]:
    """Those of the ascending `rows` that are among the `count` from `first` on, counted from there."""
    return rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + count)] - first


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


@dataclass(frozen=True)
class RawSplit:
    """Labels, and the encoded images in the same order, with where they come from (source, version, checksums)."""

    labels: NDArray[np.int64]
    images: Iterable[bytes | None]
    class_names: tuple[str, ...]
    origin: dict[str, str]


def write_split(path: Path, raw: RawSplit, *, rows: int, progress: Progress = silent) -> None:
    """Write `path` atomically; an error if it hasn't exactly `rows` rows with labels within the classes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len(raw.labels) != rows:
        raise SoftscopeError(f"{raw.origin['source']}: {len(raw.labels):,} rows where there should be {rows:,}")
    labels = as_labels(raw.labels, raw.origin["source"], classes=len(raw.class_names))
    schema = _schema(raw)
    images = iter(raw.images)
    # Opened here: pyarrow takes names such as `os:system` for addresses, and refuses those that are not UTF-8.
    with atomic_path(path) as temporary, temporary.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
        for start in range(0, rows, _GROUP_ROWS):
            block = labels[start : start + _GROUP_ROWS]
            content = [
                {"bytes": encoded, "path": f"{start + row}"} for row, encoded in enumerate(islice(images, len(block)))
            ]
            if len(content) != len(block):
                raise SoftscopeError(f"{raw.origin['source']}: ends after {start + len(content):,} images")
            writer.write_table(pa.table([pa.array(content, schema.field(0).type), pa.array(block)], schema=schema))
            progress(f"writing {path.parent.name} {path.name.split('-')[0]}", start + len(block), rows)


def write_images(path: Path, images: "ImageSet") -> None:
    """The images as PNG in the hub's parquet layout, for a report to show."""
    origin = {"source": f"{images.name} {images.split}"}
    write_split(path, RawSplit(images.labels, encode_png(images.images), images.class_names, origin), rows=len(images))


def write_thumbnails(path: Path, source: "ImageSource", rows: NDArray[np.int64], decoder: Decoder) -> None:
    """The images of these rows, all of which decode, as a report shows them: at most 96 pixels wide and high."""
    small = Decoder(
        channels=decoder.channels,
        size=None if decoder.size is None else (min(96, decoder.size[0]), min(96, decoder.size[1])),
        crop=decoder.crop,
        squash=decoder.squash,
    )
    encoded = (png for block in small.decode_all(source.blocks(rows)) for png in encode_png(block.images))
    names = source.class_names if source.labels is not None else None
    labels = np.zeros(len(rows), np.int64) if source.labels is None else source.labels[rows]
    known = names or tuple(map(str, range(int(labels.max(initial=0)) + 1)))
    write_split(path, RawSplit(labels, encoded, known, {"source": source.name}), rows=len(rows))


def encode_png(images: Images) -> Iterable[bytes]:
    """Each image as a lossless PNG."""
    from PIL import Image

    for image in images:
        buffer = io.BytesIO()
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, "PNG")
        yield buffer.getvalue()


def _schema(raw: RawSplit) -> Any:
    import pyarrow as pa

    features = {"image": {"_type": "Image"}, "label": {"names": list(raw.class_names), "_type": "ClassLabel"}}
    return pa.schema(
        [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())],
        metadata={
            "huggingface": json.dumps({"info": {"features": features}}),
            "softscope": json.dumps(raw.origin, sort_keys=True),
        },
    )
