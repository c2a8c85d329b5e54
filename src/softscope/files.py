"""Writing files so that nothing is ever half-written, and reading safetensors without trust.

A file appears under its name only when it is whole: temporary name in the same folder, fsync, rename.
"""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .errors import SoftscopeError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on a clean exit it is fsynced and renamed to `path`, else removed."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise writing_failed(target, error) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        _sync(target.parent)
    except OSError as error:
        raise writing_failed(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


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
    """Write numpy arrays and string metadata as one safetensors file, atomically."""
    from safetensors.numpy import save_file

    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(whole, temporary, metadata=dict(metadata or {}))


def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """All tensors and the metadata of a (small) safetensors file."""
    from safetensors import SafetensorError, safe_open

    existing(path)
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise SoftscopeError(
            f"{path}: not a whole safetensors file ({first_line(error)})", "Write or copy the file again"
        ) from error


def existing(path: str | os.PathLike[str]) -> Path:
    """`path` if there is something there, else a SoftscopeError."""
    found = Path(path)
    if not found.exists():
        raise SoftscopeError(f"{path}: no such file or folder", "Check the path")
    return found


def sha256(path: str | os.PathLike[str]) -> str:
    """Hex digest of a file's bytes, read in blocks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def writing_failed(target: Path, error: OSError) -> SoftscopeError:
    """An OSError met while writing, as one line that says what to do."""
    if error.errno in _DISK_FULL:
        return SoftscopeError(f"{target}: the disk is full, nothing was written", "Free some space and run again")
    reason = error.strerror or first_line(error)
    return SoftscopeError(
        f"{target}: can't be written ({reason})", "Choose another output path or mend its permissions"
    )


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
