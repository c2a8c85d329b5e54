"""Tiny data sets made on the spot, and folders that keep the tests away from the user's own data."""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image


def encode(image: np.ndarray, kind: str = "PNG") -> bytes:
    """One uint8 image [H, W, C] as an encoded file."""
    buffer = io.BytesIO()
    options = {"lossless": True} if kind == "WEBP" else {}
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, kind, **options)
    return buffer.getvalue()


def write_parquet(
    path: Path,
    encoded: Sequence[bytes | None],
    labels: Sequence[int | None],
    *,
    names: Sequence[str] | None = None,
    columns: tuple[str, str] = ("image", "label"),
    group: int = 1000,
) -> Path:
    """A file in the hub's layout."""
    images = pa.array(
        [{"bytes": content, "path": f"{row}.png"} for row, content in enumerate(encoded)],
        type=pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    table = pa.table({columns[0]: images, columns[1]: pa.array(labels, type=pa.int64())})
    if names is not None:
        features = {columns[0]: {"_type": "Image"}, columns[1]: {"names": list(names), "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group)
    return path


def noise(rows: int, height: int, width: int, channels: int, seed: int = 0) -> np.ndarray:
    """Random uint8 images."""
    return np.random.default_rng(seed).integers(0, 256, (rows, height, width, channels), dtype=np.uint8)


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`$SOFTSCOPE_DATA` for the test; the cache folder is `tmp_path / "cache"`."""
    home = tmp_path / "data"
    monkeypatch.setenv("SOFTSCOPE_DATA", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return home


@pytest.fixture
def small_mnist(data_home: Path) -> Callable[..., np.ndarray]:
    """Write `rows` noise images as the given split of mnist and return them."""

    def make(split: str = "train", rows: int = 40, kind: str = "PNG", root: Path = data_home) -> np.ndarray:
        images = noise(rows, 28, 28, 1)
        labels = [row % 10 for row in range(rows)]
        write_parquet(
            root / "mnist" / f"{split}-00000-of-00001.parquet",
            [encode(image, kind) for image in images],
            labels,
            names=list("0123456789"),
            group=7,
        )
        return images

    return make
