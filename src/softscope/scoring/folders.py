"""Folders of inputs and outputs: on this machine's disks, or in a store (s3://, gs://, hdfs://) of pyarrow or fsspec.

A file appears whole or not at all: by renaming on disks, and in object stores because an upload counts when it ends.
"""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import SoftscopeError
from ..files import existing, existing_file, first_line, write_bytes

_UPLOADED_WHOLE = ("s3", "gcs", "abfs")


@dataclass(frozen=True)
class InputFile:
    """A file as it was when it was listed: `path` is absolute or an address, `modified` in nanoseconds."""

    path: str
    size: int
    modified: int

    def check_unchanged(self) -> None:
        """Raise where a local file is another one by now: its rows would go under a wrong name."""
        if is_address(self.path):
            return
        try:
            state = os.stat(self.path)
        except OSError:
            return  # whoever reads it says so
        if (state.st_size, state.st_mtime_ns) != (self.size, self.modified):
            raise SoftscopeError(f"{self.path}: has changed since it was listed", "Score it into a new folder")


def is_address(path: str) -> bool:
    """Whether `path` names a store, as s3://bucket/folder does."""
    return "://" in path


def list_files(source: str, suffixes: tuple[str, ...]) -> list[InputFile]:
    """The file `source`, or the files with these suffixes in the folder `source` and below, sorted by path."""
    root, listed = _listed_in_store(source) if is_address(source) else _listed_here(source)
    wanted = [i for i in listed if PurePosixPath(i.path).suffix.lower() in suffixes and not _hidden(i.path, root)]
    if not wanted:
        raise SoftscopeError(f"{source}: there is no file to score", f"Give files of type {', '.join(suffixes)}")
    return sorted(wanted, key=lambda file: file.path)


def _listed_here(source: str) -> tuple[str, list[InputFile]]:
    """The absolute path of a folder or file, and the regular files there. (pyarrow takes names in UTF-8 alone.)"""
    root = os.path.abspath(existing(os.path.expanduser(source)))
    if not os.path.isdir(root):
        return root, [_state(str(existing_file(root)))]
    seen, files = set(), []
    for folder, below, names in os.walk(root, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:  # links that lead round in a circle
            below.clear()
            continue
        seen.add(real)
        files += [_state(path) for name in names if os.path.isfile(path := os.path.join(folder, name))]
    return root, files


def _state(path: str) -> InputFile:
    state = os.stat(path)
    return InputFile(path, state.st_size, state.st_mtime_ns)


def _listed_in_store(source: str) -> tuple[str, list[InputFile]]:
    from pyarrow.fs import FileSelector, FileType

    system, root = _system(source)
    with _talking_to(source):
        info = system.get_file_info(root)
        if info.type == FileType.NotFound:
            raise SoftscopeError(f"{source}: no such file or folder", "Check the path")
        folder = info.type == FileType.Directory
        listed = system.get_file_info(FileSelector(root, recursive=True)) if folder else [info]
    scheme = source.partition("://")[0] + "://"
    files = [InputFile(scheme + i.path, i.size, i.mtime_ns or 0) for i in listed if i.type == FileType.File]
    return scheme + root, files


def read_bytes(path: str) -> bytes | None:
    """The whole file, or None where a local one can't be read."""
    if is_address(path):
        with _talking_to(path):
            return _content(path)
    try:
        return _content(path)
    except (OSError, SoftscopeError):
        return None


def _content(path: str) -> bytes:
    if not is_address(path):
        return existing_file(path).read_bytes()
    system, place = _system(path)
    with system.open_input_stream(place) as stream:
        content: bytes = stream.read()
        return content


@contextmanager
def local_copy(path: str) -> Iterator[Path]:
    """`path` itself, or for an address a temporary copy with the same ending."""
    if not is_address(path):
        yield Path(path)
        return
    import shutil

    system, place = _system(path)
    with tempfile.TemporaryDirectory(prefix="softscope-") as folder:
        copy = Path(folder) / PurePosixPath(place).name
        with _talking_to(path), system.open_input_stream(place) as stream, open(copy, "wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        yield copy


class OutputFolder:
    """The folder that takes the scores; small, so that it travels to workers."""

    def __init__(self, where: str) -> None:
        self.where = where.rstrip("/") if is_address(where) else os.path.abspath(os.path.expanduser(where))

    def __repr__(self) -> str:
        return f"OutputFolder({self.where!r})"

    def read(self, name: str) -> bytes | None:
        """The contents of the file `name`, or None where it isn't there."""
        path = f"{self.where}/{name}"
        try:
            return _content(path) if is_address(path) or os.path.lexists(path) else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SoftscopeError(f"{path}: can't be read ({first_line(error)})", "Check it") from error

    def write(self, name: str, content: bytes) -> None:
        """Write the file `name` so that it is there whole or not at all."""
        if not is_address(self.where):
            write_bytes(Path(self.where) / name, content)
            return
        system, root = _system(self.where)
        with _talking_to(self.where):
            if system.type_name in _UPLOADED_WHOLE:
                with system.open_output_stream(f"{root}/{name}") as stream:
                    stream.write(content)
                return
            system.create_dir(root)
            temporary = f"{root}/.{name}.{secrets.token_hex(6)}.part"
            with system.open_output_stream(temporary) as stream:
                stream.write(content)
            system.move(temporary, f"{root}/{name}")

    def sweep(self) -> None:
        """Remove the temporary files that a killed process left; call it where nobody else writes here."""
        if not is_address(self.where):
            for leftover in Path(self.where).glob(".*.part"):
                with suppress(OSError):
                    leftover.unlink()


def _system(path: str) -> tuple[Any, str]:
    """pyarrow's file system for the address `path`, and the path within it."""
    import pyarrow as pa
    from pyarrow import fs

    if "?" in path:  # it would stand in every row of the output, keys and all
        raise SoftscopeError(
            f"{path.partition('?')[0]}: options after ? are not read",
            "Set endpoint, region and keys in the environment: AWS_ENDPOINT_URL, AWS_DEFAULT_REGION, ...",
        )
    with _talking_to(path):
        try:
            system, place = fs.FileSystem.from_uri(path)
        except pa.ArrowInvalid:
            system, place = fs.FileSystem.from_uri(f"fsspec+{path}")
    return system, place


@contextmanager
def _talking_to(where: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise SoftscopeError(
            f"{where}: the store doesn't answer as it should ({first_line(error)})",
            "Check the address and the credentials, then run again: what is finished is not scored again",
        ) from error


def _hidden(path: str, root: str) -> bool:
    below = PurePosixPath(path).relative_to(root).parts if path != root else ()
    return any(part.startswith((".", "_")) for part in below)
