"""Counter-based inputs: input number n is a function of (seed, n) alone, so any part of a scan can be made again.

An input of P pixels is ceil(P / 64) words of 64 fair bits: word j of input n is mix(n * G + key(seed, j)), where mix is
the finaliser of SplitMix64 (Steele, Lea, Flood 2014), G its odd constant, and key(seed, j) two rounds of mix. For a
given seed and j the map n -> word is a bijection of the 2^64 words: no two inputs of a scan share their first word.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SoftscopeError

Words = NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ALL = (1 << 64) - 1


def key(seed: int, word: int) -> int:
    """The 64-bit key of word `word` of all inputs of `seed`."""
    if not 0 <= seed <= _ALL:
        raise SoftscopeError(f"seed: {seed}", "Give a whole number from 0 to 2^64 - 1")
    return _mix((_mix((seed + GOLDEN) & _ALL) + (word + 1) * GOLDEN) & _ALL)


def words(seed: int, numbers: Any, word: int = 0) -> Words:
    """Word `word` of the inputs `numbers` (one or many)."""
    x = np.atleast_1d(np.asarray(numbers, dtype=np.uint64)) * np.uint64(GOLDEN) + np.uint64(key(seed, word))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    mixed: Words = x ^ (x >> np.uint64(31))
    return mixed


def images(seed: int, numbers: Any, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """The inputs `numbers` (one or many, of any shape) as bits [..., height, width]."""
    height, width = shape
    known = np.atleast_1d(np.asarray(numbers, dtype=np.uint64))
    every = np.stack([words(seed, known.ravel(), j) for j in range(-(-height * width // 64))], axis=1)
    bits = np.unpackbits(every.astype("<u8", copy=False).view(np.uint8), axis=1, bitorder="little")
    image = np.empty((known.size, height * width), dtype=np.uint8)
    image[:, pixel_order(shape)] = bits[:, : height * width]
    return image.reshape(*known.shape, height, width)


def pixel_order(shape: tuple[int, int]) -> NDArray[np.int64]:
    """Which pixel each bit is: row by row, but of 9x9 the upper left 8x8 first, since only these reach the output."""
    places = np.arange(shape[0] * shape[1]).reshape(shape)
    if shape != (9, 9):
        return places.ravel()
    return np.concatenate([places[:8, :8].ravel(), places[:8, 8], places[8]])


def pack(images: Any) -> Words:
    """The upper left 8x8 pixels of bits [N, height, width] as one word each: pixel (r, c) is bit 8 r + c."""
    corner = np.asarray(images, dtype=np.uint8)[:, :8, :8].reshape(-1, 64)
    packed: Words = np.packbits(corner, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64, copy=False)
    return packed


def unpack(words: Words) -> NDArray[np.uint8]:
    """The 8x8 bits of each word: the inverse of `pack`."""
    flat = np.unpackbits(np.asarray(words).astype("<u8").view(np.uint8), bitorder="little")
    return flat.reshape(-1, 8, 8)


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * _FIRST) & _ALL
    x = ((x ^ (x >> 27)) * _SECOND) & _ALL
    return x ^ (x >> 31)
