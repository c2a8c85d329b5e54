"""Images in memory: one uint8 array with its labels, read from parquet files in the hub's layout.

Decoded images are kept between runs in the user's cache (`softscope/decoded`), so that each data set is decoded once. A
file's name is the hash of what it was made from (sha256 of the data files, channels, size); it has the sha256 of its
contents, and a file that doesn't match is made anew. The folder may be deleted at any time; where it can't be written,
nothing is kept and nothing else changes.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..arrays import memory_bytes
from ..errors import SoftscopeError
from ..files import cache_folder, read_signed, sha256, write_signed
from .decoding import Decoder
from .parquet import read_columns, read_images, read_labels
from .pixels import Images, balanced_rows, select_classes

MAX_BYTES = 1 << 29  # of a decoded set that is kept
MAX_CLASSES = 100_000  # more would be identifiers, not classes: one of 2e10 must not be counted up to


@dataclass(frozen=True)
class ImageSet:
    """Images uint8 [N, H, W, C] with labels int64 [N]; `subset` says of what where it isn't the complete split.

    `sha256` has the digest of each file read, by its name; `skipped` names the images that couldn't be decoded.
    """

    images: Images
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    name: str
    split: str
    subset: str | None
    sha256: dict[str, str]
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)


def load_files(
    files: Sequence[str | os.PathLike[str]],
    *,
    classes: Sequence[int | str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    size: int | None = None,
    strict: bool = False,
    channels: int = 0,
    expected: tuple[str, ...] = (),
) -> ImageSet:
    """Images and labels of any parquet files in the hub's layout.

    `channels` 0 takes grey or colour from the first image. `expected` are the classes these files should have: labels
    are numbered by it where the files have the same classes in another order or spelling.
    """
    paths = [Path(file) for file in files]
    if not paths:
        raise SoftscopeError("no files to load", "Name at least one parquet file")
    names = _names(paths, expected)
    known = read_labels(paths, classes=len(names) or None)
    known, names = _numbered(known, names or _numbers(known, paths[0]), expected)
    rows, labels, names = choose_rows(known, names, classes, limit, seed)
    digests = {path.name: sha256(path) for path in paths}
    decoder = Decoder(channels=channels, size=size)
    kept_as = _kept_as(digests, decoder.channels, size)
    skipped: tuple[str, ...] = ()
    if (images := _recall(kept_as, len(known), rows)) is None:
        images, kept, skipped = _decode(paths, rows, decoder, strict)
        if len(kept) == len(known):
            _keep(kept_as, images)
        labels = labels[kept]
    return ImageSet(images, labels, names, paths[0].parent.name, paths[0].stem, None, digests, skipped)


def _decode(
    paths: Sequence[Path], rows: NDArray[np.int64], decoder: Decoder, strict: bool
) -> tuple[Images, NDArray[np.int64], tuple[str, ...]]:
    """The images of `rows`, the positions in `rows` that decoded, and the names of those that didn't."""
    images: Images | None = None
    kept: list[int] = []
    skipped: list[str] = []
    position = 0
    for block in decoder.decode_all(read_images(paths, rows)):
        if block.bad and strict:
            raise SoftscopeError(f"{block.bad[0]}: corrupt image", "Get the file again, or load without strict")
        skipped.extend(block.bad)
        if len(block.images):
            if images is None:
                images = _allocate(len(rows), block.images.shape[1:])
            images[len(kept) : len(kept) + len(block.images)] = block.images
        kept.extend(position + offset for offset in block.positions)
        position += len(block.positions) + len(block.bad)
    if images is None:
        why = f", the first: {skipped[0]}" if skipped else ""
        raise SoftscopeError(f"{paths[0]}: none of {len(rows)} images could be decoded{why}", "Get the file again")
    if skipped:
        warnings.warn(f"{len(skipped)} corrupt images left out, the first: {skipped[0]}", stacklevel=4)
    return images[: len(kept)], np.asarray(kept, dtype=np.int64), tuple(skipped)


