"""Many logit-based scores from one product z W': the logits of a block of rows are made once and read from cache.

No N x K array exists at any time, whatever N is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from .base import each_chunk
from .softmax import PLAIN, RANK, check_temperature

BLOCK_ROWS = 256


def scores(
    head: Head,
    z: Any,
    names: Sequence[str] = ("max", "entropy", "cool", "energy", "max-logit"),
    *,
    plain: bool = False,
    temperature: float = 10.0,
) -> dict[str, NDArray]:
    """Scores of the rows of `z` by name, float64 [N] each; with `plain` the paper's float32 values instead."""
    table = PLAIN if plain else RANK
    for name in names:
        if name not in table:
            raise SoftscopeError(f"no score of the logits is called {name!r}", f"Choose from {', '.join(table)}")
    check_temperature(temperature)
    features = z if isinstance(z, FeatureSet) else FeatureSet(z, name="z")
    out = {name: np.empty(len(features), np.float32 if plain else np.float64) for name in names}
    for span, rows in each_chunk(features, BLOCK_ROWS):
        logits = head.logits(rows)
        if plain:
            logits = logits.astype(np.float32, copy=False)
        for name in names:
            out[name][span] = table[name](logits, temperature)
    return out
