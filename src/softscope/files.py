"""Writing files so that nothing is ever half-written, and reading safetensors without trust.

A file appears under its name only when it is whole: temporary name in the same folder, fsync, rename.
"""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .canonical import content_digest, parse_json
from .errors import SoftscopeError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
HEADER_BYTES = 1 << 24  # far above the header of any real file: a hostile length must not be allocated

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1",
}  # fmt: skip
_AGAIN = "Write or copy the file again"


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on a clean exit it is fsynced and renamed to `path`, else removed."""
    with atomic_paths(path) as (temporary,):
        yield temporary


@contextmanager
def atomic_paths(*paths: str | os.PathLike[str]) -> Iterator[tuple[Path, ...]]:
    """`atomic_path` for files that belong together: all of them appear, or none.

    A link is written through. What is neither a regular file nor a new name is refused before anything is written.
    """
    targets = [output_file(path) for path in paths]
    temporaries: list[Path] = []
    target = targets[0]
    try:
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(target.parent)
            name = f".{target.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(6)}.part"
            temporaries.append(target.parent / name)
            os.close(os.open(temporaries[-1], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield tuple(temporaries)
        for temporary in temporaries:
            sync(temporary)
        for target, temporary in zip(targets, temporaries):
            os.replace(temporary, target)
    except OSError as error:
        raise writing_failed(target, error) from error
    finally:
        for temporary in temporaries:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    with suppress(OSError):  # the files are whole and in place; some file systems can't sync a folder
        for folder in {target.parent for target in targets}:
            sync(folder)


def output_file(path: str | os.PathLike[str]) -> Path:
    """Where `path` leads if it is a link; a SoftscopeError unless it is a regular file or a new name."""
    try:
        target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        if isinstance(error, OSError) and error.errno in (errno.ENOTDIR, errno.EACCES):
            return Path(path)  # making the folder says what is wrong
        reason = error.strerror if isinstance(error, OSError) else error
        raise SoftscopeError(f"{str(path)!r}: is not a file name ({reason})", "Choose another output path") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or pipe"
        raise SoftscopeError(f"{path}: is {kind}, not a file", "Choose another output path")
    return target


_PART = re.compile(r"\..+\.([0-9a-f]{8})-(\d+)-[0-9a-f]{12}\.part")
_tidied: set[str] = set()


@cache
def _machine() -> str:
    """Eight digits that processes share exactly if they see each other's process numbers."""
    try:
        words = Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    except OSError:
        words = platform.node()
    return hashlib.sha256(words.encode()).hexdigest()[:8]


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes of this machine that are gone (kill -9), once for each folder."""
    if str(folder) in _tidied:
        return
    _tidied.add(str(folder))
    with suppress(OSError):
        for entry in os.scandir(folder):
            named = _PART.fullmatch(entry.name)
            if named and named[1] == _machine() and not _runs(int(named[2])):
                with suppress(OSError):
                    os.unlink(entry.path)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as strict JSON (no NaN), atomically."""
    write_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Write numpy arrays and string metadata as one safetensors file, atomically: the same contents, the same bytes.

    (safetensors' own writer puts metadata in another order each time.)
    """
    stream_safetensors(path, {name: (array.dtype, array.shape, [array]) for name, array in tensors.items()}, metadata)


def stream_safetensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, tuple[np.dtype, tuple[int, ...], Iterable[NDArray]]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors that never are in memory whole: each is a dtype, a shape and its consecutive blocks. Atomic."""
    order = _aligned({name: dtype for name, (dtype, _, _) in tensors.items()})
    preamble = safetensors_preamble({name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()}, metadata)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        file.write(preamble)
        for name in order:
            for block in tensors[name][2]:
                file.write(np.ascontiguousarray(block, dtype=tensors[name][0]).data)


def safetensors_preamble(
    tensors: Mapping[str, tuple[np.dtype, tuple[int, ...]]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The bytes before the tensors in the file that `stream_safetensors` writes: the same for the same contents."""
    names = {np.dtype(numpy_name): name for name, numpy_name in _DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    begin = 0
    for name in _aligned({name: dtype for name, (dtype, _) in tensors.items()}):
        dtype, shape = tensors[name]
        end = begin + dtype.itemsize * prod(shape)
        header[name] = {"dtype": names[dtype], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies in a safetensors file: bytes `start` to `stop` of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    def numpy_dtype(self, name: str) -> np.dtype:
        """The dtype as numpy knows it, or a SoftscopeError that calls the tensor `name`."""
        if self.dtype not in _DTYPES:
            raise SoftscopeError(f"{name}: expected F32 or F64, found {self.dtype}", "Save it as float32")
        return np.dtype(_DTYPES[self.dtype])


def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """All tensors and the metadata of a (small) safetensors file."""
    from safetensors import safe_open

    entries, metadata = safetensors_header(path)
    for name, entry in entries.items():
        entry.numpy_dtype(f"{path}: {name}")  # one that numpy lacks is named here
    with reading(path, "safetensors"), safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name) for name in entries}, metadata


def write_signed(
    path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """`write_safetensors` with the digest of all contents in the metadata, for `read_signed`."""
    words = dict(metadata or {})
    write_safetensors(path, tensors, words | {"sha256": content_digest(tensors, words)})


def read_signed(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and metadata that `write_signed` wrote, or a SoftscopeError where a byte of the file has changed.

    The digest covers tensors and metadata; the header must be laid out exactly as we write it for these.
    """
    tensors, metadata = read_safetensors(path)
    preamble = safetensors_preamble({name: (t.dtype, t.shape) for name, t in tensors.items()}, metadata)
    with open(path, "rb") as file:
        same = file.read(len(preamble)) == preamble
    if metadata.pop("sha256", None) != content_digest(tensors, metadata) or not same:
        raise SoftscopeError(f"{path}: has changed since it was saved (its sha256 differs)", "Copy it again")
    return tensors, metadata


def safetensors_header(path: str | os.PathLike[str]) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """The tensors of a safetensors file by name and its metadata: no tensor is read, and no size is believed.

    Every shape must agree with its offsets, and the tensors must fill the file without a hole or an overlap.
    """
    size = existing_file(path).stat().st_size
    with reading(path, "safetensors"), open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError(f"the header needs {length} bytes, the file has {max(0, size - 8)} after its length")
        if length > HEADER_BYTES:
            raise ValueError(f"a header of {length} bytes, expected at most {HEADER_BYTES}")
        header = parse_json(file.read(length))
        if not isinstance(header, dict):
            raise ValueError("a header that names no tensors")
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("metadata that isn't text")
        entries = {name: _entry(name, described, 8 + length) for name, described in header.items()}
        _check_cover(entries, 8 + length, size)
    return entries, metadata


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged or hostile file into one SoftscopeError."""
    try:
        yield
    except SoftscopeError:
        raise
    except PermissionError as error:
        raise SoftscopeError(f"{path}: can't be read ({error.strerror})", "Allow this user to read it") from error
    except Exception as error:  # parsers meet hostile bytes with errors of many types, MemoryError among them
        raise SoftscopeError(f"{path}: not a whole {kind} file ({first_line(error)})", _AGAIN) from error


def read_into(file: BinaryIO, array: NDArray, offset: int, path: str | os.PathLike[str]) -> None:
    """Fill the contiguous `array` with the bytes of `file` from `offset` on."""
    file.seek(offset)
    view = array.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise SoftscopeError(f"{path}: ends {len(view) - done} bytes too early", _AGAIN)
        done += count


def writable_folder(path: str | os.PathLike[str]) -> Path:
    """`path` as a folder that can be written to, made where it is missing: asked before long work, not after it."""
    folder = Path(path)
    with atomic_path(folder / ".writable"):
        pass
    (folder / ".writable").unlink(missing_ok=True)
    return folder


@contextmanager
def output_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """`writable_folder` for the work inside; if that fails, folders that were made for it and are empty go again."""
    folder = Path(path)
    made = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    writable_folder(folder)
    try:
        yield folder
    except BaseException:
        with suppress(OSError):
            for each in made:
                each.rmdir()
        raise


def existing(path: str | os.PathLike[str]) -> Path:
    """`path` if there is something there, else a SoftscopeError."""
    try:
        there = Path(path).exists()
    except OSError as error:
        raise SoftscopeError(f"{path}: can't be read ({error.strerror})", "Check the path") from error
    if not there:
        raise SoftscopeError(f"{path}: no such file or folder", "Check the path")
    return Path(path)


def existing_file(path: str | os.PathLike[str]) -> Path:
    """`path` if it is a regular file (a pipe would block), else a SoftscopeError."""
    file = existing(path)
    if not file.is_file():
        kind = "a folder" if file.is_dir() else "a device or pipe"
        raise SoftscopeError(f"{path}: expected a file, found {kind}", "Give a regular file")
    return file


def check_suffix(path: str | os.PathLike[str], *suffixes: str) -> None:
    """A SoftscopeError unless the name of this output ends as it must."""
    if Path(path).suffix.lower() not in suffixes:
        raise SoftscopeError(f"{path}: expected a name that ends in {' or '.join(suffixes)}", "Choose another name")


def sha256(path: str | os.PathLike[str]) -> str:
    """Hex digest of a file's bytes, read in blocks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def writing_failed(target: Path, error: OSError) -> SoftscopeError:
    """An OSError met while writing, as one line that says what to do."""
    if error.errno in DISK_FULL:
        return SoftscopeError(f"{target}: the disk is full, nothing was written", "Free some space and run again")
    reason = error.strerror or first_line(error)
    return SoftscopeError(
        f"{target}: can't be written ({reason})", "Choose another output path, or allow this user to write there"
    )


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, onto the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _aligned(dtypes: Mapping[str, np.dtype]) -> list[str]:
    """The order in a file that keeps every tensor aligned: the widest items first."""
    return sorted(dtypes, key=lambda name: (-dtypes[name].itemsize, name))


def _entry(name: str, described: Any, data: int) -> TensorEntry:
    try:
        dtype, shape, (begin, end) = described["dtype"], described["shape"], described["data_offsets"]
        sound = isinstance(dtype, str) and all(type(n) is int and 0 <= n < 1 << 62 for n in [*shape, begin, end])
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise ValueError(f"tensor '{name}' has no dtype, shape and offsets that make sense")
    if dtype in _DTYPES and np.dtype(_DTYPES[dtype]).itemsize * prod(shape) != end - begin:
        raise ValueError(f"tensor '{name}' has shape {shape} of {dtype} in {end - begin} bytes")
    return TensorEntry(dtype, tuple(shape), data + begin, data + end)


def _check_cover(entries: Mapping[str, TensorEntry], data: int, size: int) -> None:
    end = data
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end or entry.stop < entry.start:
            raise ValueError(f"tensor '{name}' begins at byte {entry.start}, expected {end}")
        end = entry.stop
    if end != size:
        raise ValueError(f"the tensors end at byte {end}, the file at byte {size}")


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/softscope`, by default `~/.cache/softscope`."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "softscope"
