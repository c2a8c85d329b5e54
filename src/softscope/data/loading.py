"""A data set in memory: one uint8 array of images and their labels."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..files import sha256
from .catalog import find, rows_of
from .decoded import keep, key_of, recall
from .decoding import Decoder
from .entry import DataSet, plain
from .folders import require_files
from .formats import read_columns, read_images, read_labels
from .images import Images, balanced_rows, select_classes


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


def load(
    name: str,
    split: str,
    *,
    classes: Sequence[int | str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    size: int | None = None,
    strict: bool = False,
) -> ImageSet:
    """A split of a catalogued data set.

    `classes` keeps these only, labelled by their position in the list; `limit` keeps at most so many rows, drawn evenly
    over the classes with `seed`; `size` resizes the centre square. A corrupt image is named and left out, or, with
    `strict`, an error.
    """
    entry = find(name)
    if entry.name == "digits":
        whole = _digits(entry, split)
        rows, labels, names = _choose(whole.labels, whole.class_names, classes, limit, seed)
        if size is not None:
            raise SoftscopeError("digits: come as 8 x 8 pixels only", "Load them without size")
        return _labelled(whole.images[rows], labels, names, entry, split, whole.sha256, (), classes)
    state = require_files(entry, split)
    found = load_files(state.files, classes=classes, limit=limit, seed=seed, size=size, strict=strict, entry=entry)
    return _labelled(found.images, found.labels, found.class_names, entry, split, found.sha256, found.skipped, classes)


def load_files(
    files: Sequence[str | os.PathLike[str]],
    *,
    classes: Sequence[int | str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    size: int | None = None,
    strict: bool = False,
    entry: DataSet | None = None,
) -> ImageSet:
    """Images and labels of any parquet files in the hub's layout; `entry` says what they should hold."""
    paths = [Path(file) for file in files]
    if not paths:
        raise SoftscopeError("no files to load", "Name at least one parquet file")
    names = _names(paths, entry)
    known = read_labels(paths, classes=len(names) or None)
    known, names = _as_catalogued(known, names or tuple(map(str, range(int(known.max(initial=-1)) + 1))), entry)
    rows, labels, names = _choose(known, names, classes, limit, seed)
    digests = {path.name: sha256(path) for path in paths}
    decoder = Decoder(channels=entry.channels if entry else 0, size=size)
    key = key_of(digests, decoder.channels, size)
    skipped: tuple[str, ...] = ()
    if (images := recall(key, len(known), rows)) is None:
        images, kept, skipped = _decode(paths, rows, decoder, strict)
        if len(kept) == len(known):
            keep(key, images)
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


def _choose(
    labels: NDArray[np.int64],
    names: tuple[str, ...],
    classes: Sequence[int | str] | None,
    limit: int | None,
    seed: int,
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


def _names(paths: Sequence[Path], entry: DataSet | None) -> tuple[str, ...]:
    """Class names: the file's own, which belong to its labels, else the catalogue's; their number must agree."""
    own = read_columns(paths[0]).class_names
    if own and entry and len(own) != len(entry.classes):
        raise SoftscopeError(
            f"{paths[0]}: has {len(own)} classes, {entry.name} has {len(entry.classes)}", "Is it the right file?"
        )
    return own or (entry.classes if entry else ())


def _as_catalogued(
    labels: NDArray[np.int64], names: tuple[str, ...], entry: DataSet | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels numbered as in the catalogue where the file has the same classes in another order or spelling."""
    if entry is None:
        return labels, names
    number = {plain(name): c for c, name in enumerate(entry.classes)}
    order = [number.get(plain(name), -1) for name in names]
    if sorted(order) != list(range(len(entry.classes))):
        return labels, names
    return np.asarray(order, dtype=np.int64)[labels], entry.classes


def _labelled(
    images: Images,
    labels: NDArray[np.int64],
    names: tuple[str, ...],
    entry: DataSet,
    split: str,
    digests: dict[str, str],
    skipped: tuple[str, ...],
    classes: Sequence[int | str] | None,
) -> ImageSet:
    complete = rows_of(entry, split)
    subset = f"{split} subset: {len(labels):,} of {complete:,}" if len(labels) < complete else None
    if subset and classes is not None:
        subset += f" ({len(names)} of {len(entry.classes)} classes)"
    return ImageSet(images, labels, names, entry.name, split, subset, digests, skipped)


def _allocate(rows: int, shape: tuple[int, ...]) -> Images:
    needed = rows * int(np.prod(shape))
    if hasattr(os, "sysconf") and needed > 0.8 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise SoftscopeError(
            f"{rows:,} images of {' x '.join(map(str, shape))} need {needed / 2**30:.1f} GiB, more than there is",
            "Load fewer with limit=, or smaller ones with size=",
        )
    return np.empty((rows, *shape), dtype=np.uint8)


def _digits(entry: DataSet, split: str) -> ImageSet:
    """scikit-learn's digits, their 17 grey levels spread over 0..255; the first rows train, the last test."""
    import hashlib

    from sklearn.datasets import load_digits

    rows = rows_of(entry, split)
    bunch = load_digits()
    part = slice(0, rows) if split == "train" else slice(len(bunch.target) - rows, None)
    images = np.round(bunch.images[part, :, :, None] * (255 / 16)).astype(np.uint8)
    labels = bunch.target[part].astype(np.int64)
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    return ImageSet(images, labels, entry.classes, entry.name, split, None, {"digits": digest})
