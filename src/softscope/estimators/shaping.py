"""References that reshape the features before the energy is read: ReAct, SCALE, ASH-S.

Their shares are the authors' defaults and have no unit, so that nothing is chosen on OOD data.
"""

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .base import Block, Estimator, Info, LogitReader, largest_entries, register, sum_ratio
from .softmax import energy

# More of the features' absolute sum below zero than this, and they don't come from a ReLU.
NEGATIVE_SHARE = 0.01
_RELU = "z >= 0, as after a ReLU (checked: at most 1 % of the absolute sum of the training features is below 0)"
_SAMPLE_ROWS = 10_000


@register
class ReAct(Estimator):
    """Energy of features that are cut off above q, the `quantile` of all training activations.

    0.9 is the authors'. The quantile is that of at most 10,000 rows, spread evenly over the training rows; OpenOOD's is
    of validation rows, and its share chosen on OOD data; pytorch-ood cuts off at 1, whatever the features.
    """

    info = Info(
        "R11",
        "react",
        "U_react",
        "-log sum_i exp(w_i'min(z, q) + b_i)",
        ("head", "train"),
        "Sun et al. 2021",
        "q > 0 (checked): where fewer activations are above 0 than are to be cut, nothing would be left of z",
    )
    fitted_numbers = ("cut",)

    cut_: float

    def __init__(self, *, quantile: float = 0.9) -> None:
        self.quantile = quantile

    def _check(self, head: Head) -> None:
        _check_share(self.quantile, "react: quantile", 0.9)

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        spread = np.linspace(0, len(train) - 1, min(len(train), _SAMPLE_ROWS)).round().astype(np.int64)
        self.cut_ = float(np.quantile(train.rows(spread), self.quantile))
        if self.cut_ <= 0:
            raise SoftscopeError(
                f"react: the {self.quantile} quantile of the activations of {train.name} is {self.cut_:.2g}, so that "
                "nothing above 0 would be left of them",
                "Give a larger quantile, or use a score without this assumption, such as energy",
            )

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return energy(self.head_.logits(np.minimum(rows, rows.dtype.type(self.cut_))))


@register
class Scale(LogitReader):
    """Energy of features that are scaled by exp(r), r = sum of z / sum of the largest entries of z.

    The largest are all but the share `percentile` of them, 0.85 by the authors; OpenOOD chooses it on OOD data. Scaling
    z scales its product with W, so the logits at hand are enough. A row without positive entries is not scaled.
    """

    info = Info(
        "R12",
        "scale",
        "U_scale",
        "-log sum_i exp(e^r w_i'z + b_i), r = sum_j z_j / sum of the largest z_j",
        ("head", "train"),
        "Xu et al. 2024",
        _RELU,
    )

    def __init__(self, *, percentile: float = 0.85) -> None:
        self.percentile = percentile

    def _check(self, head: Head) -> None:
        _check_share(self.percentile, "scale: percentile", 0.85)

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        check_not_negative(train, self.info.name)

    def _from_block(self, block: Block) -> NDArray:
        ratio = block.sum_ratio(largest_count(block.rows.shape[1], self.percentile))
        return block.scaled_energy(np.exp(ratio), self.head_.bias.astype(np.float64))


@register
class AshS(Estimator):
    """Energy of features whose small entries are set to 0 and whose rest is scaled by exp(r), r as in `Scale`.

    `percentile` is the share that is set to 0, 0.9 by the authors; ties with the smallest kept entry are kept, of which
    theirs keeps some. OpenOOD's score `ash` is another of theirs, ASH-B, which gives all kept entries one size;
    pytorch-ood's share is 0.65.
    """

    info = Info(
        "R13",
        "ash-s",
        "U_ash",
        "-log sum_i exp(e^r w_i'z' + b_i), z' the largest z_j, else 0, r = sum_j z_j / sum_j z'_j",
        ("head", "train"),
        "Djurisic et al. 2023",
        _RELU,
    )

    def __init__(self, *, percentile: float = 0.9) -> None:
        self.percentile = percentile

    def _check(self, head: Head) -> None:
        _check_share(self.percentile, "ash-s: percentile", 0.9)

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        check_not_negative(train, self.info.name)

    def _uncertainty(self, rows: NDArray) -> NDArray:
        largest = largest_entries(rows, largest_count(rows.shape[1], self.percentile))
        kept = np.where(rows >= largest.min(axis=1, keepdims=True), rows, rows.dtype.type(0))
        bias = self.head_.bias.astype(np.float64)
        return energy((self.head_.logits(kept) - bias) * np.exp(sum_ratio(rows, kept))[:, None] + bias)


def check_not_negative(train: FeatureSet, name: str) -> None:
    """Raise where the training features can't come from a ReLU."""
    below = whole = 0.0
    for rows in train.chunks():
        below -= float(np.minimum(rows, 0).sum(dtype=np.float64))
        whole += float(np.abs(rows).sum(dtype=np.float64))
    if below > NEGATIVE_SHARE * whole:
        raise SoftscopeError(
            f"{name} assumes features that are not negative, {below / whole:.0%} of {train.name} lies below 0",
            "Use a score without this assumption, such as knn or mahalanobis++",
        )


def _check_share(share: float, name: str, default: float) -> None:
    if not 0 < share < 1:
        raise SoftscopeError(f"{name} is {share}", f"Give a share between 0 and 1, the authors use {default}")


def largest_count(width: int, percentile: float) -> int:
    """How many of `width` entries are left above the share `percentile`, at least one."""
    return max(1, width - round(percentile * width))
