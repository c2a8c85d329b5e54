"""What becomes of finds: climbing on from them, and how much they look like the training data, measured.

A climb flips bits for as long as the log-odds rise: a step takes the best of all inputs that differ in one or two of
the 64 bits (2080 of them). Deterministic; what it reaches is a lower bound of the largest confidence there is.

The permutation test asks whether finds match the class that the network gives them better than they match classes
dealt out at random: T = mean_i M[i, class_i], against T under permutations of the classes among the finds;
p = (1 + number of T_permuted >= T) / (1 + permutations). Only the 64 pixels that reach the output count.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...engine import limited_threads
from .inputs import Words
from .networks import Folded

_SINGLE = [1 << i for i in range(64)]
FLIPS: Words = np.array([0, *_SINGLE, *(a | b for a, b in combinations(_SINGLE, 2))], dtype=np.uint64)


@dataclass(frozen=True)
class Climbed:
    """Where each start led: `words`, their `odds` for the wanted class, and how many `steps` it took."""

    words: Words
    odds: Floats
    steps: NDArray[np.int64]


def climb(network: Folded, starts: Words, wanted: NDArray[np.int64]) -> Climbed:
    """Climb from each of `starts` towards class `wanted`, to where no flip of one or two bits raises the log-odds."""
    ends = np.array(starts, dtype=np.uint64)
    odds, steps = np.empty(len(ends)), np.zeros(len(ends), dtype=np.int64)
    with limited_threads(1):  # products of this size are slower on many threads
        for i, k in enumerate(wanted):
            ends[i], odds[i], steps[i] = _climb(network, ends[i], int(k))
    return Climbed(ends, odds, steps)


def _climb(network: Folded, word: np.uint64, k: int) -> tuple[np.uint64, float, int]:
    steps = 0
    while True:
        around = word ^ FLIPS
        heights = class_log_odds(network.evaluate_words(around)[0], k)
        best = int(heights.argmax())
        if heights[best] <= heights[0]:
            return word, float(heights[0]), steps
        word = around[best]
        steps += 1


def class_log_odds(logits: NDArray, k: int) -> Floats:
    """log(p_k / (1 - p_k)) = l_k - log sum_(j != k) exp(l_j), in float64."""
    others = np.delete(logits.astype(np.float64), k, axis=1)
    first = others.max(axis=1)
    rest = np.exp(np.maximum(others - first[:, None], -80.0)).sum(axis=1)
    return np.asarray(logits[:, k].astype(np.float64) - first - np.log(rest))


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
    distances = np.empty((len(words), classes), dtype=np.int64)
    for k in range(classes):
        own = np.unique(known[labels == k])
        for i, word in enumerate(words):
            distances[i, k] = np.bitwise_count(own ^ word).min()
    return distances


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
