"""Two classes: the valid OOD region of U_max and U_entropy is a slab around the decision boundary (T5, T6, T9, T27)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from ..head import Head
from .known import KnownMixture
from .regions import Region


@dataclass(frozen=True)
class Projection:
    """A two-class mixture seen along w = (w_1 - w_2) / 2: means of w'(z - z_0), standard deviations, norm(w)^2."""

    weights: Floats
    means: Floats
    deviations: Floats
    squared_norm: float


def projection(head: Head, mixture: KnownMixture) -> Projection:
    """The mixture along the normal of the decision boundary; w = w_1 where w_1 = -w_2, as the paper assumes.

    Softmax of two classes depends on w_1 - w_2 and b_1 - b_2 alone, so the assumption costs nothing.
    """
    normal, offset = _boundary(head)
    spread = np.einsum("h,chg,g->c", normal, mixture.covariances, normal)
    return Projection(mixture.weights, mixture.means @ normal + offset, np.sqrt(spread), float(normal @ normal))


@dataclass(frozen=True)
class SlabRegion(Region):
    """T5: { z : |w'(z - z_0)| < alpha norm(w)^2 }, half width alpha norm(w). Here U is minus the left-hand side."""

    head: Head
    alpha: float

    @property
    def threshold(self) -> float:  # type: ignore[override]
        normal, _ = _boundary(self.head)
        return -self.alpha * float(normal @ normal)

    @property
    def n_features(self) -> int:
        return self.head.n_features

    def uncertainty(self, z: NDArray) -> Floats:
        normal, offset = _boundary(self.head)
        return -np.abs(z.astype(np.float64) @ normal + offset)


def slab_offset(head: Head, mixture: KnownMixture, epsilon: float = 0.05) -> float:
    """T5: the alpha that leaves a share 1 - epsilon of the mixture outside the slab, both tails of a class counted."""
    from scipy.stats import norm

    seen = projection(head, mixture)

    def excess(alpha: float) -> float:
        edge = alpha * seen.squared_norm
        outside = norm.sf((edge - seen.means) / seen.deviations) + norm.cdf((-edge - seen.means) / seen.deviations)
        return float(seen.weights @ outside) - (1.0 - epsilon)

    reach = float((np.abs(seen.means) + 40.0 * seen.deviations).max()) / seen.squared_norm
    return _root(excess, 0.0, reach)


def gaussian_offset(head: Head, mixture: KnownMixture, epsilon: float = 0.05) -> float:
    """T6 as corrected: the alpha that solves pi_1 erf(.) + pi_2 erf(.) = 1 - 2 epsilon; class 1 is component 0.

    pi_1 erf((w'mu_1 - w'(z_0 + a w)) / sqrt(2 w'Sigma_1 w)) + pi_2 erf((w'(z_0 - a w) - w'mu_2) / sqrt(2 w'Sigma_2 w)).
    Neglects each class's far tail, so it needs linearly separable classes; `slab_offset` does not.
    """
    seen = projection(head, mixture)

    def excess(alpha: float) -> float:
        return gaussian_coverage(seen, alpha) - (1.0 - 2.0 * epsilon)

    reach = float((np.abs(seen.means) + 40.0 * seen.deviations).max()) / seen.squared_norm
    return _root(excess, -reach, reach)


def gaussian_coverage(seen: Projection, alpha: float) -> float:
    """The left-hand side of T6 as corrected."""
    from scipy.special import erf

    edge = alpha * seen.squared_norm
    arguments = np.array([seen.means[0] - edge, -edge - seen.means[1]]) / (np.sqrt(2.0) * seen.deviations)
    return float(seen.weights @ erf(arguments))


def _boundary(head: Head) -> tuple[Floats, float]:
    if head.n_classes != 2:
        raise SoftscopeError(f"the slab is for two classes, the head has {head.n_classes}", "Use linear_region")
    weight = head.weight.astype(np.float64)
    bias = head.bias.astype(np.float64)
    return (weight[0] - weight[1]) / 2.0, float(bias[0] - bias[1]) / 2.0


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    if excess(low) * excess(high) > 0:
        raise SoftscopeError("no half width leaves this share of the mixture outside", "Give epsilon in 0..1")
    return float(brentq(excess, low, high, xtol=1e-14, rtol=1e-13))
