"""How much finds look like the training data, measured: templates, nearest training digits, and a permutation test.

Only the 64 pixels that reach the output count. The test asks whether finds match the class that the network gives them
better than they match classes dealt out at random: T = mean_i M[i, class_i], against T under permutations of the
classes among the finds; p = (1 + number of T_permuted >= T) / (1 + permutations).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from .inputs import Words


@dataclass(frozen=True)
class Match:
    """`own`: the finds' mean match with their own class; `dealt`: with classes dealt out at random; and the p-value."""

    own: float
    dealt: float
    p_value: float


def template_correlations(bits: NDArray[np.uint8], known: NDArray[np.uint8], labels: NDArray, classes: int) -> Floats:
    """Pearson correlation of each input with the mean training image of each class [N, K], over the 8x8 pixels."""
    images = _centred(bits[:, :8, :8].reshape(len(bits), -1).astype(np.float64))
    means = np.stack([known[labels == k][:, :8, :8].mean(axis=0).ravel() for k in range(classes)])
    return np.asarray(images @ _centred(means).T)


def nearest_distances(words: Words, known: Words, labels: NDArray, classes: int) -> NDArray[np.int64]:
    """Pixels by which each input differs from the nearest training image of each class [N, K]."""
    found = np.empty((len(words), classes), dtype=np.int64)
    for k in range(classes):
        own = np.unique(known[labels == k])
        for i, word in enumerate(words):
            found[i, k] = np.bitwise_count(own ^ word).min()
    return found


def permutation_test(match: Floats, wanted: NDArray[np.int64], permutations: int, seed: int) -> Match:
    """The test at the top of this file, on `match` [N, K] where larger means more alike."""
    rows = np.arange(len(match))
    own = match[rows, wanted].mean()
    generator = np.random.default_rng(seed)
    dealt = np.array([match[rows, generator.permutation(wanted)].mean() for _ in range(permutations)])
    # Equal up to rounding counts as reached: sums of the same numbers in another order.
    reached = int((dealt >= own - 1e-12).sum())
    return Match(float(own), float(dealt.mean()), (1 + reached) / (1 + permutations))


def _centred(rows: Floats) -> Floats:
    """Rows with mean 0 and norm 1; a constant row stays 0."""
    moved = rows - rows.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(moved, axis=1, keepdims=True)
    return np.asarray(np.divide(moved, norm, out=np.zeros_like(moved), where=norm > 0))
