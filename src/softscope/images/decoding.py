"""Encoded images to pixels, in worker threads with a bounded number of blocks under way.

Pillow lets other threads run while it decodes or resizes, which pays for photographs; for tiny images the threads would
only wait for each other, so these are decoded in the calling thread.
"""

import io
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..errors import SoftscopeError
from ..files import first_line
from .pixels import Images

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP")
MAX_PIXELS = 1 << 26
_TINY_BYTES = 8192
_MAX_WORKERS = 16


@dataclass(frozen=True)
class Encoded:
    """Consecutive images of a file, still encoded, with the name each goes by in messages."""

    content: Sequence[bytes | None]
    names: Sequence[str]


@dataclass(frozen=True)
class Decoded:
    """The images of a block that could be decoded, their positions in it, and `name: reason` of each that couldn't."""

    images: Images
    positions: tuple[int, ...]
    bad: tuple[str, ...]


class Decoder:
    """Decodes blocks to uint8 [n, H, W, channels]; with `size`, the centre square is resized to size x size.

    Without `size` all images must have the shape of the first; `channels` 0 takes grey or colour from the first.
    """

    def __init__(self, *, channels: int = 0, size: int | None = None) -> None:
        if size is not None and not 1 <= size <= 4096:
            raise SoftscopeError(f"size {size}: expected 1 to 4096 pixels", "Give the side of the square")
        self.channels = channels
        self.size = size
        self.shape: tuple[int, int] | None = None if size is None else (size, size)

    def decode_all(self, blocks: Iterator[Encoded]) -> Iterator[Decoded]:
        """Each block decoded, in order; at most two blocks a worker are in memory."""
        for first in blocks:
            self._learn_shape(first)
            workers = _workers(first)
            if workers == 1:
                yield self.decode(first)
                yield from map(self.decode, blocks)
            else:
                yield from _in_order(self.decode, first, blocks, workers)

    def decode(self, block: Encoded) -> Decoded:
        """One block; a corrupt image is left out and named."""
        images, positions, bad = [], [], []
        for position, (content, name) in enumerate(zip(block.content, block.names)):
            try:
                image = self._pixels(content, name)
            except (OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError) as error:
                bad.append(f"{name}: {first_line(error)}")
                continue
            images.append(image)
            positions.append(position)
        shape = (0, *(self.shape or (0, 0)), self.channels)
        stacked = np.stack(images) if images else np.empty(shape, dtype=np.uint8)
        return Decoded(stacked, tuple(positions), tuple(bad))

    def _pixels(self, content: bytes | None, name: str) -> Images:
        from PIL import Image

        if not content:
            raise ValueError("no bytes")
        try:
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise Image.DecompressionBombError(f"{width} x {height} pixels")
                mode = "L" if self._channels_of(image.mode) == 1 else "RGB"
                picture = image if image.mode == mode else image.convert(mode)
                if self.size is not None and picture.size != (self.size, self.size):
                    picture = picture.resize(
                        (self.size, self.size), Image.Resampling.BICUBIC, box=_square(width, height)
                    )
                pixels = np.asarray(picture, dtype=np.uint8)
        except Image.DecompressionBombError as error:
            raise SoftscopeError(
                f"{name}: refused, {first_line(error)}", f"Images of more than {MAX_PIXELS:,} pixels aren't opened"
            ) from error
        self._check_shape(pixels, name)
        return pixels[..., None] if pixels.ndim == 2 else pixels

    def _channels_of(self, mode: str) -> int:
        return self.channels or (1 if mode in ("1", "L", "LA", "I", "I;16", "F") else 3)

    def _learn_shape(self, block: Encoded) -> None:
        """Take shape and channels from the first image that decodes, before workers start."""
        if self.shape is not None and self.channels:
            return
        for content, name in zip(block.content, block.names):
            found = self.decode(Encoded([content], [name])).images
            if len(found):
                self.shape = (int(found.shape[1]), int(found.shape[2]))
                self.channels = int(found.shape[3])
                return

    def _check_shape(self, pixels: Images, name: str) -> None:
        height, width = pixels.shape[:2]
        if self.shape is not None and (height, width) != self.shape:
            raise SoftscopeError(
                f"{name}: is {width} x {height} pixels, others are {self.shape[1]} x {self.shape[0]}",
                "Load with size=224 (or another side) to bring all images to one size",
            )


def _in_order(
    work: Callable[[Encoded], Decoded], first: Encoded, rest: Iterator[Encoded], workers: int
) -> Iterator[Decoded]:
    with ThreadPoolExecutor(workers) as pool:
        under_way: deque[Future[Decoded]] = deque([pool.submit(work, first)])
        try:
            for block in rest:
                under_way.append(pool.submit(work, block))
                if len(under_way) >= 2 * workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def _workers(block: Encoded) -> int:
    sizes = [len(content) for content in block.content if content]
    if not sizes or sum(sizes) / len(sizes) < _TINY_BYTES:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _MAX_WORKERS))


def _square(width: int, height: int) -> tuple[int, int, int, int]:
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side
