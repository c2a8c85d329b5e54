"""Where data sets lie, what is there of each, and their splits as images in memory.

`$SOFTSCOPE_DATA` is searched first, then the user's cache folder: `<name>/<split>-*.parquet` in either.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import SoftscopeError
from ...files import cache_folder
from ...images import ArrayImages, ImageSet, ImageSource, ParquetImages, choose_rows, count_rows, load_files
from .catalog import CATALOG, DataSet, find


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
) -> ImageSet:
    """A split of a catalogued data set.

    `classes` keeps these only, labelled by their position in the list; `limit` keeps at most so many rows, drawn evenly
    over the classes with `seed`; `size` resizes the centre square. A corrupt image is named and left out.
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
    from sklearn.datasets import load_digits

    rows = entry.rows_of(split)
    bunch = load_digits()
    part = slice(0, rows) if split == "train" else slice(len(bunch.target) - rows, None)
    images = np.round(bunch.images[part, :, :, None] * (255 / 16)).astype(np.uint8)
    labels = bunch.target[part].astype(np.int64)
    digest = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    return ImageSet(images, labels, entry.classes, entry.name, split, None, {"digits": digest})


@dataclass(frozen=True)
class SplitState:
    """What there is of one split: its files, their rows, the rows of the complete split, and why it can't be read."""

    split: str
    files: tuple[Path, ...]
    rows: int
    complete_rows: int
    problem: str | None = None

    @property
    def status(self) -> str:
        """`complete`, `partial`, `absent` or `damaged`."""
        if self.problem:
            return "damaged"
        if self.rows >= self.complete_rows:
            return "complete"
        return "partial" if self.files else "absent"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "split": self.split,
            "status": self.status,
            "rows": self.rows,
            "complete_rows": self.complete_rows,
            "folder": str(self.files[0].parent) if self.files else None,
            "problem": self.problem,
        }


def search_folders() -> tuple[Path, ...]:
    """The folders that are searched, in order."""
    chosen = os.environ.get("SOFTSCOPE_DATA")
    return (Path(chosen).expanduser(), cache_folder() / "data") if chosen else (cache_folder() / "data",)


def download_folder(dataset: DataSet, splits: Sequence[str] = ()) -> Path:
    """Where this data set's files are put: the first search folder that can be written.

    A folder that holds part of `splits` already is passed over while there is another: what someone put there stays.
    """
    folders = [folder / dataset.name for folder in search_folders()]
    writable = [folder for folder in folders if _writable(folder)]
    if not writable:
        raise SoftscopeError(f"{folders[-1]}: can't be written", "Set SOFTSCOPE_DATA to a folder you may write to")
    empty = [folder for folder in writable if not any(split_files(folder, split) for split in splits)]
    return (empty or writable[-1:])[0]


def split_state(dataset: DataSet, split: str) -> SplitState:
    """The split's files in the first folder that has it complete, else in the first that has any of it."""
    complete_rows = dataset.rows_of(split)
    best = SplitState(split, (), 0, complete_rows)
    for folder in search_folders():
        files = split_files(folder / dataset.name, split)
        if not files or (best.files and best.status == "complete"):
            continue
        state = SplitState(split, files, count_rows(files), complete_rows)
        if not best.files or state.status == "complete":
            best = state
    return best


def split_files(folder: Path, split: str) -> tuple[Path, ...]:
    """The split's parquet files in a data set's folder, in order."""
    try:
        return tuple(sorted(path for path in folder.glob(f"{split}-*.parquet") if path.is_file()))
    except OSError as error:
        raise SoftscopeError(f"{folder}: can't be read ({error.strerror})", "Fix its permissions") from error


def require_files(dataset: DataSet, split: str) -> SplitState:
    """The split's state, or a SoftscopeError that says how to get it and where to put it."""
    state = split_state(dataset, split)
    if not state.files:
        searched = " and ".join(map(str, search_folders()))
        raise SoftscopeError(
            f"{dataset.name}: the {split} split isn't here (searched {searched})",
            f"Run `softscope data get {dataset.name}`, or put {split}-00000-of-00001.parquet into "
            f"{download_folder(dataset)}",
        )
    if state.rows > state.complete_rows:
        raise SoftscopeError(
            f"{dataset.name}: {state.files[0].parent} has {state.rows:,} {split} rows, the complete split "
            f"{state.complete_rows:,}",
            "Are there two copies of it? Keep one",
        )
    return state


@dataclass(frozen=True)
class DataSetRow:
    """One data set and the state of its splits."""

    entry: DataSet
    splits: tuple[SplitState, ...]

    @property
    def status(self) -> str:
        """The splits' common state; `partial` where they differ and something is there; `damaged` if one is."""
        states = {state.status for state in self.splits}
        if len(states) == 1:
            return states.pop()
        return "damaged" if "damaged" in states else "partial"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        entry = self.entry
        return {
            "name": entry.name,
            "title": entry.title,
            "aliases": list(entry.aliases),
            "status": self.status,
            "classes": len(entry.classes),
            "shape": list(entry.shape),
            "makers": entry.makers,
            "licence": entry.licence,
            "citation": entry.citation,
            "note": entry.note,
            "sources": [source.kind for source in entry.sources],
            "splits": [state.to_dict() for state in self.splits],
        }


def overview() -> list[DataSetRow]:
    """Every data set of the catalogue with what is there of it."""
    return [DataSetRow(entry, tuple(_readable_state(entry, split) for split in entry.splits)) for entry in CATALOG]


def _readable_state(entry: DataSet, split: str) -> SplitState:
    """The split's state; one whose files can't be read is damaged."""
    complete = entry.splits[split]
    if entry.name == "digits":
        return SplitState(split, (), complete, complete)
    try:
        return split_state(entry, split)
    except SoftscopeError as error:
        return SplitState(split, (), 0, complete, str(error))


def _writable(folder: Path) -> bool:
    """Whether `folder` can be written or made: asked of the nearest folder above it that exists."""
    at = folder
    while not at.exists():
        if at == at.parent:
            return False
        at = at.parent
    # root may write anywhere: a folder whose mode forbids writing to everyone was meant to stay as it is.
    return at.is_dir() and bool(at.stat().st_mode & 0o222) and os.access(at, os.W_OK | os.X_OK)
