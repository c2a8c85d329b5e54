"""A smarter search than drawing: climb from an input by flipping bits for as long as its log-odds rise.

A step takes the best of all inputs that differ in one or two of the 64 bits (2080 of them); at the end no such flip
helps. Deterministic; what it finds is a lower bound of the largest confidence there is.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...engine.threads import limited_threads
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
