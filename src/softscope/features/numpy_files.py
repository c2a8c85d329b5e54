"""npy and npz files, read by bounded pieces and never unpickled.

What lies uncompressed (npy, and npz of `np.savez`) is read by offset; a compressed member is streamed from its start.
"""

import os
import struct
import zipfile
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..arrays import as_labels, check_labels, check_real, check_shape, chunk_rows, spans
from ..errors import SoftscopeError
from ..files import reading
from .sources import Opened, RawSource, Source, UnchangedFile, gather_from

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_SAVE = "Save it with np.savez(path, z=z, labels=labels)"


class _Header(NamedTuple):
    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype
    length: int


class StreamedSource(Source):
    """Rows of a compressed npz member, decompressed from the start on each pass."""

    def __init__(self, file: UnchangedFile, member: str, name: str, header: _Header) -> None:
        self.file, self.files, self.member, self.name, self.header = file, (file,), member, name, header
        self.shape = (header.shape[0], header.shape[1])
        self.dtype = np.promote_types(header.dtype, np.float32)

    def blocks(self, size: int, first: int = 0, *, holes: bool = False) -> Iterator[NDArray]:
        with (
            self.file.open() as file,
            reading(self.file.path, "npz"),
            zipfile.ZipFile(file) as archive,
            archive.open(self.member) as stream,
        ):
            stream.read(self.header.length)
            for span in spans(first, chunk_rows(self.shape[1])):
                _read(stream, (span.stop - span.start, self.shape[1]), self.header.dtype)
            for span in spans(self.shape[0] - first, size):
                shape = (span.stop - span.start, self.shape[1])
                yield _read(stream, shape, self.header.dtype).astype(self.dtype, copy=False)

    def gather(self, indices: NDArray[np.int64]) -> NDArray:
        size = chunk_rows(self.shape[1])
        numbered = ((number * size, block) for number, block in enumerate(self.blocks(size)))
        return gather_from(numbered, indices, self.shape[1], self.dtype)


def open_npy(path: str | os.PathLike[str]) -> Opened:
    """The features of an npy file; it has no labels."""
    file = UnchangedFile.of(path)
    with file.open() as stream, reading(path, "npy"):
        header = _read_header(stream, str(path))
    name = f"{path}: z"
    return Opened(_raw(file, name, header, header.length, file.size), None, {})


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
            known = _npz_labels(archive, members["labels.npy"], f"{path}: labels", source.shape[0])
    return Opened(source, known, {})


def _npz_source(file: UnchangedFile, stream: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Source:
    name = f"{file.path}: z"
    with archive.open(member) as content:
        header = _read_header(content, name)
    if member.compress_type == zipfile.ZIP_STORED:
        stream.seek(member.header_offset)
        _, name_length, extra_length = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
        start = member.header_offset + _LOCAL_HEADER.size + name_length + extra_length
        return _raw(file, name, header, start + header.length, start + member.file_size)
    check_real(header.dtype, name)
    check_shape(header.shape, name)
    if header.by_column:
        raise SoftscopeError(
            f"{name}: is compressed column by column, which can't be read row by row",
            "Save it with np.savez(path, z=np.ascontiguousarray(z), labels=labels)",
        )
    _check_size(header, name, member.file_size - header.length)
    return StreamedSource(file, member.filename, name, header)


def _npz_labels(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, rows: int) -> NDArray[np.int64]:
    with archive.open(member) as content:
        header = _read_header(content, name)
        check_labels(header.dtype, header.shape, name, rows=rows)
        return as_labels(_read(content, header.shape, header.dtype), name, rows=rows)


def _raw(file: UnchangedFile, name: str, header: _Header, start: int, stop: int) -> RawSource:
    check_real(header.dtype, name)
    check_shape(header.shape, name)
    _check_size(header, name, min(stop, file.size) - start)
    return RawSource(file, name, header.shape, header.dtype, start, by_column=header.by_column)


def _check_size(header: _Header, name: str, size: int) -> None:
    rows, columns = header.shape
    expected = rows * columns * header.dtype.itemsize
    if size != expected:
        raise SoftscopeError(
            f"{name}: shape {header.shape} of {header.dtype} needs {expected} bytes, the file has {size}",
            "Write or copy the file again",
        )


def _read_header(stream: IO[bytes], name: str) -> _Header:
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
    return _Header(tuple(map(int, shape)), by_column and len(shape) == 2, dtype, stream.tell())


def _read(stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    array = np.empty(shape, dtype)
    view = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        piece = stream.read(min(len(view) - done, 1 << 20))
        if not piece:
            raise ValueError(f"ends {len(view) - done} bytes too early")
        view[done : done + len(piece)] = piece
        done += len(piece)
    return array
