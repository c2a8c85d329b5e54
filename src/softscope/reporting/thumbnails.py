"""Small pictures of inputs as data URIs, within a budget of bytes so that the page stays light."""

import io
import os
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..diagnosis.model import Diagnosis, InputRow, SetSummary
from ..errors import SoftscopeError
from ..files import safetensors_header
from ..images import Decoder, Encoded, Images, count_rows, read_images

#: Where images come from: a parquet file in the hub's layout, or uint8 [N, H, W], [N, H, W, 1] or [N, H, W, 3].
GivenImages = str | os.PathLike[str] | NDArray[np.uint8]

MAX_SHOWN = 48
_BUDGET = 1_500_000  # characters of all pictures of the page together
_EXACT_SIDE = 40  # up to here pixels are kept as they are
_SIDE = 64

Thumbnails = dict[str, dict[int, str]]


def thumbnails(diagnosis: Diagnosis, images: Mapping[str, GivenImages] | None) -> Thumbnails:
    """Data URIs by set and row, for as many of the shown inputs of each set as the budget allows.

    Sets that `images` doesn't name use the images that `softscope extract --keep-images` left beside their features.
    """
    given: dict[str, GivenImages] = dict(images or {})
    rows = {"test": diagnosis.test_mistakes} | {name: inputs.examples for name, inputs in diagnosis.inputs.items()}
    sets = {"test": diagnosis.test} | diagnosis.ood
    unknown = [name for name in given if name not in sets]
    if unknown:
        known = ", ".join(sets)
        raise SoftscopeError(f"images of {unknown[0]!r}: no such set", f"Images can be given for {known}")
    for name, summary in sets.items():
        kept = None if name in given else kept_images(summary)
        if kept is not None:
            given[name] = kept
    budget = _BUDGET // max(1, len(given))
    return {name: _of_set(name, source, rows[name], sets[name].rows, budget) for name, source in given.items()}


def kept_images(summary: SetSummary) -> Path | None:
    """The parquet file that the feature file names as its images, where it is still there and has a row for each."""
    if summary.file is None or Path(summary.file).suffix != ".safetensors":
        return None
    try:
        _, metadata = safetensors_header(summary.file)
        name = metadata.get("images", "")
        path = Path(summary.file).parent / name
        whole = bool(name) and Path(name).name == name and count_rows([path]) == summary.rows
    except SoftscopeError:
        return None
    return path if whole else None


def data_uri(image: Images) -> str:
    """An image [H, W, 1 or 3] as a data URI: exact where it is small, else shrunk."""
    from PIL import Image

    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    stream = io.BytesIO()
    if max(picture.size) <= _EXACT_SIDE:
        picture.save(stream, "png", optimize=True)
        return "data:image/png;base64," + b64encode(stream.getvalue()).decode()
    picture.thumbnail((_SIDE, _SIDE))
    picture.save(stream, "jpeg", quality=85)
    return "data:image/jpeg;base64," + b64encode(stream.getvalue()).decode()


def _of_set(name: str, source: GivenImages, shown: Sequence[InputRow], rows: int, budget: int) -> dict[int, str]:
    numbers = [item.row for item in shown[:MAX_SHOWN]]
    chosen = _from_array if isinstance(source, np.ndarray) else _from_parquet
    uris = {row: data_uri(image) for row, image in chosen(name, source, numbers, rows)}
    spent, out = 0, {}
    for row in (number for number in numbers if number in uris):
        spent += len(uris[row])
        if spent > budget:
            break
        out[row] = uris[row]
    return out


def _from_array(name: str, source: Any, numbers: Sequence[int], rows: int) -> Iterable[tuple[int, Images]]:
    images = source[..., None] if source.ndim == 3 else source
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape[1:]:
        raise SoftscopeError(
            f"images of {name!r}: expected uint8 [N, H, W, 1 or 3], found {source.dtype} {list(source.shape)}",
            "Give the pixels as they are, before any normalisation",
        )
    _check_rows(f"images of {name!r}", len(images), rows)
    return [(number, images[number]) for number in numbers]


def _from_parquet(name: str, source: Any, numbers: Sequence[int], rows: int) -> Iterable[tuple[int, Images]]:
    path = Path(source)
    _check_rows(f"{path}, images of {name!r}", count_rows([path]), rows)
    ascending = np.unique(np.asarray(numbers, dtype=np.int64))
    out = []
    encoded = (item for block in read_images([path], ascending) for item in zip(block.content, block.names))
    for number, (content, label) in zip(ascending.tolist(), encoded):
        # One decoder an image: photographs of different sizes may stand side by side here.
        pixels = Decoder().decode(Encoded([content], [label])).images
        if len(pixels):
            out.append((number, pixels[0]))
    return out


def _check_rows(where: str, given: int, rows: int) -> None:
    if given != rows:
        raise SoftscopeError(
            f"{where}: has {given:,} images, the feature set has {rows:,} rows",
            "Give the images that the features were taken from, in the same order",
        )
