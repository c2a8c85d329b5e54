"""References built on the geometry of trained classes about the training mean: fDBD, NCI, SHE."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .base import Block, Info, LogitReader, each_chunk, register


class _AboutTheMean(LogitReader):
    """What reads z about the training mean mu."""

    _mean: Floats

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        self._mean = training_mean(train) if moments is None else moments.mean

    def state(self) -> dict[str, NDArray]:
        return {"mean": self._mean}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._mean = state["mean"]

    def _distances(self, block: Block) -> Floats:
        """norm(z - mu), at least the smallest positive number: at mu itself nothing is divided by 0."""
        return np.maximum(block.distances(self._mean), np.finfo(np.float64).tiny)


@register
class FDBD(_AboutTheMean):
    """Minus the mean distance to the decision boundaries of the predicted class c, relative to the distance from mu.

    The regulariser is the paper's, norm(z - mu); OpenOOD chooses between it and norm(z) on OOD data. Classes with the
    same weight as c have no boundary with it and don't count.
    """

    info = Info(
        "R10",
        "fdbd",
        "U_fdbd",
        "-mean_{k != c} ((l_c - l_k) / norm(w_c - w_k)) / norm(z - mu), c the predicted class, mu the training mean",
        ("head", "train"),
        "Liu, Qin 2024",
    )

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        super()._fit(head, train, moments)
        self._weights = boundary_weights(head)

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        super()._restore(state)
        self._weights = boundary_weights(self.head_)

    def _from_block(self, block: Block) -> NDArray:
        return np.asarray(block.room(self._weights) / self._distances(block))


@register
class NCI(_AboutTheMean):
    """Minus the alignment of z - mu with the predicted class's weight, and minus the size of z.

    `alpha` has no unit here: the two terms have the ratio `alpha` on average over training rows, where the authors
    choose a (in units of 1 / norm1(z)) on OOD data; `a_` is theirs.
    """

    info = Info(
        "R9",
        "nci",
        "U_nci",
        "-(w_c'(z - mu) / norm(z - mu) + a norm1(z)), c the predicted class, mu the training mean",
        ("head", "train"),
        "Liu, Qin 2025",
    )

    a_: float

    def __init__(self, *, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def _check(self, head: Head) -> None:
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise SoftscopeError(f"nci: alpha is {self.alpha}", "Give a number of at least 0, 1 by default")

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        super()._fit(head, train, moments)
        alignment = size = 0.0
        for _, rows in each_chunk(train, self._chunk()):
            block = Block(rows, head.logits(rows))
            alignment += float(self._alignment(block).sum())
            size += float(block.sizes.sum())
        self.a_ = self.alpha * abs(alignment) / size if size > 0 else 0.0

    def _from_block(self, block: Block) -> NDArray:
        return np.asarray(-self._alignment(block) - self.a_ * block.sizes)

    def _alignment(self, block: Block) -> Floats:
        """w_c'(z - mu) / norm(z - mu), from the logit l_c = w_c'z + b_c."""
        at_mean = self.head_.weight.astype(np.float64) @ self._mean + self.head_.bias
        return np.asarray((block.first - at_mean[block.predicted]) / self._distances(block))

    def state(self) -> dict[str, NDArray]:
        return super().state() | {"a": np.array([self.a_])}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        super()._restore(state)
        self.a_ = float(state["a"][0])


@register
class SHE(LogitReader):
    """Minus the inner product of z with the mean of the training rows of its predicted class that are classified right.

    The simplified Hopfield energy. A class without such a row takes the mean of all its rows.
    """

    info = Info(
        "R14",
        "she",
        "U_she",
        "-z'm_c, c the predicted class, m_c the mean of its correctly classified training rows",
        ("head", "train", "labels"),
        "Zhang et al. 2023",
    )

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        assert train.labels is not None
        sums = np.zeros((2, head.n_classes, head.n_features))
        counts = np.zeros((2, head.n_classes))
        for span, rows in each_chunk(train, self._chunk()):
            member = np.eye(head.n_classes)[train.labels[span]]
            right = member * (head.logits(rows).argmax(axis=1) == train.labels[span])[:, None]
            for side, chosen in enumerate((member, right)):
                sums[side] += chosen.T @ rows
                counts[side] += chosen.sum(axis=0)
        every, right = sums / np.maximum(counts, 1.0)[:, :, None]
        self._patterns = np.where(counts[1][:, None] > 0, right, every)

    def _from_block(self, block: Block) -> NDArray:
        return -block.inner(self._patterns)

    def state(self) -> dict[str, NDArray]:
        return {"patterns": self._patterns}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._patterns = state["patterns"]


def training_mean(train: FeatureSet) -> Floats:
    """Mean of the rows, float64 [H]."""
    total = sum((rows.sum(axis=0, dtype=np.float64) for rows in train.chunks()), np.zeros(train.n_features))
    return np.asarray(total / len(train))


def boundary_weights(head: Head) -> Floats:
    """[K, K]: 1 / norm(w_c - w_k) over the number of boundaries of c, 0 where there is none."""
    weight = head.weight.astype(np.float64)
    between = np.stack([np.linalg.norm(weight - one, axis=1) for one in weight])
    inverse = np.divide(1.0, between, out=np.zeros_like(between), where=between > 0)
    return np.asarray(inverse / np.maximum((between > 0).sum(axis=1), 1)[:, None])
