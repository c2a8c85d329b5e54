"""Splits of catalogued data sets, as images in memory."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import SoftscopeError
from ...images import ArrayImages, ImageSet, ImageSource, ParquetImages, choose_rows, load_files
from .catalog import DataSet, find
from .folders import require_files, split_state


def open_catalogued(name: str) -> dict[str, ImageSource]:
    """The splits of a catalogued data set that are on this machine, to be read block by block."""
    entry = find(name)
    if entry.name == "digits":
        wholes = {split: _digits(entry, split) for split in entry.splits}
        return {split: ArrayImages(each.images, each.labels, entry.classes, "digits") for split, each in wholes.items()}
    splits: dict[str, ImageSource] = {}
    for split in entry.splits:
        if split_state(entry, split).files:
            state = require_files(entry, split)
            splits[split] = ParquetImages(state.files, entry.name, entry.classes)
            if state.rows < state.complete_rows:
                splits[split].notes = (f"{split} subset: {state.rows:,} of {state.complete_rows:,}",)
    if not splits:
        raise SoftscopeError(f"{entry.name}: isn't here", f"Run `softscope data get {entry.name}`")
    return splits


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
        rows, labels, names = choose_rows(whole.labels, whole.class_names, classes, limit, seed)
        if size is not None:
            raise SoftscopeError("digits: come as 8 x 8 pixels only", "Load them without size")
        chosen = replace(whole, images=whole.images[rows], labels=labels, class_names=names)
        return _labelled(chosen, entry, split, classes)
    state = require_files(entry, split)
    images = load_files(
        state.files,
        classes=classes,
        limit=limit,
        seed=seed,
        size=size,
        strict=strict,
        channels=entry.channels,
        expected=entry.classes,
    )
    return _labelled(images, entry, split, classes)


def _labelled(images: ImageSet, entry: DataSet, split: str, classes: Sequence[int | str] | None) -> ImageSet:
    complete = entry.rows_of(split)
    subset = f"{split} subset: {len(images):,} of {complete:,}" if len(images) < complete else None
    if subset and classes is not None:
        subset += f" ({len(images.class_names)} of {len(entry.classes)} classes)"
    return replace(images, name=entry.name, split=split, subset=subset)


def _digits(entry: DataSet, split: str) -> ImageSet:
    """scikit-learn's digits, their 17 grey levels spread over 0..255; the first rows train, the last test."""
    import hashlib

    from sklearn.datasets import load_digits

    rows = entry.rows_of(split)
    bunch = load_digits()
    part = slice(0, rows) if split == "train" else slice(len(bunch.target) - rows, None)
    images = np.round(bunch.images[part, :, :, None] * (255 / 16)).astype(np.uint8)
    labels = bunch.target[part].astype(np.int64)
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    return ImageSet(images, labels, entry.classes, entry.name, split, None, {"digits": digest})
