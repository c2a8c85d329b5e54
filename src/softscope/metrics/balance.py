"""Equal numbers of familiar and unfamiliar rows, as the paper takes them for every AUROC (X9)."""

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError


def balanced(familiar: int, unfamiliar: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows to keep of `familiar` and of `unfamiliar` rows: all of the smaller side, as many of the larger one.

    Takes counts, not scores, so that every estimator is judged on the same rows. Drawn without replacement; ascending.
    """
    for rows, side in ((familiar, "familiar"), (unfamiliar, "unfamiliar")):
        if rows < 1:
            raise SoftscopeError(f"the {side} side has {rows} rows", "Give at least one row on each side")
    size = min(familiar, unfamiliar)
    generator = np.random.default_rng(seed)

    def keep(rows: int) -> NDArray[np.int64]:
        drawn = np.arange(rows) if rows == size else generator.choice(rows, size, replace=False, shuffle=False)
        return np.sort(drawn).astype(np.int64)

    return keep(familiar), keep(unfamiliar)
