"""Small pictures of the shown inputs: the right rows, within the budget, from arrays, parquet files and `extract`."""

import io
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from softscope.diagnosis import Diagnosis
from softscope.errors import SoftscopeError
from softscope.features import FeatureSet
from softscope.images import ImageSet, write_images
from softscope.reporting.thumbnails import MAX_SHOWN, data_uri, thumbnails


def numbered(rows: int, shape: tuple[int, ...] = (8, 8, 1)) -> np.ndarray:
    """Images whose pixels tell their row."""
    images = np.zeros((rows, *shape), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = np.divmod(np.arange(rows), 256)
    return images


def row_in(uri: str) -> int:
    kind, _, content = uri.partition(",")
    assert kind == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(b64decode(content))))
    return 256 * int(pixels[0, 0]) + int(pixels[0, 1])


def parquet(images: np.ndarray, path: Path) -> Path:
    write_images(path, ImageSet(images, np.zeros(len(images), np.int64), ("any",), "any", "test", None, {}))
    return path


@pytest.fixture
def name(diagnosis: Diagnosis) -> str:
    return next(iter(diagnosis.ood))


def test_each_shown_row_has_its_own_picture_from_an_array_or_a_file(
    diagnosis: Diagnosis, name: str, tmp_path: Path
) -> None:
    images = numbered(diagnosis.ood[name].rows)
    shown = [row.row for row in diagnosis.inputs[name].examples]
    from_array = thumbnails(diagnosis, {name: images})
    from_file = thumbnails(diagnosis, {name: parquet(images, tmp_path / "images.parquet")})
    assert from_array == from_file
    assert {row: row_in(uri) for row, uri in from_array[name].items()} == {row: row for row in shown[:MAX_SHOWN]}


def test_mistakes_on_test_have_pictures_too(diagnosis: Diagnosis) -> None:
    made = thumbnails(diagnosis, {"test": numbered(diagnosis.test.rows)[..., 0]})
    assert list(made["test"]) == [row.row for row in diagnosis.test_mistakes]


def test_large_photographs_are_shrunk(rng: np.random.Generator) -> None:
    uri = data_uri(rng.integers(0, 256, (300, 200, 3), np.uint8))
    assert uri.startswith("data:image/jpeg;base64,")
    assert Image.open(io.BytesIO(b64decode(uri.partition(",")[2]))).size == (43, 64)


def test_photographs_of_different_sizes_may_stand_side_by_side(diagnosis: Diagnosis, name: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = diagnosis.ood[name].rows
    encoded = []
    for row in range(rows):
        stream = io.BytesIO()
        Image.new("RGB", (20 + row % 50, 30)).save(stream, "png")
        encoded.append({"bytes": stream.getvalue(), "path": None})
    shown = [row.row for row in diagnosis.inputs[name].examples][:MAX_SHOWN]
    encoded[shown[0]] = {"bytes": b"no image", "path": None}
    pq.write_table(pa.table({"image": encoded, "label": [0] * rows}), tmp_path / "images.parquet")
    made = thumbnails(diagnosis, {name: tmp_path / "images.parquet"})
    assert list(made[name]) == shown[1:]


def test_images_that_extract_kept_beside_the_features_are_found(
    diagnosis: Diagnosis, name: str, tmp_path: Path
) -> None:
    rows = diagnosis.ood[name].rows
    parquet(numbered(rows), tmp_path / "kept.parquet")
    features = FeatureSet(np.zeros((rows, 2), np.float32), metadata={"images": "kept.parquet"})
    features.save(tmp_path / "z.safetensors")
    summary = replace(diagnosis.ood[name], file=str(tmp_path / "z.safetensors"))
    made = thumbnails(replace(diagnosis, ood=diagnosis.ood | {name: summary}), None)
    assert list(made) == [name]
    assert all(row_in(uri) == row for row, uri in made[name].items())


@pytest.mark.parametrize("kept", ["missing.parquet", "../kept.parquet", ""])
def test_kept_images_that_are_gone_or_elsewhere_are_left_out(
    diagnosis: Diagnosis, name: str, tmp_path: Path, kept: str
) -> None:
    rows = diagnosis.ood[name].rows
    parquet(numbered(rows), tmp_path / "kept.parquet")
    features = FeatureSet(np.zeros((rows, 2), np.float32), metadata={"images": kept})
    (tmp_path / "in").mkdir()
    features.save(tmp_path / "in" / "z.safetensors")
    summary = replace(diagnosis.ood[name], file=str(tmp_path / "in" / "z.safetensors"))
    assert thumbnails(replace(diagnosis, ood=diagnosis.ood | {name: summary}), None) == {}


def test_bad_images_are_refused_in_one_line(diagnosis: Diagnosis, name: str, tmp_path: Path) -> None:
    rows = diagnosis.ood[name].rows
    with pytest.raises(SoftscopeError, match="no such set"):
        thumbnails(diagnosis, {"nobody": numbered(rows)})
    with pytest.raises(SoftscopeError, match="the feature set has"):
        thumbnails(diagnosis, {name: numbered(rows + 1)})
    with pytest.raises(SoftscopeError, match="expected uint8"):
        thumbnails(diagnosis, {name: numbered(rows).astype(np.float32)})
    with pytest.raises(SoftscopeError, match="expected uint8"):
        thumbnails(diagnosis, {name: np.zeros((rows, 4), np.uint8)})
    with pytest.raises(SoftscopeError, match="no such file"):
        thumbnails(diagnosis, {name: tmp_path / "missing.parquet"})
    with pytest.raises(SoftscopeError, match="the feature set has"):
        thumbnails(diagnosis, {name: parquet(numbered(rows - 1), tmp_path / "few.parquet")})
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(SoftscopeError, match="not a whole parquet file"):
        thumbnails(diagnosis, {name: tmp_path / "text.parquet"})
