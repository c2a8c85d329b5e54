"""Valid OOD regions: where a point of the final layer is more uncertain than a share 1 - epsilon of training (T4-T11).

Every region is { z : U(z) > threshold } for some uncertainty U, so one membership test serves them all. Regions of
U_max are stated by logit(t), t the confidence threshold, because t itself rounds to 1 long before the region is empty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_rows, chunk_rows, spans
from ..errors import SoftscopeError
from ..estimators.softmax import log_entropy, log_odds, margin
from ..features import FeatureSet
from ..head import Head
from .fields import KnownMixture

_MIXTURE_DRAWS = 1_000_000


@dataclass
class Region:
    """{ z in R^H : U(z) > threshold }, where `uncertainty` gives U of a chunk of rows."""

    uncertainty: Callable[[NDArray], Floats]
    n_features: int
    threshold: float

    def contains(self, z: Any) -> NDArray[np.bool_]:
        """Which rows of `z` lie in the region, in chunks of rows."""
        rows = as_rows(z, "z", columns=self.n_features, owner="the region")
        out = np.empty(len(rows), bool)
        for span in spans(len(rows), chunk_rows(self.n_features, budget=1 << 22)):
            out[span] = self.uncertainty(rows[span]) > self.threshold
        return out


class ScoreRegion(Region):
    """A region of any uncertainty of features: a fitted estimator's, or minus the log of a density."""


class HeadRegion(Region):
    """A region of an uncertainty that reads the logits alone; `score` maps logits [N, K] to U [N]."""

    def __init__(self, head: Head, score: Callable[[NDArray], Floats], threshold: float) -> None:
        super().__init__(lambda z: score(head.logits(z)), head.n_features, threshold)


class Scorer(Protocol):
    """Anything fitted that gives one uncertainty per row, such as an Estimator."""

    n_features_: int

    def uncertainty(self, z: Any) -> Floats:
        """Larger = more uncertain."""
        ...


def valid_threshold(uncertainties: Any, epsilon: float) -> float:
    """The u such that U(z') > u exactly where U(z') exceeds more than a share 1 - epsilon of `uncertainties` (T4).

    With N of them it is the m-th smallest, m = floor((1 - epsilon) N) + 1; infinite (an empty region) where m > N.
    """
    if not 0.0 <= epsilon <= 1.0:
        raise SoftscopeError(f"epsilon is a share of the training data, found {epsilon}", "Give a number in 0..1")
    values = np.asarray(uncertainties, np.float64).ravel()
    if values.size == 0 or np.isnan(values).any():
        raise SoftscopeError("uncertainties: empty or NaN", "Give the uncertainty of each training input")
    # 1e-9 of a row keeps (1 - epsilon) N from falling below the whole number it stands for.
    place = int(np.floor((1.0 - epsilon) * values.size + 1e-9))
    return float(np.partition(values, place)[place]) if place < values.size else float("inf")


def valid_region(estimator: Scorer, train: Any, epsilon: float = 0.05) -> ScoreRegion:
    """T4 for any fitted estimator: where it is more uncertain than a share 1 - epsilon of the training features.

    >>> import numpy as np
    >>> import softscope as sx
    >>> z = np.random.default_rng(0).normal(size=(500, 2))
    >>> density = sx.Density(components=1).fit(sx.Head(np.eye(2)), sx.FeatureSet(z))
    >>> valid_region(density, z).contains([[0.0, 0.0], [9.0, 9.0]])
    array([False,  True])
    """
    threshold = valid_threshold(estimator.uncertainty(train), epsilon)
    return ScoreRegion(estimator.uncertainty, estimator.n_features_, threshold)


def confidence_threshold(head: Head, train: FeatureSet | KnownMixture | NDArray, epsilon: float = 0.05) -> float:
    """logit(t) such that the region of U_max is { z : max_i s_i < t }, from features or from a mixture (T4)."""
    return -_threshold_of(head, log_odds, train, epsilon)


def exact_region(head: Head, logit_t: float) -> HeadRegion:
    """{ z : max_i s_i < t }, the exact region of U_max."""
    return HeadRegion(head, log_odds, -logit_t)


def linear_region(head: Head, logit_t: float) -> HeadRegion:
    """T8: { z : l_1 - l_2 < logit(t) }, logits sorted; the union of all slabs around the decision boundaries.

    O(K) per point, any K, bias included; empty for t <= 1/2; a subset of the exact region (T11).
    """
    return HeadRegion(head, margin, -logit_t)


