"""Decoded images kept between runs, so that each data set is decoded once: `softscope/decoded` in the user's cache.

A file's name is the hash of what it was made from (sha256 of the data files, channels, size). The folder may be deleted
at any time; where it can't be written, nothing is kept and nothing else changes.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..files import atomic_path, cache_folder
from .pixels import Images

MAX_BYTES = 1 << 29


def key_of(digests: Mapping[str, str], channels: int, size: int | None) -> str:
    """The name under which the images of these files, so decoded, are kept."""
    return hashlib.sha256(json.dumps([1, list(digests.values()), channels, size]).encode()).hexdigest()[:32]


def recall(key: str, count: int, rows: NDArray[np.int64]) -> Images | None:
    """The images of `rows`, if all `count` images of these files were kept and the file is whole."""
    try:
        kept = np.load(_path(key), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
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
        with atomic_path(_path(key)) as temporary, open(temporary, "wb") as file:
            np.save(file, images, allow_pickle=False)
    except SoftscopeError:
        return


def _path(key: str) -> Path:
    return cache_folder() / "decoded" / f"{key}.npy"