def choose_rows(
    labels: NDArray[np.int64], names: tuple[str, ...], classes: Sequence[int | str] | None, limit: int | None, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Rows to read, their labels, and the class names these labels count through."""
    rows = np.arange(len(labels))
    if classes is not None:
        numbers = [_class_number(name, names) for name in classes]
        rows, labels = select_classes(labels, numbers)
        names = tuple(names[number] for number in numbers)
    if limit is not None and limit < len(rows):
        drawn = balanced_rows(labels, limit, seed=seed)
        rows, labels = rows[drawn], labels[drawn]
    return rows, labels, names


def _class_number(name: int | str, names: tuple[str, ...]) -> int:
    number = names.index(name) if isinstance(name, str) and name in names else name
    if isinstance(number, str) or not 0 <= number < len(names):
        raise SoftscopeError(f"class {name!r}: not among {len(names)} classes", f"They are {', '.join(names[:12])}")
    return int(number)


def _names(paths: Sequence[Path], expected: tuple[str, ...]) -> tuple[str, ...]:
    """Class names: the file's own, which belong to its labels, else the expected ones; their number must agree."""
    own = read_columns(paths[0]).class_names
    if own and expected and len(own) != len(expected):
        raise SoftscopeError(f"{paths[0]}: has {len(own)} classes, expected {len(expected)}", "Is it the right file?")
    return own or expected


def _numbers(labels: NDArray[np.int64], path: Path) -> tuple[str, ...]:
    """The numbers 0 to the largest label, as names of classes that have none."""
    largest = int(labels.max(initial=-1))
    if largest >= MAX_CLASSES:
        raise SoftscopeError(
            f"{path}: row {int(labels.argmax())} has label {largest}, expected less than {MAX_CLASSES}",
            "Number the classes 0, 1, 2, ...",
        )
    return tuple(map(str, range(largest + 1)))


def _numbered(
    labels: NDArray[np.int64], names: tuple[str, ...], expected: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels numbered as in `expected` where these are the same classes in another order or spelling."""
    order = match_classes(names, expected)
    if not expected or sorted(order) != list(range(len(expected))):
        return labels, names
    return order[labels], expected


def match_classes(names: tuple[str, ...], known: tuple[str, ...]) -> NDArray[np.int64]:
    """The number among `known` of each class of `names` (case, - and _ aside); -1 where it is not among them."""
    number = {spelled(name): c for c, name in enumerate(known)}
    return np.array([number.get(spelled(name), -1) for name in names], dtype=np.int64)


def spelled(name: str) -> str:
    """A name without case, dashes, dots, underscores and spaces: what two spellings of it have in common."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _allocate(rows: int, shape: tuple[int, ...]) -> Images:
    needed = rows * int(np.prod(shape))
    if needed > 0.8 * memory_bytes():
        raise SoftscopeError(
            f"{rows:,} images of {' x '.join(map(str, shape))} need {needed / 2**30:.1f} GiB, more than there is",
            "Load fewer with limit=, or smaller ones with size=",
        )
    return np.empty((rows, *shape), dtype=np.uint8)


def _recall(path: Path, count: int, rows: NDArray[np.int64]) -> Images | None:
    """The images of `rows`, if all `count` images of these files were kept and the file is what was written."""
    try:
        kept = read_signed(path)[0]["images"]
    except (SoftscopeError, KeyError):
        return None
    if kept.dtype != np.uint8 or kept.ndim != 4 or len(kept) != count:
        return None
    return kept if len(rows) == count else kept[rows]


def _keep(path: Path, images: Images) -> None:
    """Keep the images of all rows, unless they are too large or the folder can't be written."""
    if images.nbytes <= MAX_BYTES:
        with suppress(SoftscopeError):
            write_signed(path, {"images": images})


def _kept_as(digests: Mapping[str, str], channels: int, size: int | None) -> Path:
    """Where the images of these files, so decoded, are kept."""
    made_from = hashlib.sha256(json.dumps([2, list(digests.values()), channels, size]).encode())
    return cache_folder() / "decoded" / f"{made_from.hexdigest()[:32]}.safetensors"
