"""The rows a density is fitted on and judged by: one layer, some neurons, z or log z, made once for many settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns
from ..errors import SoftscopeError
from ..estimators import LOG_OFFSET, Transform, drawn_columns, log_features
from ..features import FeatureSet
from ..metrics import auroc, balanced
from .options import Layer

HELD_OUT_SHARE, HELD_OUT_ROWS = 0.1, 5_000
FEWEST_ROWS = 20


@dataclass(frozen=True)
class Sets:
    """Features of one layer: `train` with labels, `test`, and any OOD sets by name."""

    train: FeatureSet
    test: FeatureSet
    ood: Mapping[str, FeatureSet]

    @property
    def every(self) -> dict[str, FeatureSet]:
        """All of them, by a name for messages."""
        return {"train": self.train, "test": self.test, **{f"OOD set {name}": z for name, z in self.ood.items()}}


@dataclass(frozen=True)
class Features:
    """What a search works on: the features that feed a head of `classes`, and those before its non-linearity."""

    classes: int
    after: Sets
    before: Sets | None = None

    @property
    def width(self) -> int:
        """H."""
        return self.after.train.n_features

    @property
    def layers(self) -> tuple[Layer, ...]:
        return ("after",) if self.before is None else ("before", "after")

    def layer(self, name: Layer) -> Sets:
        sets = self.after if name == "after" else self.before
        if sets is None:
            raise SoftscopeError("no features before the non-linearity were given", "Extract them with layer='before'")
        return sets

    def check(self) -> None:
        """Raise a SoftscopeError where the sets don't belong together."""
        train = self.after.train
        if train.labels is None:
            raise SoftscopeError(f"{train.name}: has no labels", "Save them with the features")
        if len(train) < FEWEST_ROWS:
            raise SoftscopeError(f"{train.name}: {len(train)} rows", f"Give at least {FEWEST_ROWS} training rows")
        train.check_labels(self.classes)
        for layer in self.layers:
            for name, given in self.layer(layer).every.items():
                check_columns(given.n_features, f"{given.name}: z", columns=self.width)
                others = len(self.after.every[name])
                if len(given) != others:
                    raise SoftscopeError(
                        f"{given.name}: {len(given)} rows before the non-linearity, {others} after it",
                        "Extract both from the same inputs, in the same order",
                    )


def split_rows(rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to fit on and rows held out, a tenth (5,000 at most), drawn by `seed`; both ascending."""
    order = np.random.default_rng([seed, 8]).permutation(rows)
    held_out = min(HELD_OUT_ROWS, max(1, int(HELD_OUT_SHARE * rows)))
    return np.sort(order[held_out:]), np.sort(order[:held_out])


class Space:
    """Training rows to fit on (`fit`, with labels), and the rows that judge a fit, all transformed once.

    At most `judged` rows of the test set and of each OOD set are taken, evenly spread.
    """

    def __init__(
        self, features: Features, layer: Layer, transform: Transform, neurons: int, seed: int, judged: int | None = None
    ) -> None:
        sets = features.layer(layer)
        columns = None if neurons == features.width else drawn_columns(features.width, neurons, seed)
        chosen, held_out = split_rows(len(sets.train), seed)
        labels = features.after.train.labels
        assert labels is not None
        self.transform = transform
        self._negative = False

        def rows(z: NDArray) -> NDArray:
            taken = z if columns is None else z[:, columns]
            self._negative |= transform == "log" and bool((taken < 0).any())
            return log_features(taken, LOG_OFFSET) if transform == "log" else taken

        self.fit = FeatureSet(rows(sets.train.rows(chosen)), labels[chosen], name=sets.train.name)
        self.held_out = rows(sets.train.rows(held_out))
        self.test = rows(spread_rows(sets.test, judged))
        self.ood = {name: rows(spread_rows(z, judged)) for name, z in sets.ood.items()}

    def judge(self, log_density: Callable[[NDArray], Floats]) -> dict[str, object]:
        """Mean log density of held-out and test rows, and the AUROC (%) of minus the log density on each OOD set.

        Sides are balanced, OOD is the positive class.
        """
        held_out, test = log_density(self.held_out), log_density(self.test)
        areas = {}
        for name, pair in self._pairs.items():
            areas[name] = 100 * auroc(-test[pair[0]], -log_density(self.ood[name])[pair[1]]).value
        return {
            "held_out": self.log_likelihood(held_out, self.held_out),
            "test": self.log_likelihood(test, self.test),
            "auroc": areas,
        }

    def log_likelihood(self, log_density: Floats, rows: NDArray) -> float | None:
        """Mean log density as one of z itself, so that z and log z compare; None where log z is not a density of z.

        With y = log(z + d), p(z) = q(y) prod_j dy_j/dz_j and dy/dz = 1 / (z + d) = exp(-y): log p(z) = log q(y) -
        sum_j y_j. Values below 0, which y cuts off, have no such density.
        """
        if self.transform == "none":
            return float(log_density.mean())
        if self._negative:
            return None
        return float((log_density - rows.sum(axis=1, dtype=np.float64)).mean())

    @cached_property
    def _pairs(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        return {name: balanced(len(self.test), len(rows)) for name, rows in self.ood.items()}


def spread_rows(given: FeatureSet, most: int | None) -> NDArray:
    """All rows, or `most` of them evenly spread where there are more."""
    if most is None or len(given) <= most:
        return given.array()
    return given.rows(np.linspace(0, len(given) - 1, most).round().astype(np.int64))
