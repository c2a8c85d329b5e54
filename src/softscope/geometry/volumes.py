"""How large a region is: its share of a ball or of a reference density, by Monte Carlo with its standard error."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, chunk_rows
from ..errors import SoftscopeError
from .regions import HeadRegion, Region

Draw = Callable[[int, np.random.Generator], Floats]


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


def share_of_ball(
    region: Region, radius: float, *, centre: Floats | None = None, samples: int = 100_000, seed: int = 0
) -> Share:
    """The share of a ball of R^H (around the origin unless `centre` is given) that lies in the region.

    A region of the head depends only on the projection on the span of the weights; then only that projection of a
    uniform point of the ball is drawn, which costs O(K) instead of O(H) a point.
    """
    middle = np.zeros(region.n_features) if centre is None else np.asarray(centre, np.float64)
    size = region.n_features
    if isinstance(region, HeadRegion):
        region, basis = region.reduced()
        middle = middle @ basis
    keep = region.n_features

    def draw(count: int, rng: np.random.Generator) -> Floats:
        return middle + uniform_in_ball(count, size, rng, radius=radius, keep=keep)

    return share_under(region, draw, samples=samples, seed=seed)


def share_under(region: Region, draw: Draw, *, samples: int = 100_000, seed: int = 0) -> Share:
    """The probability of the region under a reference density, given as `draw(count, rng) -> rows`."""
    return shares_under({"": region}, draw, samples=samples, seed=seed)[""]


def shares_under(
    regions: Mapping[str, Region], draw: Draw, *, samples: int = 100_000, seed: int = 0
) -> dict[str, Share]:
    """`share_under` of several regions on the same draws, so that their differences carry little noise."""
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

    The first `size` coordinates of a uniform point on the sphere of R^(size + 2) are uniform in the ball, so `keep` of
    them are Gaussians over the root of their own squares plus a chi-square of size + 2 - keep degrees.
    """
    keep = size if keep is None else keep
    z = rng.standard_normal((count, keep))
    rest = rng.chisquare(size + 2 - keep, count)
    found: Floats = radius * z / np.sqrt(np.einsum("nh,nh->n", z, z) + rest)[:, None]
    return found


def uniform_on_sphere(
    count: int, size: int, rng: np.random.Generator, *, radius: float = 1.0, keep: int | None = None
) -> Floats:
    """Points uniform on the sphere of R^size, of which only the first `keep` coordinates are returned."""
    keep = size if keep is None else keep
    z = rng.standard_normal((count, keep))
    rest = rng.chisquare(size - keep, count) if keep < size else 0.0
    found: Floats = radius * z / np.sqrt(np.einsum("nh,nh->n", z, z) + rest)[:, None]
    return found


def log_ball_volume(size: int, radius: float) -> float:
    """log of the volume of the ball of R^size: (H/2) log pi - log Gamma(H/2 + 1) + H log radius."""
    from math import lgamma, log, pi

    return 0.5 * size * log(pi) - lgamma(0.5 * size + 1.0) + size * log(radius)
