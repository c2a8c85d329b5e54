"""Where EM starts: a component for every row, from k-means or from rows drawn at random."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, placed
from ..errors import SoftscopeError
from .gaussian import Rows

_SAMPLE = 20_000


def start(rows: Rows, components: int, how: Literal["kmeans", "random"], seed: int) -> NDArray[np.int64]:
    """A component 0..components-1 for each row: the nearest of `components` centres.

    `kmeans` finds the centres by scikit-learn's k-means on at most 20,000 rows drawn by `seed`; `random` takes rows.
    """
    if not 1 <= components <= len(rows):
        raise SoftscopeError(
            f"{components} components for {len(rows)} rows", f"Ask for 1 to {len(rows)} components, or give more rows"
        )
    if components == 1:
        return np.zeros(len(rows), np.int64)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(rows), min(len(rows), max(_SAMPLE, components)), replace=False))
    sample = _take(rows, chosen)
    if how == "random":
        centres = sample[rng.choice(len(sample), components, replace=False)]
    else:
        centres = _k_means(sample, components, seed)
    return np.concatenate([_nearest(x, centres.astype(np.float64)) for x in rows.chunks()])


def _k_means(sample: NDArray, components: int, seed: int) -> NDArray:
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct rows than components: the empty ones are dropped later, and reported there.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres: NDArray = KMeans(components, n_init=1, random_state=seed).fit(sample).cluster_centers_
    return centres


def _nearest(x: NDArray, centres: Floats) -> NDArray[np.int64]:
    origin = centres.mean(axis=0)
    offsets = centres - origin
    closeness = 2.0 * (x - origin) @ offsets.T - np.einsum("kh,kh->k", offsets, offsets)
    return np.asarray(closeness.argmax(axis=1), np.int64)


def _take(rows: Rows, chosen: NDArray) -> NDArray:
    blocks = []
    for span, x in placed(rows.chunks()):
        inside = chosen[np.searchsorted(chosen, span.start) : np.searchsorted(chosen, span.stop)]
        blocks.append(x[inside - span.start])
    return np.concatenate(blocks)
