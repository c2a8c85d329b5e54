"""How large a region is: its share of a ball or of a reference density, by Monte Carlo with its standard error.

`region_sizes` asks it of a trained head: how much room its valid OOD regions leave (T4, T8).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Floats, chunk_rows
from ..blas import one_blas_thread
from ..errors import SoftscopeError
from ..estimators import each_chunk
from ..estimators.softmax import log_entropy, log_odds
from ..features import FeatureSet
from ..head import Head
from ..mixture import symmetric_root
from .regions import HeadRegion, Region, Scorer, exact_region, linear_region, valid_region, valid_threshold

Sampler = Callable[[int, np.random.Generator], Floats]


@dataclass(frozen=True)
class Share:
    """A Monte Carlo share with its standard error; the error is never 0, also where no draw or every draw hit."""

    value: float
    standard_error: float
    samples: int

    @classmethod
    def of(cls, hits: int, samples: int) -> "Share":
        """hits / samples; the error from (hits + 1/2) / (samples + 1)."""
        smoothed = (hits + 0.5) / (samples + 1.0)
        return cls(hits / samples, float(np.sqrt(smoothed * (1.0 - smoothed) / samples)), samples)


def shares_under(
    regions: Mapping[str, Region], draw: Sampler, *, samples: int = 100_000, seed: int = 0
) -> dict[str, Share]:
    """The probability of each region under a reference density, given as `draw(count, rng) -> rows`.

    All on the same draws, so that their differences carry little noise.
    """
    if samples < 1:
        raise SoftscopeError(f"a Monte Carlo share needs draws, found samples = {samples}", "Give 10000 or more")
    rng = np.random.default_rng(seed)
    size = min(samples, chunk_rows(max(region.n_features for region in regions.values()), budget=1 << 23))
    hits = dict.fromkeys(regions, 0)
    for start in range(0, samples, size):
        z = draw(min(size, samples - start), rng)
        for name, region in regions.items():
            hits[name] += int(region.contains(z).sum())
    return {name: Share.of(count, samples) for name, count in hits.items()}


def uniform_in_ball(
    count: int, size: int, rng: np.random.Generator, *, radius: float = 1.0, keep: int | None = None
) -> Floats:
    """Points uniform in the ball of R^size, of which only the first `keep` coordinates are returned.

    The first `size` coordinates of a uniform point on the sphere of R^(size + 2) are uniform in the ball.
    """
    return uniform_on_sphere(count, size + 2, rng, radius=radius, keep=size if keep is None else keep)


def uniform_on_sphere(
    count: int, size: int, rng: np.random.Generator, *, radius: float = 1.0, keep: int | None = None
) -> Floats:
    """Points uniform on the sphere of R^size, of which only the first `keep` coordinates are returned.

    They are Gaussians over the root of their own squares plus a chi-square of size - keep degrees.
    """
    keep = size if keep is None else keep
    z = rng.standard_normal((count, keep))
    rest = rng.chisquare(size - keep, count) if keep < size else 0.0
    points: Floats = radius * z / np.sqrt(np.einsum("nh,nh->n", z, z) + rest)[:, None]
    return points


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
    train: Any,
    *,
    density: Scorer | None = None,
    epsilon: float = 0.05,
    samples: int = 100_000,
    seed: int = 0,
    seen: "TrainingView | None" = None,
) -> RegionSizes:
    """The sizes of the regions of a trained head and its features; `density` is a fitted estimator, as `Density`.

    `train` is whatever `FeatureSet.of` takes. `seen` is what a pass over `train` would give, where it was made already.
    """
    train = FeatureSet.of(train, "train")
    seen = seen or _seen(head, train)
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
class TrainingView:
    """One pass over the training features: rank forms of U_max and U_entropy, norms, mean, root of the covariance."""

    odds: Floats
    entropies: Floats
    norms: Floats
    mean: Floats
    root: Floats


def _seen(head: Head, train: FeatureSet) -> TrainingView:
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
    return TrainingView(odds, entropies, norms, mean, symmetric_root(values, vectors))
