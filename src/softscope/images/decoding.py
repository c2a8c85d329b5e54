"""Encoded images to pixels, in worker threads with a bounded number of blocks under way.

Pillow lets other threads run while it decodes or resizes, which pays for photographs; for tiny images the threads would
only wait for each other, so these are decoded in the calling thread.
"""

import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError, printable
from ..files import first_line
from ..provenance import cores
from .pixels import Images

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP")
INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
MAX_PIXELS = 1 << 26
MAX_SIDE = 4096
_TINY_BYTES = 8192
_MAX_WORKERS = 16


@dataclass(frozen=True)
class Encoded:
    """Consecutive images, still encoded (or pixels [H, W] or [H, W, C]), with the name of each for messages."""

    content: Sequence[bytes | NDArray[np.uint8] | None]
    names: Sequence[str]


@dataclass(frozen=True)
class Decoded:
    """The images of a block that could be decoded, their positions in it, and `name: reason` of each that couldn't."""

    images: Images
    positions: tuple[int, ...]
    bad: tuple[str, ...]


class Decoder:
    """Decodes blocks to uint8 [n, H, W, channels].

    With `size`, a side or (height, width), the short side is resized to size / `crop` and the centre is cut out; with
    `squash` the whole image is resized to it, whatever its shape. Without `size` all images must have the shape of the
    first; `channels` 0 takes grey or colour from the first.
    """

    def __init__(
        self,
        *,
        channels: int = 0,
        size: int | tuple[int, int] | None = None,
        crop: float = 1.0,
        interpolation: str = "bicubic",
        squash: bool = False,
    ) -> None:
        sides = (size, size) if isinstance(size, int) else size
        if sides is not None and not all(1 <= side <= MAX_SIDE for side in sides):
            raise SoftscopeError(f"size {size}: expected 1 to {MAX_SIDE} pixels", "Give the side of the square")
        if interpolation not in INTERPOLATIONS:
            raise SoftscopeError(f"interpolation {interpolation}: unknown value", f"Use {', '.join(INTERPOLATIONS)}")
        if not 0.1 <= crop <= 1:
            raise SoftscopeError(f"crop {crop}: expected 0.1 to 1", "Give the share of the short side to keep")
        self.channels = channels
        self.size, self.crop, self.interpolation, self.squash = sides, crop, interpolation, squash
        self.shape: tuple[int, int] | None = sides

    def decode_all(self, blocks: Iterator[Encoded]) -> Iterator[Decoded]:
        """Each block decoded, in order; at most two blocks per worker are in memory."""
        for first in blocks:
            self._learn_shape(first)
            yield from _in_order(self.decode, chain([first], blocks), _workers(first))

    def decode(self, block: Encoded) -> Decoded:
        """One block; a corrupt image is left out and named."""
        images, positions, bad = [], [], []
        for position, (content, name) in enumerate(zip(block.content, block.names)):
            try:
                image = self._pixels(content, name)
            except (OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError) as error:
                # Pillow's words end in an address in memory, which would make every run's files different ones.
                bad.append(printable(f"{name}: {first_line(error).partition(' <')[0]}"))
                continue
            images.append(image)
            positions.append(position)
        shape = (0, *(self.shape or (0, 0)), self.channels)
        stacked = np.stack(images) if images else np.empty(shape, dtype=np.uint8)
        return Decoded(stacked, tuple(positions), tuple(bad))

    def _pixels(self, content: bytes | NDArray[np.uint8] | None, name: str) -> Images:
        from PIL import Image

        if content is None or not len(content):
            raise ValueError("no bytes")
        try:
            with _opened(content) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise Image.DecompressionBombError(f"{width} x {height} pixels")
                mode = "L" if self._channels_of(image.mode) == 1 else "RGB"
                picture = image if image.mode == mode else image.convert(mode)
                pixels = np.asarray(self._resized(picture), dtype=np.uint8)
        except Image.DecompressionBombError as error:
            raise ValueError(f"refused, more than {MAX_PIXELS:,} pixels ({first_line(error)})") from error
        self._check_shape(pixels, name)
        return pixels[..., None] if pixels.ndim == 2 else pixels

    def _resized(self, picture: Any) -> Any:
        """The picture in the size asked for: squashed, or its centre."""
        if self.size is None or (picture.size == self.size[::-1] and self.crop == 1):
            return picture
        from PIL import Image

        resample = Image.Resampling[self.interpolation.upper()]
        (height, width), (wide, high) = self.size, picture.size
        if self.squash:
            return picture.resize((width, height), resample)
        if self.crop == 1:
            return picture.resize((width, height), resample, box=_centre(wide, high, width / height))
        # As torchvision and timm do it: the short side first, then the centre.
        side = int(min(height, width) / self.crop)
        scale = side / min(wide, high)
        whole = (side, int(high * scale)) if wide <= high else (int(wide * scale), side)
        left, top = round((whole[0] - width) / 2), round((whole[1] - height) / 2)
        return picture.resize(whole, resample).crop((left, top, left + width, top + height))

    def _channels_of(self, mode: str) -> int:
        return self.channels or (1 if mode in ("1", "L", "LA", "I", "I;16", "F") else 3)

    def _learn_shape(self, block: Encoded) -> None:
        """Take shape and channels from the first image that decodes, before workers start."""
        if self.shape is not None and self.channels:
            return
        for content, name in zip(block.content, block.names):
            first = self.decode(Encoded([content], [name])).images
            if len(first):
                self.shape = (int(first.shape[1]), int(first.shape[2]))
                self.channels = int(first.shape[3])
                return

    def _check_shape(self, pixels: Images, name: str) -> None:
        height, width = pixels.shape[:2]
        if self.shape is not None and (height, width) != self.shape:
            raise SoftscopeError(
                f"{name}: is {width} x {height} pixels, others are {self.shape[1]} x {self.shape[0]}",
                "Load with size=224 (or another side) to bring all images to one size",
            )


def _in_order(work: Callable[[Encoded], Decoded], blocks: Iterator[Encoded], workers: int) -> Iterator[Decoded]:
    if workers == 1:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(workers) as pool:
        under_way: deque[Future[Decoded]] = deque()
        try:
            for block in blocks:
                under_way.append(pool.submit(work, block))
                if len(under_way) >= 2 * workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def _workers(block: Encoded) -> int:
    sizes = [content.nbytes if isinstance(content, np.ndarray) else len(content or b"") for content in block.content]
    if not sizes or sum(sizes) / len(sizes) < _TINY_BYTES:
        return 1
    return min(cores(), _MAX_WORKERS)


def _opened(content: bytes | NDArray[np.uint8]) -> Any:
    from PIL import Image

    if isinstance(content, np.ndarray):
        return Image.fromarray(content[..., 0] if content.ndim == 3 and content.shape[2] == 1 else content)
    return Image.open(io.BytesIO(content), formats=FORMATS)


def _centre(width: int, height: int, ratio: float) -> tuple[float, float, float, float]:
    """The largest box of width / height = `ratio` in the middle of an image."""
    wide, high = min(width, height * ratio), min(height, width / ratio)
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high
