"""Where the rows of z come from: an array, or a safetensors, npy or npz file read by bounded pieces, never unpickled.

A source knows its shape before it reads, yields blocks of consecutive rows, and gathers any rows; memory stays bounded
by the block, not by the file. Files are read, not mapped: the pages of a map count as the process's memory. What lies
uncompressed is read by offset; a compressed member of an npz file is decompressed as far as it is read.
"""

import os
import struct
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..arrays import as_labels, check_labels, check_real, check_shape, chunk_rows, spans
from ..errors import SoftscopeError
from ..files import existing_file, read_into, reading, safetensors_header

_GAP_BYTES = 1 << 15  # reading on is cheaper than another read up to about here
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_SAVE = "Save it with np.savez(path, z=z, labels=labels)"


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


class _Stored(NamedTuple):
    """An array as a file announces it."""

    shape: tuple[int, ...]
    dtype: np.dtype
    by_column: bool = False

    @property
    def size(self) -> int:
        """Its bytes."""
        return prod(self.shape) * self.dtype.itemsize


class RawSource(Source):
    """Rows from byte `start` to `stop` of a file, or of its compressed `member`."""

    def __init__(
        self, file: UnchangedFile, name: str, stored: _Stored, start: int, stop: int, member: str | None = None
    ) -> None:
        check_real(stored.dtype, name)
        check_shape(stored.shape, name)
        if stored.by_column and member is not None:
            raise SoftscopeError(
                f"{name}: is compressed column by column, which can't be read row by row",
                "Save it with np.savez(path, z=np.ascontiguousarray(z), labels=labels)",
            )
        if (held := stop - start) != stored.size:
            raise SoftscopeError(
                f"{name}: shape {stored.shape} of {stored.dtype} needs {stored.size} bytes, the file has {held}",
                "Write or copy the file again",
            )
        self.file, self.files, self.name = file, (file,), name
        self.stored, self.start, self.member = stored, start, member
        self.shape = (stored.shape[0], stored.shape[1])
        self.dtype = np.promote_types(stored.dtype, np.float32)

    def blocks(self, size: int, first: int = 0, *, holes: bool = False) -> Iterator[NDArray]:
        with self._open() as stream:
            for span in spans(self.shape[0] - first, size):
                yield self._read(stream, first + span.start, first + span.stop)

    def gather(self, indices: NDArray[np.int64]) -> NDArray:
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        order = np.argsort(indices, kind="stable")
        wanted = indices[order]
        item = self.stored.dtype.itemsize
        size = chunk_rows(self.shape[1], item)
        gap = _GAP_BYTES // (self.shape[1] * item) + 1
        cuts = np.flatnonzero((np.diff(wanted) > gap) | (np.diff(wanted // size) > 0)) + 1
        with self._open() as stream:
            for places, run in zip(np.split(order, cuts), np.split(wanted, cuts)):
                if len(run):
                    out[places] = self._read(stream, int(run[0]), int(run[-1]) + 1)[run - run[0]]
        return out

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        with self.file.open() as file:
            if self.member is None:
                yield file
                return
            with (
                reading(self.file.path, "npz"),
                zipfile.ZipFile(file) as archive,
                archive.open(self.member) as stream,
            ):
                yield stream

    def _read(self, stream: Any, first: int, last: int) -> NDArray:
        (rows, columns), dtype, path = self.shape, self.stored.dtype, self.file.path
        if not self.stored.by_column:
            block = np.empty((last - first, columns), dtype)
            read_into(stream, block, self.start + first * columns * dtype.itemsize, path)
        else:
            turned = np.empty((columns, last - first), dtype)
            for column in range(columns):
                read_into(stream, turned[column], self.start + (column * rows + first) * dtype.itemsize, path)
            block = np.ascontiguousarray(turned.T)
        return block.astype(self.dtype, copy=False)


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
    source = RawSource(file, name, _Stored(entry.shape, entry.numpy_dtype(name)), entry.start, entry.stop)
    known = None
    if labels and "labels" in entries:
        name, entry = f"{path}: labels", entries["labels"]
        dtype = entry.numpy_dtype(name)
        check_labels(dtype, entry.shape, name, rows=source.shape[0])
        values = np.empty(entry.shape, dtype)
        with file.open() as stream:
            read_into(stream, values, entry.start, path)
        known = as_labels(values, name)
    return Opened(source, known, metadata)


def open_npy(path: str | os.PathLike[str]) -> Opened:
    """The features of an npy file; it has no labels."""
    file = UnchangedFile.of(path)
    with file.open() as stream, reading(path, "npy"):
        stored, start = _read_header(stream, str(path))
    return Opened(RawSource(file, f"{path}: z", stored, start, file.size), None, {})


def open_npz(path: str | os.PathLike[str], *, labels: bool = True) -> Opened:
    """The features `z` and, where there are, the `labels` of an npz file."""
    file = UnchangedFile.of(path)
    with file.open() as stream, reading(path, "npz"), zipfile.ZipFile(stream) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if "z.npy" not in members:
            held = ", ".join(sorted(name.removesuffix(".npy") for name in members)) or "nothing"
            raise SoftscopeError(f"{path}: expected arrays 'z' and 'labels', found {held}", _SAVE)
        source = _npz_source(file, stream, archive, members["z.npy"])
        known = None
        if labels and "labels.npy" in members:
            with archive.open("labels.npy") as content:
                known = _npz_labels(content, f"{path}: labels", source.shape[0])
    return Opened(source, known, {})


def _npz_source(file: UnchangedFile, stream: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Source:
    name = f"{file.path}: z"
    with archive.open(member) as content:
        stored, start = _read_header(content, name)
    if member.compress_type != zipfile.ZIP_STORED:
        return RawSource(file, name, stored, start, member.file_size, member.filename)
    stream.seek(member.header_offset)
    _, name_length, extra_length = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    offset = member.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    return RawSource(file, name, stored, offset + start, min(offset + member.file_size, file.size))


def _npz_labels(content: IO[bytes], name: str, rows: int) -> NDArray[np.int64]:
    stored, _ = _read_header(content, name)
    check_labels(stored.dtype, stored.shape, name, rows=rows)
    values = content.read(stored.size)
    if len(values) < stored.size:
        raise ValueError(f"ends {stored.size - len(values)} bytes too early")
    return as_labels(np.frombuffer(values, stored.dtype), name)


def _read_header(stream: IO[bytes], name: str) -> tuple[_Stored, int]:
    """What the npy header at the start of the stream announces, and the byte after it."""
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, by_column, dtype = npy.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, by_column, dtype = npy.read_array_header_2_0(stream)
    else:
        raise ValueError(f"npy version {version}, expected (1, 0) or (2, 0)")
    if dtype.hasobject:
        raise SoftscopeError(
            f"{name}: found an array of Python objects, expected numbers (objects are never unpickled)", _SAVE
        )
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {shape}")
    return _Stored(tuple(map(int, shape)), dtype, by_column and len(shape) == 2), stream.tell()
