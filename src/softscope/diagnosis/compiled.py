"""Compiled AUROC of resampled inputs. Import only where needed: numba takes half a second."""

from typing import Any

import numpy as np

from ..compiling import compiled


@compiled()
def resampled_aurocs(low: Any, high: Any, first: Any, last: Any, weights_low: Any, weights_high: Any) -> Any:
    """AUROC under each row of weights; NaN where a side has no weight.

    `low` are the columns of the low side's weights by ascending score, `high` those of the high side's; of `low`,
    first_j are smaller than the j-th of `high` and last_j smaller or equal. With C the running sums of the low side's
    weights and v the high side's it is sum_j v_j (C[first_j] + C[last_j]) / (2 C[end] sum_j v_j).
    """
    draws = weights_low.shape[0]
    out = np.empty(draws)
    running = np.zeros(low.size + 1, np.int64)
    for draw in range(draws):
        for place in range(low.size):
            running[place + 1] = running[place] + weights_low[draw, low[place]]
        total, wins = np.int64(0), np.int64(0)
        for row in range(high.size):
            weight = np.int64(weights_high[draw, high[row]])
            total += weight
            wins += weight * (running[first[row]] + running[last[row]])
        whole = 2.0 * running[low.size] * total
        out[draw] = wins / whole if whole > 0 else np.nan
    return out
