"""References that read the softmax's probabilities: GEN, KL matching, GradNorm."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

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
    classes that are never predicted have none. Where the softmax saturates the score approaches -log d_kk of the
    predicted class, so that such rows of one class tie; without ties use `max` or `entropy`.
    """

    info = Info(
        "R16",
        "kl-matching",
        "U_kl",
        "min_k sum_j s_j log(s_j / d_kj), d_k the mean softmax of training rows predicted as k",
        ("head", "train"),
        "Hendrycks et al. 2022",
    )

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

    def state(self) -> dict[str, NDArray]:
        return {"log_means": self._log_means}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._log_means = state["log_means"]


@register
class GradNorm(LogitReader):
    """Minus the L1 norm of the gradient, by the last layer's weights, of the softmax's distance to the uniform one.

    That gradient, of -sum_j log s_j, is the outer product of K s - 1 and z: its norm is the product of their norms,
    and nothing has to be differentiated.
    """

    info = Info("R15", "gradnorm", "U_gradnorm", "-norm1(z) norm1(K s - 1)", ("head",), "Huang, Geng, Li 2021")

    def _from_block(self, block: Block) -> NDArray:
        return np.asarray(-block.sizes * block.off_uniform)
