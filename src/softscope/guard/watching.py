"""Streams for a monitor: a file, a folder that grows, standard input; read once, in order, from where it stopped."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import check_columns, chunk_rows
from ..canonical import parse_json
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import existing
from .judging import judge
from .monitor import Evidence, Monitor
from .stream import BATCH_BYTES

OnBad = Literal["error", "skip"]
STANDARD_INPUT = "-"
_SUFFIXES = (".safetensors", ".npz", ".npy", ".parquet")
_LINES_A_SAVE = 1000  # a state is saved after so many lines of standard input: each save waits for the disk
_LONGEST_LINE = 1 << 22


def watch_stream(
    monitor: Monitor, source: str, *, state: str | os.PathLike[str] | None = None, on_bad: OnBad = "error"
) -> Evidence:
    """Take in what is new in `source`: a feature file, a folder of them in the order of their names, or `-`.

    With `state` the monitor is saved after each block, with the place in `source`; the next call goes on from there.
    Rows that can't be scored are an error, or with `on_bad="skip"` left out. Stops at an alarm of standard input.
    """
    if source == STANDARD_INPUT:
        return _watch_lines(monitor, sys.stdin, state, on_bad)
    for file in _files(Path(source), monitor):
        for block in _unread(monitor, file):
            _take(monitor, block, str(file), on_bad)
            monitor.source["rows"] += len(block)
            if state is not None:
                monitor.save(state)
    return monitor.evidence


def _files(source: Path, monitor: Monitor) -> list[Path]:
    """The files of `source` that are not read yet, the one that was read last first (it may have grown)."""
    path = str(existing(source).absolute())
    if monitor.source and monitor.source.get("path") != path:
        raise SoftscopeError(
            f"{source}: the state is that of another stream, {monitor.source.get('path')}", "Give a state of its own"
        )
    if not source.is_dir():
        monitor.source = monitor.source or {"path": path, "file": source.name, "rows": 0}
        return [source]
    named = sorted(entry for entry in source.iterdir() if entry.suffix.lower() in _SUFFIXES and entry.name[0] != ".")
    monitor.source = monitor.source or {"path": path, "file": "", "rows": 0, "files": 0}
    read = [entry for entry in named if entry.name <= monitor.source["file"]]
    if len(read) > monitor.source["files"]:
        raise SoftscopeError(
            f"{source}: a new file sorts before {monitor.source['file']}, which is read already",
            "Give new files names that sort after the old ones, such as their time",
        )
    return named[max(0, len(read) - 1) :] if read and read[-1].name == monitor.source["file"] else named[len(read) :]


def _unread(monitor: Monitor, file: Path) -> Iterator[NDArray]:
    features = FeatureSet.open(file)
    check_columns(features.n_features, f"{features.name}: z", columns=monitor.guard.head.n_features)
    if monitor.source["file"] != file.name:
        monitor.source |= {"file": file.name, "rows": 0, "files": monitor.source["files"] + 1}
    first = monitor.source["rows"]
    if first > len(features):
        raise SoftscopeError(
            f"{file}: has {len(features):,} rows, {first:,} of it were read before", "Begin with a new state"
        )
    size = chunk_rows(features.n_features, features.dtype.itemsize, BATCH_BYTES)
    yield from features.unchecked_chunks(size, first=first, holes=True)


def _take(monitor: Monitor, rows: NDArray, name: str, on_bad: OnBad) -> None:
    judged = judge(monitor.guard, rows)
    if judged.bad.any() and on_bad == "error":
        row = monitor.source.get("rows", 0) + int(judged.bad.argmax())
        raise SoftscopeError(
            f"{name}: row {row} can't be scored", "Fix its source, or leave such rows out with --on-bad skip"
        )
    monitor.update_scores(judged.scores[~judged.bad])


def _watch_lines(monitor: Monitor, lines: IO[str], state: str | os.PathLike[str] | None, on_bad: OnBad) -> Evidence:
    monitor.source = {"path": STANDARD_INPUT, "rows": monitor.source.get("rows", 0)}
    width = monitor.guard.head.n_features
    try:
        while line := lines.readline(_LONGEST_LINE):
            if not line.strip():
                continue
            row = _numbers(line, width, monitor.source["rows"], on_bad)
            _take(monitor, row[None], "standard input", on_bad)
            monitor.source["rows"] += 1
            if monitor.evidence.alarm:
                break
            if state is not None and monitor.source["rows"] % _LINES_A_SAVE == 0:
                monitor.save(state)
    finally:
        if state is not None:
            monitor.save(state)
    return monitor.evidence


def _numbers(line: str, width: int, row: int, on_bad: OnBad) -> NDArray:
    """One line: a JSON list, or numbers between commas or spaces."""
    try:
        values = parse_json(line) if line.lstrip().startswith("[") else line.replace(",", " ").split()
        numbers = np.array(values, np.float32)
        if numbers.shape != (width,):
            raise ValueError(f"{numbers.size} numbers, expected {width}")
        return numbers
    except (ValueError, TypeError, OverflowError) as error:
        if on_bad == "skip":
            return np.full(width, np.nan, np.float32)
        raise SoftscopeError(
            f"standard input: row {row} is not a row of {width} numbers ({error})",
            "Write each row as a JSON list or as numbers between commas",
        ) from error
