"""Where the rows of z come from: an array, or a file read piece by piece.

A source knows its shape before it reads, yields blocks of consecutive rows, and gathers any rows; memory stays bounded
by the block, not by the file. Files are read, not mapped: the pages of a map count as the process's memory.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels, check_labels, check_real, check_shape, chunk_rows, spans
from ..errors import SoftscopeError
from ..files import existing_file, read_into, safetensors_header

_GAP_BYTES = 1 << 15  # reading on is cheaper than another read up to about here


class Source(ABC):
    """Rows of z [N, H], float32 or float64; `name` says file and tensor in error messages."""

    name: str
    shape: tuple[int, int]
    dtype: np.dtype

    files: tuple["UnchangedFile", ...] = ()

    @abstractmethod
    def blocks(self, size: int, first: int = 0, *, holes: bool = False) -> Iterator[NDArray]:
        """The rows from `first` on in order, `size` at a time (the last block may be shorter).

        With `holes` a row that is missing or too short or long is NaN; else it is an error.
        """

    @abstractmethod
    def gather(self, indices: NDArray[np.int64]) -> NDArray:
        """The rows `indices`, in that order; each index is in 0..N-1, repeats are allowed."""


class Opened(NamedTuple):
    """What a feature file holds."""

    source: Source
    labels: NDArray[np.int64] | None
    metadata: dict[str, str]


class ArraySource(Source):
    """Rows of an array in memory."""

    def __init__(self, array: NDArray, name: str) -> None:
        self.array, self.name, self.dtype = array, name, array.dtype
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    def blocks(self, size: int, first: int = 0, *, holes: bool = False) -> Iterator[NDArray]:
        for span in spans(len(self.array) - first, size):
            yield self.array[first:][span]

    def gather(self, indices: NDArray[np.int64]) -> NDArray:
        return self.array[indices]


class RangeSource(Source):
    """Rows `first` to `stop` of another source."""

    def __init__(self, whole: Source, first: int, stop: int) -> None:
        self.whole, self.first, self.files, self.name, self.dtype = whole, first, whole.files, whole.name, whole.dtype
        self.shape = (stop - first, whole.shape[1])

    def blocks(self, size: int, first: int = 0, *, holes: bool = False) -> Iterator[NDArray]:
        left = self.shape[0] - first
        for block in self.whole.blocks(size, self.first + first, holes=holes):
            if left <= 0:
                return
            yield block[:left]
            left -= len(block)

    def gather(self, indices: NDArray[np.int64]) -> NDArray:
        return self.whole.gather(indices + self.first)


@dataclass(frozen=True)
class UnchangedFile:
    """A file that must stay what it was when its header was read."""

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "UnchangedFile":
        """The file as it is now."""
        state = existing_file(path).stat()
        return cls(Path(path), state.st_size, state.st_mtime_ns)

    def check(self) -> None:
        """Raise a SoftscopeError where the file was replaced or changed in the meantime."""
        with self.open():
            pass

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file, unbuffered, or a SoftscopeError where it was replaced or changed in the meantime."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                if (state.st_size, state.st_mtime_ns) != (self.size, self.modified):
                    raise SoftscopeError(f"{self.path}: has changed since it was opened", "Open it again")
                yield file
        except OSError as error:
            raise SoftscopeError(f"{self.path}: can't be read ({error.strerror})", "Open it again") from error


class RawSource(Source):
    """Rows that lie uncompressed in a file from byte `offset` on, row by row or (`by_column`) column by column."""

    def __init__(
        self, file: UnchangedFile, name: str, shape: tuple[int, ...], dtype: np.dtype, offset: int, *, by_column: bool
    ) -> None:
        self.file, self.files, self.name, self.stored, self.offset = file, (file,), name, dtype, offset
        self.shape = (shape[0], shape[1])
        self.by_column = by_column
        self.dtype = np.promote_types(dtype, np.float32)

    def blocks(self, size: int, first: int = 0, *, holes: bool = False) -> Iterator[NDArray]:
        with self.file.open() as file:
            for span in spans(self.shape[0] - first, size):
                yield self._read(file, first + span.start, first + span.stop)

    def gather(self, indices: NDArray[np.int64]) -> NDArray:
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]
        size = chunk_rows(self.shape[1], self.stored.itemsize)
        gap = _GAP_BYTES // (self.shape[1] * self.stored.itemsize) + 1
        cuts = np.flatnonzero((np.diff(wanted) > gap) | (np.diff(wanted // size) > 0)) + 1
        with self.file.open() as file:
            for places, run in zip(np.split(order, cuts), np.split(wanted, cuts)):
                if len(run):
                    out[places] = self._read(file, int(run[0]), int(run[-1]) + 1)[run - run[0]]
        return out

    def _read(self, file: BinaryIO, first: int, last: int) -> NDArray:
        (rows, columns), item = self.shape, self.stored.itemsize
        if not self.by_column:
            block = np.empty((last - first, columns), self.stored)
            read_into(file, block, self.offset + first * columns * item, self.file.path)
        else:
            turned = np.empty((columns, last - first), self.stored)
            for column in range(columns):
                read_into(file, turned[column], self.offset + (column * rows + first) * item, self.file.path)
            block = np.ascontiguousarray(turned.T)
        return block.astype(self.dtype, copy=False)


def regroup(pieces: Iterable[NDArray], size: int) -> Iterator[NDArray]:
    """The rows of `pieces` as blocks of exactly `size` rows (the last may be shorter)."""
    pending: list[NDArray] = []
    count = 0
    for piece in pieces:
        rest = piece
        while count + len(rest) >= size:
            cut = size - count
            yield np.concatenate([*pending, rest[:cut]])
            pending, count, rest = [], 0, rest[cut:]
        pending.append(rest)
        count += len(rest)
    if count:
        yield np.concatenate(pending)


def gather_from(
    blocks: Iterable[tuple[int, NDArray]], indices: NDArray[np.int64], columns: int, dtype: np.dtype
) -> NDArray:
    """The rows `indices` out of ascending `blocks`, each with the number of its first row; stops after the last one."""
    out = np.empty((len(indices), columns), dtype)
    order = np.argsort(indices, kind="stable")
    wanted = indices[order]
    for first, block in blocks:
        low, high = np.searchsorted(wanted, [first, first + len(block)])
        out[order[low:high]] = block[wanted[low:high] - first]
        if high == len(wanted):
            break
    return out


def open_safetensors(path: str | os.PathLike[str], *, labels: bool = True) -> Opened:
    """The features, labels and metadata of a safetensors file; only the header and the labels are read."""
    file = UnchangedFile.of(path)
    entries, metadata = safetensors_header(path)
    if "z" not in entries:
        raise SoftscopeError(
            f"{path}: expected tensors 'z' and 'labels', found {', '.join(sorted(entries)) or 'nothing'}",
            "Save it with FeatureSet(z, labels).save(path)",
        )
    name, entry = f"{path}: z", entries["z"]
    dtype = entry.numpy_dtype(name)
    check_real(dtype, name)
    check_shape(entry.shape, name)
    source = RawSource(file, name, entry.shape, dtype, entry.start, by_column=False)
    known = None
    if labels and "labels" in entries:
        name, entry = f"{path}: labels", entries["labels"]
        dtype = entry.numpy_dtype(name)
        check_labels(dtype, entry.shape, name, rows=source.shape[0])
        stored = np.empty(entry.shape, dtype)
        with file.open() as stream:
            read_into(stream, stored, entry.start, path)
        known = as_labels(stored, name, rows=source.shape[0])
    return Opened(source, known, metadata)
