"""The search (X8): try settings of the density, and choose by held-out likelihood and by AUROC.

Choosing by AUROC is the paper's way. It looks at OOD data, which a deployed detector has not seen: take it for an upper
bound. Held-out likelihood needs training data alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from ..engine import Engine
from ..errors import SoftscopeError
from ..runs import Run
from .fitting import Bench, Tried, try_group
from .options import (
    COMPONENTS,
    ComponentCount,
    KernelSetting,
    Setting,
    draws,
    grid,
    kernel_settings,
    paper_setting,
)
from .spaces import Features, split_rows

SETTINGS, ITERATIONS = 12, 20


@dataclass(frozen=True)
class Search:
    """What was tried: mixtures (`tried`) in the order of the search, and kernel densities beside them.

    `zeros` is the share of exact zeros among the training features that feed the head. Where there are many, features
    have no density in the strict sense, and likelihood grows without bound as the ridge falls.
    """

    classes: int
    features: int
    seed: int
    fitted: int
    held_out: int
    zeros: float
    tried: tuple[Tried, ...]
    kernels: tuple[Tried, ...]

    @property
    def has_ood(self) -> bool:
        """Whether there are AUROCs to choose by."""
        return bool(self.tried[0].auroc)

    @property
    def paper(self) -> Tried:
        """The paper's best setting, which is Softscope's default."""
        return self.of(paper_setting(self.features))

    @property
    def comparable(self) -> list[Tried]:
        """Settings on all neurons that feed the head, with a likelihood: only on the same neurons do these compare."""
        own = [one for one in self.tried if isinstance(one.setting, Setting) and one.setting.neurons == self.features]
        return [one for one in own if one.setting.layer == "after" and one.held_out is not None]

    @property
    def by_likelihood(self) -> Tried:
        """The most likely held-out rows, among settings whose likelihoods compare."""
        return max(self.comparable, key=_likelihood)

    @property
    def by_auroc(self) -> Tried:
        """The highest mean AUROC over OOD sets, of all settings."""
        if not self.has_ood:
            raise SoftscopeError("there is no AUROC to choose by", "Give OOD sets")
        return max(self.tried, key=lambda one: one.mean_auroc)

    @property
    def left_out(self) -> dict[str, Tried]:
        """By OOD set, the setting chosen on all others by mean and worst AUROC: what it does here is an honest test."""
        names = list(self.tried[0].auroc)

        def merit(one: Tried, without: str) -> float:
            others = [one.auroc[name] for name in names if name != without]
            return sum(others) / len(others) + min(others)

        return {} if len(names) < 2 else {name: max(self.tried, key=lambda one: merit(one, name)) for name in names}

    @property
    def kernel(self) -> Tried:
        """The best kernel density, by the same measure."""
        if self.has_ood:
            return max(self.kernels, key=lambda one: one.mean_auroc)
        return max((one for one in self.kernels if one.setting.layer == "after"), key=_likelihood)

    def of(self, setting: Setting) -> Tried:
        return next(one for one in self.tried if one.setting == setting)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The search of which `to_dict` gave `values`."""

        def tried(name: str, kind: type[Setting | KernelSetting]) -> tuple[Tried, ...]:
            return tuple(Tried(**{**one, "setting": kind(**one["setting"])}) for one in values[name])

        return cls(**{**values, "tried": tried("tried", Setting), "kernels": tried("kernels", KernelSetting)})


def tune(
    features: Features,
    *,
    settings: int = SETTINGS,
    seed: int = 0,
    iterations: int = ITERATIONS,
    judged: int | None = None,
    elsewhere: Sequence[ComponentCount] = COMPONENTS,
    run: Run | None = None,
    inputs: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> Search:
    """Try `settings` draws of the first four options, each with the whole grid of the others, and kernel densities.

    EM stops after `iterations` at the latest; at most `judged` rows of the test set and of each OOD set are scored
    (None: all); draws other than the first try the numbers of components `elsewhere` alone. With `run` every setting is
    kept as a step of it, and a search that was interrupted continues; `inputs` then say what determines the features.
    """
    features.check()
    if iterations < 1:
        raise SoftscopeError(f"{iterations} iterations of EM", "Give a whole number of at least 1")
    fitted, held_out = (len(rows) for rows in split_rows(len(features.after.train), seed))
    wanted = [
        one
        for number, draw in enumerate(draws(features.width, settings, seed, layers=features.layers))
        for one in grid(draw)
        if one.count(features.classes) <= fitted and (number == 0 or one.components in elsewhere)
    ]
    bench = Bench(features, seed, iterations, judged, run, dict(inputs or {}))
    groups = [*_groups(wanted), *_groups(kernel_settings(features.layers))]
    # The longest first, so that no worker is left alone with one at the end.
    groups.sort(key=_work, reverse=True)
    tried = (engine or Engine(workers=1)).map(partial(try_group, bench), groups, threads=1, label="settings")
    results = {one.setting: one for group in tried for one in group}
    return Search(
        classes=features.classes,
        features=features.width,
        seed=seed,
        fitted=fitted,
        held_out=held_out,
        zeros=_zeros(features),
        tried=tuple(results[one] for one in wanted),
        kernels=tuple(results[one] for one in kernel_settings(features.layers)),
    )


def _groups(settings: Sequence[Any]) -> list[list[Any]]:
    """Settings of one space and one start together."""
    groups: dict[Any, list[Any]] = {}
    for one in settings:
        key = (one.layer, one.transform) if isinstance(one, KernelSetting) else (*one.space, one.components)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _work(group: Sequence[Any]) -> float:
    if isinstance(group[0], KernelSetting):
        return 0.0
    counts = {"1": 1, "K": 20, "10": 20, "100": 100}
    return float(len(group) * group[0].neurons ** 2 * counts[group[0].components])


def _likelihood(one: Tried) -> float:
    return -np.inf if one.held_out is None else one.held_out


def _zeros(features: Features) -> float:
    train = features.after.train
    return sum(int((rows == 0).sum()) for rows in train.chunks()) / (len(train) * train.n_features)
