"""Decoded images kept between runs, so that each data set is decoded once: `softscope/decoded` in the user's cache.

A file's name is the hash of what it was made from (sha256 of the data files, channels, size); its last 32 bytes are the
sha256 of those before them, and a file that doesn't match is made anew. The folder may be deleted at any time; where it
can't be written, nothing is kept and nothing else changes.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..files import atomic_path, cache_folder, sha256
from .pixels import Images

MAX_BYTES = 1 << 29
_BLOCK = 1 << 20


def key_of(digests: Mapping[str, str], channels: int, size: int | None) -> str:
    """The name under which the images of these files, so decoded, are kept."""
    return hashlib.sha256(json.dumps([2, list(digests.values()), channels, size]).encode()).hexdigest()[:32]


def recall(key: str, count: int, rows: NDArray[np.int64]) -> Images | None:
    """The images of `rows`, if all `count` images of these files were kept and the file is what was written."""
    try:
        if not _unchanged(_path(key)):
            return None
        kept = np.load(_path(key), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError):
        return None
    if kept.dtype != np.uint8 or kept.ndim != 4 or len(kept) != count:
        return None
    chosen: Images = np.take(kept, rows, axis=0)
    return chosen


def keep(key: str, images: Images) -> None:
    """Keep the images of all rows, unless they are too large or the folder can't be written."""
    if images.nbytes > MAX_BYTES:
        return
    try:
        with atomic_path(_path(key)) as temporary:
            with open(temporary, "wb") as file:
                np.save(file, images, allow_pickle=False)
            digest = bytes.fromhex(sha256(temporary))
            with open(temporary, "ab") as file:
                file.write(digest)
    except SoftscopeError:
        return


def _unchanged(path: Path) -> bool:
    """Whether the digest at the end of the file is that of what comes before it."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size - digest.digest_size
        while left > 0 and (block := file.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
        return left == 0 and file.read() == digest.digest()


def _path(key: str) -> Path:
    return cache_folder() / "decoded" / f"{key}.npy"
