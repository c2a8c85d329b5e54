"""Small pure functions on uint8 images [N, H, W, C] and their labels: what the paper does to its data sets."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels
from ..errors import SoftscopeError

Images = NDArray[np.uint8]
RowNumbers = NDArray[np.int64]

# ITU-R 601 luma in 16-bit fixed point, as image libraries compute it.
_LUMA = np.array([19595, 38470, 7471], dtype=np.uint32)


def select_classes(labels: NDArray, classes: Sequence[int]) -> tuple[RowNumbers, RowNumbers]:
    """Rows whose label is in `classes`, in order, and their new labels: the position of the old one in `classes`."""
    known = as_labels(labels, "labels")
    chosen = [int(c) for c in classes]
    if not chosen or len(set(chosen)) != len(chosen):
        raise SoftscopeError(f"classes {chosen}: expected one or more different classes", "Name each class once")
    rows = np.flatnonzero(np.isin(known, chosen)).astype(np.int64)
    missing = sorted(set(chosen) - set(known[rows].tolist()))
    if missing:
        raise SoftscopeError(f"classes {chosen}: no rows of class {missing[0]}", "Choose classes that are in the data")
    position = np.zeros(max(chosen) + 1, dtype=np.int64)
    position[chosen] = np.arange(len(chosen))
    return rows, position[known[rows]]


def balanced_rows(labels: NDArray, count: int, *, seed: int = 0) -> RowNumbers:
    """`count` rows, ascending, as evenly over the classes as their sizes allow; the same seed gives the same rows.

    A class with too few rows gives all it has and the others share the rest; what doesn't divide goes to the
    lowest classes.
    """
    known = as_labels(labels, "labels")
    if not 0 < count <= len(known):
        raise SoftscopeError(f"{count} rows asked of {len(known)}", f"Ask for 1 to {len(known)}")
    random = np.random.default_rng(seed)
    present, sizes = np.unique(known, return_counts=True)
    quota = _even_shares(sizes, count)
    drawn = [random.permutation(np.flatnonzero(known == c))[:n] for c, n in zip(present, quota)]
    return np.sort(np.concatenate(drawn)).astype(np.int64)


def as_rgb(images: Images) -> Images:
    """Grey images [N, H, W, 1] with the one channel three times; RGB images as they are."""
    checked = _checked(images)
    return checked if checked.shape[3] == 3 else np.repeat(checked, 3, axis=3)


def greyscale(images: Images) -> Images:
    """Luma 0.299 R + 0.587 G + 0.114 B, rounded, as [N, H, W, 1]; grey images as they are."""
    checked = _checked(images)
    if checked.shape[3] == 1:
        return checked
    grey = np.empty((*checked.shape[:3], 1), dtype=np.uint8)
    for row, image in enumerate(checked):
        grey[row, :, :, 0] = (image @ _LUMA + 0x8000) >> 16
    return grey


def to_rgb32(images: Images) -> Images:
    """28x28 grey to 32x32 RGB, the format in which the paper makes its five data sets exchangeable (X9).

    The paper doesn't say how: here two black pixels are added on each side, so that every original pixel is kept as
    it is, and the channel is repeated. 32x32 images only have their channels made three.
    """
    checked = _checked(images)
    if checked.shape[1:3] == (28, 28):
        checked = np.pad(checked, ((0, 0), (2, 2), (2, 2), (0, 0)))
    if checked.shape[1:3] != (32, 32):
        raise SoftscopeError(
            f"images are {checked.shape[1]}x{checked.shape[2]}, expected 28x28 or 32x32", "Load them with size=32"
        )
    return as_rgb(checked)


def binarise9(images: Images, *, threshold: float = 0.3) -> Images:
    """Grey images downsampled to 9x9 and binarised to 0 and 1 (X6), as uint8 [N, 9, 9, 1].

    Each of the 81 pixels is the mean of the area it covers (28/9 pixels a side, borders weighted by their share);
    it is 1 where the mean is at least `threshold` times 255. The paper says downsampled and binarised, not how; at 0.5
    strokes thinner than a pixel break up, at 0.3 the digits stay legible, which is the paper's own criterion for 9x9.
    """
    grey = greyscale(images)[..., 0]
    down, across = _area_weights(grey.shape[1], 9), _area_weights(grey.shape[2], 9)
    small = np.empty((len(grey), 9, 9, 1), dtype=np.uint8)
    for start in range(0, len(grey), 4096):
        block = grey[start : start + 4096].astype(np.float64)
        # Means of whole numbers reach a threshold exactly: the margin keeps rounding from deciding them.
        small[start : start + 4096, :, :, 0] = down @ block @ across.T >= threshold * 255 - 1e-9
    return small


def _even_shares(sizes: NDArray, count: int) -> NDArray:
    """How many of each class make `count` in all, no class above its size, as even as possible."""
    quota = np.zeros_like(sizes)
    while (left := count - int(quota.sum())) > 0:
        open_ = np.flatnonzero(quota < sizes)
        share = max(1, left // len(open_))
        for c in open_[:left]:
            quota[c] += min(share, sizes[c] - quota[c])
    return quota


def _area_weights(length: int, target: int) -> NDArray[np.float64]:
    """[target, length] matrix whose row i averages the pixels i*length/target .. (i+1)*length/target."""
    edges = np.arange(target + 1) * (length / target)
    pixel = np.arange(length)
    overlap = np.minimum(edges[1:, None], pixel + 1.0) - np.maximum(edges[:-1, None], pixel)
    weights: NDArray[np.float64] = np.clip(overlap, 0.0, None) * (target / length)
    return weights


def _checked(images: Images) -> Images:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise SoftscopeError(
            f"images: expected uint8 [N, H, W, 1 or 3], found {images.dtype} {list(images.shape)}",
            "Load them with softscope.paper.datasets.load",
        )
    return images


def fit_images(images: Images, shape: tuple[int | None, ...]) -> Images:
    """Images in the channels a network takes: grey, RGB (28 x 28 padded to 32 x 32, X9) or 9x9 bits (X6)."""
    if shape == (9, 9, 1):
        return binarise9(images)
    if shape[-1] != 3:
        return greyscale(images)
    if images.shape[1:3] == (28, 28) and shape[0] in (None, 32):
        return to_rgb32(images)
    return as_rgb(images)
