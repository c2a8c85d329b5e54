"""Fit and judge settings that share work: one space, one start, one pass of statistics for every ridge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..canonical import code_digest
from ..mixture import GaussianMixture, Kernels, first_statistics, fit_from, held_out_bandwidth, start
from ..provenance import Stopwatch
from ..runs import Draft, Run
from .options import KernelSetting, Setting
from .spaces import Features, Space

#: What a step's result depends on beside its settings: where this code changes, stores compute it again.
CODE = (
    "softscope.tuning.fitting", "softscope.tuning.spaces", "softscope.mixture.gaussian", "softscope.mixture.full",
    "softscope.mixture.diagonal", "softscope.mixture.bounds", "softscope.mixture.conditioning",
    "softscope.mixture.kernel", "softscope.mixture.starts",
)  # fmt: skip
KERNEL_ROWS = 10_000


@dataclass(frozen=True)
class Tried:
    """A setting and how it did.

    `auroc` in percent by OOD set; `held_out` and `test` mean log densities of z (None: see Space.log_likelihood);
    `iterations` of EM and whether it `converged`; `components` left, how many of them were `remedied` because the
    ridge did not make their covariance invertible, and how; `bandwidth` of a kernel density.
    """

    setting: Setting | KernelSetting
    held_out: float | None
    test: float | None
    auroc: Mapping[str, float]
    iterations: int = 0
    converged: bool = True
    components: int = 0
    remedied: int = 0
    remedy: str = ""
    bandwidth: float | None = None
    seconds: float = 0.0

    @property
    def mean_auroc(self) -> float:
        """Mean over OOD sets, in percent."""
        return float(np.mean(list(self.auroc.values())))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the setting's among the others; `kept` is how many components were left."""
        values = asdict(self)
        setting, kept = values.pop("setting"), values.pop("components")
        return {**setting, **values, "kept": kept}


@dataclass(frozen=True)
class Bench:
    """What a group of settings is tried on; small and picklable where the features lie in files.

    EM stops after `iterations` at the latest; at most `judged` rows of a set judge a fit (None: all). With `run` each
    setting is a step of it, so that a search continues where it stopped; `inputs` are what determines the features.
    """

    features: Features
    seed: int = 0
    iterations: int = 20
    judged: int | None = None
    run: Run | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def keep(self, setting: Setting | KernelSetting, produce: Callable[[], dict[str, Any]]) -> Tried:
        """The setting's result: read from the store, or produced and kept there."""
        if self.run is None:
            watch = Stopwatch()
            return Tried(setting, **produce(), seconds=watch.provenance()["seconds"])

        def write(draft: Draft) -> None:
            draft.json(produce())

        known = {"seed": self.seed, "iterations": self.iterations, "judged": self.judged, "code": code_digest(*CODE)}
        step = self.run.step("tune", write, inputs={**self.inputs, **known, "setting": asdict(setting)})
        return Tried(setting, **step.json(), seconds=float(step.provenance.get("seconds", 0.0)))


def try_group(bench: Bench, group: Sequence[Setting | KernelSetting]) -> list[Tried]:
    """Every setting of a group that shares its space (and, of mixtures, its start)."""
    first = group[0]
    shared: Any = _Kernels(bench, first) if isinstance(first, KernelSetting) else _Mixtures(bench, first)
    ordered = sorted(group, key=lambda one: getattr(one, "covariance", ""))
    return [bench.keep(one, partial(shared.judge, one)) for one in ordered]


class _Mixtures:
    """Mixtures of one space and one start, made when first asked for: what is in the store costs nothing."""

    def __init__(self, bench: Bench, like: Setting) -> None:
        self._bench, self._like = bench, like
        self._space: Space | None = None
        self._start: NDArray[np.int64] | None = None
        self._first: tuple[str, Any] = ("", None)

    def judge(self, setting: Setting) -> dict[str, Any]:
        """Fit the setting's mixture and judge it."""
        if self._space is None:
            self._space = Space(self._bench.features, *self._like.space, self._bench.seed, self._bench.judged)
        space = self._space
        closed = setting.fit == "classes" or setting.components == "1"
        mixture = fit_from(
            space.fit,
            self._statistics(space, setting),
            ridge=setting.ridge,
            iterations=0 if closed else self._bench.iterations,
            measured=False,
        )
        remedies = _remedies(mixture)
        return {
            **space.judge(mixture.log_density),
            "iterations": len(mixture.history),
            "converged": mixture.converged,
            "components": len(mixture.weights),
            "remedied": len(remedies),
            "remedy": max(set(remedies), key=remedies.count, default=""),
        }

    def _statistics(self, space: Space, setting: Setting) -> Any:
        if self._first[0] != setting.covariance:
            self._first = ("", None)  # let go before making more
            self._first = (setting.covariance, first_statistics(space.fit, self._groups(space), setting.covariance))
        return self._first[1]

    def _groups(self, space: Space) -> NDArray[np.int64]:
        if self._start is None:
            labels = space.fit.labels
            assert labels is not None
            count = self._like.count(self._bench.features.classes)
            by_class = self._like.components == "K"
            self._start = labels if by_class else start(space.fit, count, "kmeans", self._bench.seed)
        return self._start


def _remedies(mixture: GaussianMixture) -> list[str]:
    """What was done to each covariance that its ridge did not make invertible."""
    return [line.remedy for line in mixture.conditioning if line.remedy and line.remedy != "dropped"]


class _Kernels:
    """Kernel densities of one space: one held-out bandwidth serves its multiples."""

    def __init__(self, bench: Bench, like: KernelSetting) -> None:
        self._bench, self._like = bench, like
        self._made: tuple[Space, NDArray, float] | None = None

    def judge(self, setting: KernelSetting) -> dict[str, Any]:
        """A density with the setting's bandwidth, judged."""
        if self._made is None:
            features, seed = self._bench.features, self._bench.seed
            space = Space(features, self._like.layer, self._like.transform, features.width, seed, self._bench.judged)
            rows = space.fit.array()
            if len(rows) > KERNEL_ROWS:
                rows = rows[np.sort(np.random.default_rng(seed).choice(len(rows), KERNEL_ROWS, replace=False))]
            self._made = space, rows, held_out_bandwidth(rows, seed).value
        space, rows, bandwidth = self._made
        used = setting.bandwidth * bandwidth
        return {**space.judge(Kernels.on(rows, used).log_density), "bandwidth": used}
