"""References that read a row and its logits, block by block.

Of the softmax's probabilities: GEN, KL matching, GradNorm. Of the geometry of trained classes: fDBD, NCI, SHE.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .base import Block, Info, LogitReader, each_chunk, register


@register
class GEN(LogitReader):
    """Generalised entropy of the `top` largest softmax probabilities, ranked by its logarithm, which can't saturate.

    gamma = 0.1 and the 100 largest are the paper's; with 100 classes or fewer all of them count.
    """

    info = Info(
        "R5", "gen", "U_gen", "sum_j s_j^gamma (1 - s_j)^gamma over the largest s_j", ("head",), "Liu et al. 2023"
    )

    def __init__(self, *, gamma: float = 0.1, top: int = 100) -> None:
        self.gamma = gamma
        self.top = top

    def _check(self, head: Head) -> None:
        if not self.gamma > 0 or self.top < 1:
            raise SoftscopeError(f"gen: gamma is {self.gamma}, top is {self.top}", "The paper uses 0.1 and 100")

    def _from_block(self, block: Block) -> NDArray:
        return block.log_generalised_entropy(self.gamma, self.top)

    def _plain(self, rows: NDArray) -> NDArray:
        return np.asarray(np.exp(self._uncertainty(rows)))


@register
class KLMatching(LogitReader):
    """Divergence of the softmax from the nearest of the classes' mean softmaxes.

    d_k is the mean softmax of the training rows that are predicted as class k (the authors take validation rows);
    classes that are never predicted have none, where OpenOOD takes a softmax that is certain of them. pytorch-ood takes
    means by label, and the divergence from the predicted class alone. Where the softmax saturates the score approaches
    -log d_kk of the predicted class, so that such rows of one class tie; without ties use `max` or `entropy`.
    """

    info = Info(
        "R16",
        "kl-matching",
        "U_kl",
        "min_k sum_j s_j log(s_j / d_kj), d_k the mean softmax of training rows predicted as k",
        ("head", "train"),
        "Hendrycks et al. 2022",
    )
    fitted_arrays = ("log_means",)

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        sums, counts = np.zeros((head.n_classes, head.n_classes)), np.zeros(head.n_classes)
        for _, rows in each_chunk(train, self._chunk()):
            block = Block(rows, head.logits(rows))
            predicted = np.eye(head.n_classes)[block.predicted]
            sums += predicted.T @ block.softmax
            counts += predicted.sum(axis=0)
        known = counts > 0
        means = sums[known] / counts[known, None]
        self._log_means = np.log(np.maximum(means, np.finfo(np.float64).tiny))

    def _from_block(self, block: Block) -> NDArray:
        return np.asarray(block.minus_entropy - (block.softmax @ self._log_means.T).max(axis=1))


@register
class GradNorm(LogitReader):
    """Minus the L1 norm of the gradient, by the last layer's weights, of the softmax's distance to the uniform one.

    That gradient, of -sum_j log s_j, is the outer product of K s - 1 and z: its norm is the product of their norms,
    and nothing has to be differentiated. The authors and OpenOOD differentiate, row by row, with the same result. Where
    the softmax saturates norm1(K s - 1) approaches 2 (K - 1) and norm1(z) alone tells rows apart.
    """

    info = Info("R15", "gradnorm", "U_gradnorm", "-norm1(z) norm1(K s - 1)", ("head",), "Huang, Geng, Li 2021")

    def _from_block(self, block: Block) -> NDArray:
        return np.asarray(-block.sizes * block.off_uniform)


class _AboutTheMean(LogitReader):
    """What reads z about the training mean mu."""

    fitted_arrays = ("mean",)
    _mean: Floats

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        if moments is not None:
            self._mean = moments.mean
            return
        total = sum((rows.sum(axis=0, dtype=np.float64) for rows in train.chunks()), np.zeros(train.n_features))
        self._mean = np.asarray(total / len(train))

    def _distances(self, block: Block) -> Floats:
        """norm(z - mu), at least the smallest positive number: at mu itself nothing is divided by 0."""
        return np.maximum(block.distances(self._mean), np.finfo(np.float64).tiny)


@register
class FDBD(_AboutTheMean):
    """Minus the mean distance to the decision boundaries of the predicted class c, relative to the distance from mu.

    The regulariser is the paper's, norm(z - mu); OpenOOD chooses between it and norm(z) on OOD data, and takes the sum
    over k, which has the same order. Classes with the same weight as c have no boundary with it and don't count.
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

    `alpha` has no unit here: the two terms have the ratio `alpha` on average over training rows, where the authors and
    OpenOOD choose a (in units of 1 / norm1(z), from 0.0001 to 0.1) on OOD data; `a_` is theirs.
    """

    info = Info(
        "R9",
        "nci",
        "U_nci",
        "-(w_c'(z - mu) / norm(z - mu) + a norm1(z)), c the predicted class, mu the training mean",
        ("head", "train"),
        "Liu, Qin 2025",
    )

    fitted_numbers = ("a",)
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


@register
class SHE(LogitReader):
    """Minus the inner product of z with the mean of the training rows of its predicted class that are classified right.

    The simplified Hopfield energy, as in OpenOOD and pytorch-ood. A class without such a row takes the mean of all its
    rows, where theirs is not a number; for a class without any row m_c is 0, hence the score.
    """

    info = Info(
        "R14",
        "she",
        "U_she",
        "-z'm_c, c the predicted class, m_c the mean of its correctly classified training rows",
        ("head", "train", "labels"),
        "Zhang et al. 2023",
    )
    fitted_arrays = ("patterns",)

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


def boundary_weights(head: Head) -> Floats:
    """[K, K]: 1 / norm(w_c - w_k) over the number of boundaries of c, 0 where there is none."""
    weight = head.weight.astype(np.float64)
    between = np.stack([np.linalg.norm(weight - one, axis=1) for one in weight])
    inverse = np.divide(1.0, between, out=np.zeros_like(between), where=between > 0)
    return np.asarray(inverse / np.maximum((between > 0).sum(axis=1), 1)[:, None])
