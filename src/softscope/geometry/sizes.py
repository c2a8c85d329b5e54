"""How much room a trained head leaves for OOD inputs: the sizes of its valid OOD regions (T4, T8)."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats
from ..blas import one_blas_thread
from ..estimators.base import each_chunk
from ..estimators.softmax import log_entropy, log_odds
from ..features import FeatureSet
from ..head import Head
from .regions import HeadRegion, Region, Scorer, exact_region, linear_region, valid_region, valid_threshold
from .volumes import Share, shares_under, uniform_in_ball


@dataclass(frozen=True)
class RegionSizes:
    """Shares of two references that lie in the valid OOD region of each estimator (max, linear, entropy, density).

    `ball`: points uniform in the ball around the origin that holds a share 1 - epsilon of the training features.
    `gaussian`: draws from one Gaussian with the mean and covariance of all training features, so features as strong
    and as correlated as those of training, but belonging to no class. An OOD input must fall into a region to be
    flagged at 1 - epsilon; `logit_t` is log(t / (1 - t)) of the confidence it must stay below.
    """

    epsilon: float
    logit_t: float
    radius: float
    ball: dict[str, Share]
    gaussian: dict[str, Share]


def region_sizes(
    head: Head,
    train: FeatureSet,
    *,
    density: Scorer | None = None,
    epsilon: float = 0.05,
    samples: int = 100_000,
    seed: int = 0,
) -> RegionSizes:
    """The sizes of the regions of a trained head and its features; `density` is a fitted estimator, as `Density`."""
    seen = _seen(head, train)
    logit_t = -valid_threshold(seen.odds, epsilon)
    regions: dict[str, Region] = {
        "max": exact_region(head, logit_t),
        "linear": linear_region(head, logit_t),
        "entropy": HeadRegion(head, log_entropy, valid_threshold(seen.entropies, epsilon)),
    }
    if density is not None:
        regions["density"] = valid_region(density, train, epsilon)
    radius = float(np.quantile(seen.norms, 1.0 - epsilon))

    def in_ball(count: int, rng: np.random.Generator) -> Floats:
        return uniform_in_ball(count, head.n_features, rng, radius=radius)

    def gaussian(count: int, rng: np.random.Generator) -> Floats:
        return seen.mean + rng.standard_normal((count, head.n_features)) @ seen.root

    return RegionSizes(
        epsilon=epsilon,
        logit_t=logit_t,
        radius=radius,
        ball=shares_under(regions, in_ball, samples=samples, seed=seed),
        gaussian=shares_under(regions, gaussian, samples=samples, seed=seed),
    )


@dataclass(frozen=True)
class _Seen:
    """One pass over the training features: rank forms of U_max and U_entropy, norms, mean, root of the covariance."""

    odds: Floats
    entropies: Floats
    norms: Floats
    mean: Floats
    root: Floats


def _seen(head: Head, train: FeatureSet) -> _Seen:
    odds, entropies, norms = np.empty(len(train)), np.empty(len(train)), np.empty(len(train))
    total, products = np.zeros(head.n_features), np.zeros((head.n_features, head.n_features))
    for span, block in each_chunk(train):
        logits, wide = head.logits(block), block.astype(np.float64)
        odds[span], entropies[span], norms[span] = log_odds(logits), log_entropy(logits), head.norms(block)
        total += wide.sum(axis=0)
        products += wide.T @ wide
    mean = total / len(train)
    with one_blas_thread():
        values, vectors = np.linalg.eigh(products / len(train) - np.outer(mean, mean))
    # Eigenvalues below 0 are rounding: the covariance of fewer rows than features has none.
    return _Seen(odds, entropies, norms, mean, (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
