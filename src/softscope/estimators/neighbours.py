"""k-nearest neighbours (reference): the distance on the unit sphere to the k-th nearest training row."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, chunk_rows, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from .base import Estimator, Info, register

QUERY_ROWS = 512
TRAIN_ROWS = 2048
# Neighbours beyond the k-th that are measured again in float64, because float32 may have ranked them too far.
SPARE = 8


@register
class NearestNeighbours(Estimator):
    """Euclidean distance between z / norm(z) and its k-th nearest neighbour among the training rows, so normalised.

    k = 50 is the paper's for CIFAR-10 (200 for CIFAR-100, 1000 for ImageNet), among all training rows. At most
    `max_rows` of them are kept, drawn by `seed` where there are more (the paper draws 1 to 100 % of ImageNet's); k is
    then scaled by the share that is kept, so that the neighbour asked for is about as far away as the k-th of all.
    `k_` is the one used. An all-zero z stays 0, at distance 1 from every direction.
    """

    info = Info(
        "R3", "knn", "U_knn", "norm(z/norm(z) - n_k), n_k the k-th nearest training row", ("train",), "Sun et al. 2022"
    )

    k_: int
    rows_: int

    def __init__(self, *, k: int = 50, max_rows: int = 10_000, seed: int = 0) -> None:
        self.k = k
        self.max_rows = max_rows
        self.seed = seed

    def _fit(self, head: Head, train: FeatureSet) -> None:
        if self.k < 1:
            raise SoftscopeError(f"knn: k is {self.k}", "Give at least 1, the paper uses 50")
        kept = kept_rows(train, self.max_rows, self.seed)
        self._take(_unit(kept), max(1, round(self.k * len(kept) / len(train))))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        out = np.empty(len(rows))
        for span in spans(len(rows), QUERY_ROWS):
            queries = _unit(rows[span])
            out[span] = self._distances(queries, self._candidates(queries))
        return out

    def state(self) -> dict[str, NDArray]:
        return {"train": self._train, "k": np.array([self.k_])}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._take(state["train"], int(state["k"][0]) if "k" in state else self.k)

    def _take(self, unit_rows: NDArray, k: int) -> None:
        self._train = unit_rows
        self.rows_ = len(unit_rows)
        self.k_ = min(k, self.rows_)
        self._half_norms2 = np.einsum("ij,ij->i", unit_rows, unit_rows).astype(np.float32) / 2

    def _candidates(self, queries: NDArray) -> NDArray[np.int64]:
        """The k + SPARE training rows nearest to each query, by x . c - norm(c)^2 / 2 in float32."""
        from .heap import push_rows

        narrow = queries.astype(np.float32)
        size = min(self.k_ + SPARE, self.rows_)
        values = np.full((len(narrow), size), -np.inf, np.float32)
        indices = np.zeros((len(narrow), size), np.int64)
        for span in spans(self.rows_, TRAIN_ROWS):
            closeness = narrow @ self._train[span].astype(np.float32, copy=False).T
            closeness -= self._half_norms2[span]
            push_rows(closeness, span.start, values, indices)
        return indices

    def _distances(self, queries: NDArray, candidates: NDArray[np.int64]) -> Floats:
        """Distance of each query to the k-th nearest of its candidates, in float64."""
        out = np.empty(len(queries))
        for span in spans(len(queries), chunk_rows(candidates.shape[1] * queries.shape[1])):
            steps = self._train[candidates[span]].astype(np.float64) - queries[span, None]
            distances2 = np.einsum("qkh,qkh->qk", steps, steps)
            out[span] = np.sqrt(np.partition(distances2, self.k_ - 1, axis=1)[:, self.k_ - 1])
        return out


def kept_rows(train: FeatureSet, most: int, seed: int) -> NDArray:
    """The rows of `train` in memory; in order, `most` of them drawn by `seed` without replacement where it has more."""
    if most < 1:
        raise SoftscopeError(f"max_rows is {most}", "Give at least 1")
    if len(train) <= most:
        return train.array()
    drawn = np.random.default_rng(seed).choice(len(train), most, replace=False, shuffle=False)
    return train.rows(np.sort(drawn))


def _unit(rows: NDArray) -> NDArray:
    """Rows scaled to norm 1, in their own dtype; rows of zeros stay zeros."""
    out = np.empty_like(rows, order="C")
    for span in spans(len(rows), chunk_rows(rows.shape[1])):
        wide = rows[span].astype(np.float64)
        # Dividing by the largest entry first keeps squares of tiny and huge features from under- and overflowing.
        wide /= _nonzero(np.abs(wide).max(axis=1, keepdims=True))
        out[span] = wide / _nonzero(np.linalg.norm(wide, axis=1, keepdims=True))
    return out


def _nonzero(sizes: Floats) -> Floats:
    return np.where(sizes > 0, sizes, 1.0)