def entropy_region(head: Head, train: FeatureSet | KnownMixture | NDArray, epsilon: float = 0.05) -> HeadRegion:
    """The exact region of U_entropy, from features or from a mixture (T4); thresholded on log U_entropy."""
    return HeadRegion(head, log_entropy, _threshold_of(head, log_entropy, train, epsilon))


def density_region(mixture: KnownMixture, epsilon: float = 0.05, *, seed: int = 0) -> ScoreRegion:
    """The exact region of U_density of an explicit mixture, its threshold from a million draws (T4, T7)."""

    z, _ = mixture.sample(_MIXTURE_DRAWS, np.random.default_rng(seed))
    threshold = valid_threshold(-mixture.log_density(z), epsilon)
    return ScoreRegion(lambda z: -mixture.log_density(z), mixture.n_features, threshold)


class EllipsoidRegion(Region):
    """T7 as corrected: outside every ellipsoid (z - mu_i)' Sigma_i^-1 (z - mu_i) <= c_i, `sizes` holding the c_i.

    As { U > threshold }: U is the smallest of the distances less c_i, the threshold 0.
    """

    def __init__(self, mixture: KnownMixture, sizes: Floats) -> None:
        self.sizes = sizes
        super().__init__(
            lambda z: (mixture.squared_distances(z) - sizes).min(axis=1), mixture.n_features, threshold=0.0
        )


def ellipsoid_region(mixture: KnownMixture, epsilon: float = 0.05) -> EllipsoidRegion:
    """T7 in closed form: c_i = 2 (log normaliser_i - level), one density level for all components.

    The level makes sum_i pi_i P(chi2_H <= c_i) = 1 - epsilon: exact for components that do not overlap.
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2

    peaks = mixture.log_normalisers

    def excess(level: float) -> float:
        inside = chi2.cdf(np.maximum(2.0 * (peaks - level), 0.0), mixture.n_features)
        return float(mixture.weights @ inside) - (1.0 - epsilon)

    low = float(peaks.min()) - 0.5 * float(chi2.isf(1e-3 * epsilon, mixture.n_features))
    level = brentq(excess, low, float(peaks.max()), xtol=1e-12)
    return EllipsoidRegion(mixture, 2.0 * (peaks - level))


def _threshold_of(
    head: Head, score: Callable[[NDArray], Floats], train: FeatureSet | KnownMixture | NDArray, epsilon: float
) -> float:
    if isinstance(train, KnownMixture):
        train = train.sample(_MIXTURE_DRAWS, np.random.default_rng(0))[0]
    features = FeatureSet.of(train, "train")
    values = np.concatenate([score(head.logits(chunk)) for chunk in features.chunks()])
    return valid_threshold(values, epsilon)


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


class SlabRegion(Region):
    """T5: { z : |w'(z - z_0)| < alpha norm(w)^2 }, half width alpha norm(w). Here U is minus the left-hand side."""

    def __init__(self, head: Head, alpha: float) -> None:
        self.alpha = alpha
        normal, offset = _boundary(head)
        super().__init__(
            lambda z: -np.abs(z.astype(np.float64) @ normal + offset),
            head.n_features,
            threshold=-alpha * float(normal @ normal),
        )


def slab_offset(head: Head, mixture: KnownMixture, epsilon: float = 0.05) -> float:
    """T5: the alpha that leaves a share 1 - epsilon of the mixture outside the slab, both tails of a class counted."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    seen = projection(head, mixture)

    def excess(alpha: float) -> float:
        edge = alpha * seen.squared_norm
        outside = norm.sf((edge - seen.means) / seen.deviations) + norm.cdf((-edge - seen.means) / seen.deviations)
        return float(seen.weights @ outside) - (1.0 - epsilon)

    reach = float((np.abs(seen.means) + 40.0 * seen.deviations).max()) / seen.squared_norm
    if excess(0.0) * excess(reach) > 0:
        raise SoftscopeError("no half width leaves this share of the mixture outside", "Give epsilon in 0..1")
    return float(brentq(excess, 0.0, reach, xtol=1e-14, rtol=1e-13))


def gaussian_coverage(seen: Projection, alpha: float) -> float:
    """T6 as corrected: pi_1 erf(.) + pi_2 erf(.), 1 - 2 epsilon at the half width alpha; class 1 is component 0.

    pi_1 erf((w'mu_1 - w'(z_0 + a w)) / sqrt(2 w'Sigma_1 w)) + pi_2 erf((w'(z_0 - a w) - w'mu_2) / sqrt(2 w'Sigma_2 w)).
    Neglects each class's far tail, so it needs linearly separable classes; `slab_offset` does not.
    """
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
