"""A split as a source gives it, written in the one layout of all data sets: whole or not at all."""

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels
from ..errors import SoftscopeError
from ..files import atomic_path
from ..progress import Progress, silent
from .decoding import Decoder
from .loading import ImageSet
from .pixels import Images
from .sources import ImageSource

_GROUP_ROWS = 1000


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


def write_images(path: Path, images: ImageSet) -> None:
    """The images as PNG in the hub's parquet layout, for a report to show."""
    origin = {"source": f"{images.name} {images.split}"}
    write_split(path, RawSplit(images.labels, encode_png(images.images), images.class_names, origin), rows=len(images))


def write_thumbnails(path: Path, source: ImageSource, rows: NDArray[np.int64], decoder: Decoder) -> None:
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
