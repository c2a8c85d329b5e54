"""Where data sets lie and what is there of each: `$SOFTSCOPE_DATA` first, then the user's cache folder.

`<name>/<split>-*.parquet` in either.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import SoftscopeError
from ...files import cache_folder
from ...images import count_rows
from .catalog import CATALOG, DataSet


@dataclass(frozen=True)
class SplitState:
    """What there is of one split: its files, their rows, and the rows of the complete split."""

    files: tuple[Path, ...]
    rows: int
    complete_rows: int

    @property
    def status(self) -> str:
        """`complete`, `partial` or `absent`."""
        if not self.files:
            return "absent"
        return "complete" if self.rows >= self.complete_rows else "partial"


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
    best = SplitState((), 0, complete_rows)
    for folder in search_folders():
        files = split_files(folder / dataset.name, split)
        if not files or (best.files and best.status == "complete"):
            continue
        state = SplitState(files, count_rows(files), complete_rows)
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
        raise SoftscopeError(
            f"{dataset.name}: the {split} split isn't here (searched {_listed(search_folders())})",
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
class SplitRow:
    """One split: `complete`, `partial`, `absent` or `damaged`, its rows here and in the complete set, its folder."""

    split: str
    status: str
    rows: int
    complete_rows: int
    folder: str | None
    problem: str | None = None


@dataclass(frozen=True)
class DataSetRow:
    """One data set and the state of its splits."""

    entry: DataSet
    splits: tuple[SplitRow, ...]

    @property
    def status(self) -> str:
        """The splits' common state; `partial` where they differ and something is there; `damaged` if one is."""
        states = {row.status for row in self.splits}
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
            "splits": [asdict(row) for row in self.splits],
        }


def overview() -> list[DataSetRow]:
    """Every data set of the catalogue with what is there of it."""
    return [DataSetRow(entry, tuple(_split_row(entry, split) for split in entry.splits)) for entry in CATALOG]


def _split_row(entry: DataSet, split: str) -> SplitRow:
    complete = entry.splits[split]
    if entry.name == "digits":
        return SplitRow(split, "complete", complete, complete, None)
    try:
        state = split_state(entry, split)
    except SoftscopeError as error:
        return SplitRow(split, "damaged", 0, complete, None, str(error))
    folder = str(state.files[0].parent) if state.files else None
    return SplitRow(split, state.status, state.rows, complete, folder)


def _listed(folders: Sequence[Path]) -> str:
    return " and ".join(str(folder) for folder in folders)


def _writable(folder: Path) -> bool:
    """Whether `folder` can be written or made: asked of the nearest folder above it that exists."""
    at = folder
    while not at.exists():
        if at == at.parent:
            return False
        at = at.parent
    # root may write anywhere: a folder whose mode forbids writing to everyone was meant to stay as it is.
    return at.is_dir() and bool(at.stat().st_mode & 0o222) and os.access(at, os.W_OK | os.X_OK)
