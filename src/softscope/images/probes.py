"""Images that no classifier should know, made from images that it should: stand-ins where no OOD data is at hand."""

import hashlib
import io
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from .decoding import Encoded
from .sources import ImageSource

MOST_IMAGES = 500
_TILES = 4  # of a side of a shuffled image

Pixels = NDArray[np.uint8]


class ProbeImages(ImageSource):
    """One kind of PROBES, made from at most MOST_IMAGES images of `source`, each as large as its original."""

    def __init__(self, source: ImageSource, kind: str) -> None:
        self._source, self._change, self.name = source, PROBES[kind][1], kind
        self._rows = np.unique(np.linspace(0, len(source) - 1, min(MOST_IMAGES, len(source))).astype(np.int64))

    def __len__(self) -> int:
        return len(self._rows)

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        """The probes of the ascending `rows`; an image that can't be read stays as it is, and is found bad."""
        numbers = iter(rows.tolist())
        for block in self._source.blocks(self._rows[rows]):
            yield Encoded([self._changed(content, next(numbers)) for content in block.content], block.names)

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.name} {len(self)} {self._source.fingerprint()}".encode()).hexdigest()

    def _changed(self, content: bytes | Pixels | None, row: int) -> bytes | Pixels | None:
        pixels = _pixels(content)
        return content if pixels is None else self._change(pixels, np.random.default_rng([row, len(self.name)]))


def probe_images(source: ImageSource) -> dict[str, ImageSource]:
    """Every kind of PROBES, made from the images of `source`."""
    return {kind: ProbeImages(source, kind) for kind in PROBES}


def _pixels(content: bytes | Pixels | None) -> Pixels | None:
    """[H, W] or [H, W, 3]."""
    from PIL import Image

    if content is None:
        return None
    if isinstance(content, np.ndarray):
        return content[..., 0] if content.ndim == 3 and content.shape[2] == 1 else content
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "I;16") else "RGB"))
    except (OSError, ValueError, SyntaxError):
        return None


def _noise(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    return rng.integers(0, 256, pixels.shape, np.uint8)


def _shuffled(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    high, wide = (max(1, side // _TILES) for side in pixels.shape[:2])
    corners = [(top, left) for top in range(_TILES) for left in range(_TILES)]
    out = pixels.copy()
    for (top, left), (old_top, old_left) in zip(corners, rng.permutation(corners).tolist()):
        tile = pixels[old_top * high : (old_top + 1) * high, old_left * wide : (old_left + 1) * wide]
        out[top * high : top * high + len(tile), left * wide : left * wide + tile.shape[1]] = tile
    return out


def _inverted(pixels: Pixels, _: np.random.Generator) -> Pixels:
    return 255 - pixels


def _blurred(pixels: Pixels, _: np.random.Generator) -> Pixels:
    from scipy.ndimage import gaussian_filter

    side = max(pixels.shape[:2]) / 8
    return np.asarray(gaussian_filter(pixels, (side, side) + (0,) * (pixels.ndim - 2)), np.uint8)


def _photograph(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photograph = load_sample_images().images[int(rng.integers(2))]
    side = int(rng.integers(100, min(photograph.shape[:2])))
    top, left = (int(rng.integers(0, length - side + 1)) for length in photograph.shape[:2])
    part = Image.fromarray(photograph[top : top + side, left : left + side])
    part = part.convert("L") if pixels.ndim == 2 else part
    return np.asarray(part.resize((pixels.shape[1], pixels.shape[0]), Image.Resampling.BILINEAR))


#: Name of a kind of probes -> what it is, and how it is made from an image.
PROBES: dict[str, tuple[str, Callable[[Pixels, np.random.Generator], Pixels]]] = {
    "noise": ("random pixels", _noise),
    "shuffled": ("test images cut into 16 tiles, the tiles shuffled", _shuffled),
    "inverted": ("test images as negatives", _inverted),
    "blurred": ("test images blurred until no detail is left", _blurred),
    "photographs": ("parts of two photographs that come with scikit-learn", _photograph),
}
