"""References that keep training rows: k-nearest neighbours and NNGuide, block by block at the speed of the product."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .base import Block, Estimator, Info, LogitReader, register, unit_rows
from .softmax import energy

QUERY_ROWS = 512
TRAIN_ROWS = 2048
# Neighbours beyond the k-th that are measured again in float64, because float32 may have ranked them too far.
SPARE = 8
# Training rows that may break NNGuide's assumption before it refuses.
UNSURE_SHARE = 0.01


@register
@dataclass(kw_only=True, eq=False, repr=False)
class NearestNeighbours(Estimator):
    """Euclidean distance between z / norm(z) and its k-th nearest neighbour among the training rows, so normalised.

    k = 50 is the paper's for CIFAR-10 (200 for CIFAR-100, 1000 for ImageNet), among all training rows. At most
    `max_rows` of them are kept, drawn by `seed` where there are more (the paper draws 1 to 100 % of ImageNet's); k is
    then scaled by the share that is kept, so that the neighbour asked for is about as far away as the k-th of all.
    `k_` is the one used. An all-zero z stays 0, at distance 1 from every direction. Without `normalise` distances are
    those of z itself. OpenOOD squares the distance, adds 1e-10 to each entry of the directions (less than float32
    can tell) and chooses k on OOD data; pytorch-ood takes k = 1 and z itself.
    """

    info = Info(
        "R3", "knn", "U_knn", "norm(z/norm(z) - n_k), n_k the k-th nearest training row", ("train",), "Sun et al. 2022"
    )

    k: int = 50
    normalise: bool = True
    max_rows: int = 10_000
    seed: int = 0
    k_: int = field(init=False)
    rows_: int = field(init=False)

    def _check(self, head: Head) -> None:
        if self.k < 1:
            raise SoftscopeError(f"knn: k is {self.k}", "Give at least 1, the paper uses 50")

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        kept = kept_rows(train, self.max_rows, self.seed)
        self._take(self._prepared(kept), max(1, round(self.k * len(kept) / len(train))))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        out = np.empty(len(rows))
        for span in spans(len(rows), QUERY_ROWS):
            queries = self._prepared(rows[span])
            out[span] = self._distances(queries, self._candidates(queries))
        return out

    def _prepared(self, rows: NDArray) -> NDArray:
        return unit_rows(rows) if self.normalise else rows

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
        return _largest_products(queries, self._train, min(self.k_ + SPARE, self.rows_), self._half_norms2)[1]

    def _distances(self, queries: NDArray, candidates: NDArray[np.int64]) -> Floats:
        """Distance of each query to the k-th nearest of its candidates, in float64."""
        from .compiled import square_distances

        squares = np.empty(candidates.shape)
        square_distances(self._train, queries, candidates, squares)
        return np.sqrt(np.partition(squares, self.k_ - 1, axis=1)[:, self.k_ - 1])


@register
@dataclass(kw_only=True, eq=False, repr=False)
class NNGuide(LogitReader):
    """Minus the energy's confidence, guided by the k training rows that z resembles most and are themselves confident.

    The guidance is the mean of the k largest cosines to training rows, each times that row's own confidence
    c = log sum_i exp(l_i). k = 10 is the authors'. Their public code draws 1 % of ImageNet's training rows,
    about 12,800; here all count, at most `max_rows`, drawn by `seed` where there are more. OpenOOD takes k = 100 of
    1 % of the rows, and adds 1e-10 to each entry of the directions, which is left out here.
    """

    info = Info(
        "R8",
        "nnguide",
        "U_nnguide",
        "-c(z) mean of the k largest n'n_m c(z_m), n = z/norm(z), c(z) = log sum_i exp(l_i)",
        ("head", "train"),
        "Park, Jung, Teoh 2023",
        "c > 0 (checked on training rows): where it changes its sign the product loses its meaning",
    )

    k: int = 10
    max_rows: int = 100_000
    seed: int = 0
    k_: int = field(init=False)
    rows_: int = field(init=False)

    def _check(self, head: Head) -> None:
        if self.k < 1:
            raise SoftscopeError(f"nnguide: k is {self.k}", "Give at least 1, the authors use 10")

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        rows = kept_rows(train, self.max_rows, self.seed)
        bank = np.empty(rows.shape, np.float32)
        unsure = 0
        for span in spans(len(rows), self._chunk()):
            confidence = -energy(head.logits(rows[span]))
            unsure += int((confidence <= 0).sum())
            bank[span] = unit_rows(rows[span]) * confidence[:, None]
        if unsure > UNSURE_SHARE * len(rows):
            raise SoftscopeError(
                f"nnguide assumes log sum exp(logits) > 0, which {unsure} of {len(rows)} training rows don't have",
                "Use a score without this assumption, such as knn or mahalanobis++",
            )
        self._take(bank)

    def _from_block(self, block: Block) -> NDArray:
        guidance = np.empty(len(block.rows))
        for span in spans(len(guidance), QUERY_ROWS):
            largest = _largest_products(unit_rows(block.rows[span]), self._bank, self.k_)[0]
            guidance[span] = largest.mean(axis=1, dtype=np.float64)
        return energy(block.logits) * guidance

    def state(self) -> dict[str, NDArray]:
        return {"bank": self._bank}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._take(state["bank"])

    def _take(self, bank: NDArray) -> None:
        self._bank, self.rows_, self.k_ = bank, len(bank), min(self.k, len(bank))


def _largest_products(
    queries: NDArray, rows: NDArray, size: int, offsets: NDArray | None = None
) -> tuple[NDArray, NDArray[np.int64]]:
    """The `size` largest x . c - offset over `rows` of each query, float32, and where they are; a GEMM per block."""
    from .compiled import push_rows

    narrow = queries.astype(np.float32, copy=False)
    values = np.full((len(narrow), size), -np.inf, np.float32)
    indices = np.zeros((len(narrow), size), np.int64)
    for span in spans(len(rows), TRAIN_ROWS):
        products = narrow @ rows[span].astype(np.float32, copy=False).T
        if offsets is not None:
            products -= offsets[span]
        push_rows(products, span.start, values, indices)
    return values, indices


def kept_rows(train: FeatureSet, most: int, seed: int) -> NDArray:
    """The rows of `train` in memory; in order, `most` of them drawn by `seed` without replacement where it has more."""
    if most < 1:
        raise SoftscopeError(f"max_rows is {most}", "Give at least 1")
    if len(train) <= most:
        return train.array()
    drawn = np.random.default_rng(seed).choice(len(train), most, replace=False, shuffle=False)
    return train.rows(np.sort(drawn))
