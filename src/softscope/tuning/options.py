"""What X8 searches over: seven options of U_density (E4), and those of the kernel density (E8) beside it.

The paper draws the first four at random and tries the whole grid of the last three. Here each draw of the first four
is tried with the whole grid. The first draw is the paper's best, then come those that differ from it in one option, so
that each of its choices can be judged with everything else equal, then the rest in an order drawn by the seed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from ..errors import SoftscopeError
from ..estimators import Transform

Fit = Literal["classes", "em"]
Layer = Literal["before", "after"]
Covariance = Literal["full", "diagonal", "spherical"]
ComponentCount = Literal["1", "K", "10", "100"]

FITS: tuple[Fit, ...] = ("classes", "em")
NEURONS = (100, 256, 512)
RIDGES = (1e-1, 1e-3, 1e-5, 1e-7)
LAYERS: tuple[Layer, ...] = ("before", "after")
COVARIANCES: tuple[Covariance, ...] = ("full", "diagonal", "spherical")
TRANSFORMS: tuple[Transform, ...] = ("none", "log")
COMPONENTS: tuple[ComponentCount, ...] = ("1", "K", "10", "100")
BANDWIDTHS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Draw:
    """The four options the paper draws at random: one component per class or EM, how many neurons, ridge, layer."""

    fit: Fit
    neurons: int
    ridge: float
    layer: Layer


@dataclass(frozen=True)
class Setting(Draw):
    """A draw with a point of the grid. `components` K start from the classes, 10 and 100 from k-means."""

    covariance: Covariance
    transform: Transform
    components: ComponentCount

    @property
    def space(self) -> tuple[Layer, Transform, int]:
        """What the mixture is fitted on: layer, transform, neurons."""
        return self.layer, self.transform, self.neurons

    def count(self, classes: int) -> int:
        return classes if self.components == "K" else int(self.components)

    def arguments(self, features: int, seed: int) -> dict[str, Any]:
        """Keywords of `Density` for the same mixture, those at their default left out."""
        wanted: dict[str, Any] = {
            "components": None if self.components == "K" else int(self.components),
            "covariance": None if self.covariance == "full" else self.covariance,
            "ridge": None if self.ridge == 1e-5 else self.ridge,
            "init": "kmeans" if self.components in ("10", "100") else None,
            "one_per_class": True if self.fit == "classes" else None,
            "transform": "log" if self.transform == "log" else None,
            "neurons": self.neurons if self.neurons < features else None,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        return given | ({"seed": seed} if seed and given.keys() & {"init", "neurons"} else {})


@dataclass(frozen=True)
class KernelSetting:
    """E8 on all neurons: `bandwidth` is a multiple of the one under which held-out rows are most likely."""

    layer: Layer
    transform: Transform
    bandwidth: float


def neuron_choices(features: int) -> tuple[int, ...]:
    """100, 256 and 512 where there are more, and all."""
    return (*(count for count in NEURONS if count < features), features)


def paper_setting(features: int, *, fine_tuned: bool = False) -> Setting:
    """What the paper found best: for networks trained from scratch, or for fine-tuned ones."""
    return Setting("em", features, 1e-3 if fine_tuned else 1e-5, "after", "full", "log" if fine_tuned else "none", "K")


def draws(features: int, wanted: int, seed: int, *, layers: Sequence[Layer] = LAYERS) -> list[Draw]:
    """The first `wanted` draws of the search, none twice; all there are where `wanted` is more."""
    if wanted < 1:
        raise SoftscopeError(f"{wanted} settings to try", "Ask for at least 1")
    best = paper_setting(features)
    first = Draw(best.fit, best.neurons, best.ridge, best.layer)
    every = [Draw(*values) for values in product(FITS, neuron_choices(features), RIDGES, layers)]
    near = [draw for draw in every if _differences(draw, first) == 1]
    far = [draw for draw in every if _differences(draw, first) > 1]
    order = np.random.default_rng(seed).permutation(len(far))
    return [first, *near, *(far[number] for number in order)][:wanted]


def grid(draw: Draw) -> list[Setting]:
    """The settings of a draw: log z only after the non-linearity, one component per class only with K components."""
    known = asdict(draw)
    return [
        Setting(**known, covariance=covariance, transform=transform, components=components)
        for covariance, transform, components in product(COVARIANCES, TRANSFORMS, COMPONENTS)
        if (transform == "none" or draw.layer == "after") and (draw.fit == "em" or components == "K")
    ]


def kernel_settings(layers: Sequence[Layer] = LAYERS) -> list[KernelSetting]:
    return [
        KernelSetting(layer, transform, bandwidth)
        for layer, transform, bandwidth in product(layers, TRANSFORMS, BANDWIDTHS)
        if transform == "none" or layer == "after"
    ]


def _differences(draw: Draw, other: Draw) -> int:
    mine, theirs = asdict(draw), asdict(other)
    return sum(mine[name] != theirs[name] for name in mine)
