"""Uncertainty as minus the log density of training features: a Gaussian mixture (E4), or a kernel on each row (E8)."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import (
    ClassMoments,
    Conditioning,
    Covariance,
    GaussianMixture,
    Kernels,
    Statistics,
    TiedStatistics,
    first_statistics,
    fit_from,
    held_out_bandwidth,
    start,
)
from .base import Estimator, Info, register, unit_rows
from .neighbours import kept_rows

Init = Literal["labels", "kmeans", "random"]
Transform = Literal["none", "log"]
LOG_OFFSET = 1e-3
#: Of all covariances together: 102 classes of 1,280 features have one each, 10 classes of 4,096 share one.
FULL_BYTES = 1.34e9


class _Transformed(Estimator):
    """A density of z, or of what `normalise`, `columns_` and `transform` make of it, in this order."""

    transform: Transform
    normalise: bool
    columns_: NDArray[np.int64] | None
    offset_: float | None

    def _check(self, head: Head) -> None:
        self._check_known("transform", self.transform, get_args(Transform))

    def _check_known(self, name: str, value: str, known: tuple[str, ...]) -> None:
        if value not in known:
            raise SoftscopeError(f"{self.info.name}: {name} {value!r} is unknown", f"Use one of {', '.join(known)}")

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        self.offset_ = LOG_OFFSET if self.transform == "log" else None
        self.columns_ = None

    def _transformed(self, rows: NDArray) -> NDArray:
        scaled = unit_rows(rows) if self.normalise else rows
        chosen = scaled if self.columns_ is None else scaled[:, self.columns_]
        return chosen if self.offset_ is None else log_features(chosen, self.offset_)

    def state(self) -> dict[str, NDArray]:
        columns = {} if self.columns_ is None else {"columns": self.columns_}
        return columns if self.offset_ is None else columns | {"offset": np.array([self.offset_])}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self.columns_ = state.get("columns")
        self.offset_ = float(state["offset"][0]) if "offset" in state else None


@register
@dataclass(kw_only=True, eq=False, repr=False)
class Density(_Transformed):
    """E4: U_density = -log q(z), q a Gaussian mixture on training features, fitted by EM.

    Defaults are the paper's best: K components of full covariance, ridge 1e-5, all neurons. `init` says where EM
    starts: the classes, k-means, or rows drawn at random. `one_per_class` fits each class by itself, without EM.
    `transform="log"` works on log(max(z, 0) + d), d = `offset_`; `neurons` takes that many columns drawn by `seed`;
    `normalise` works on z / norm(z), before all of these. Where full covariances would need more than 1.34 GB (K H^2
    numbers), the components share one, and a warning says so.

    After `fit`: `mixture_` (with its history), `conditioning_` (rank, condition, ridge and precision of each
    component), `columns_`, `offset_`.

    >>> import numpy as np
    >>> import softscope as sx
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(200) % 2
    >>> z = rng.normal(size=(200, 3)) + 4 * labels[:, None]
    >>> density = sx.Density().fit(sx.Head([[-1.0, -1, -1], [1.0, 1, 1]]), sx.FeatureSet(z, labels))
    >>> near, far = density.uncertainty([[4.0, 4.0, 4.0], [40.0, 40.0, 40.0]])
    >>> bool(far > near)
    True
    """

    info = Info("E4", "density", "U_density", "-log sum_k w_k N(z; mu_k, Sigma_k)", ("train", "labels"))

    components: int | None = None
    covariance: Covariance = "full"
    ridge: float = 1e-5
    init: Init = "labels"
    one_per_class: bool = False
    transform: Transform = "none"
    normalise: bool = False
    neurons: int | None = None
    seed: int = 0
    mixture_: GaussianMixture = field(init=False)

    @property
    def needs(self) -> tuple[str, ...]:
        """Labels only where EM starts from the classes, or is not used."""
        return self.info.needs if self._from_classes else ("train",)

    @property
    def _from_classes(self) -> bool:
        return self.components != 1 and (self.init == "labels" or self.one_per_class)

    @property
    def conditioning_(self) -> tuple[Conditioning, ...]:
        """How each component's covariance came out."""
        return self.mixture_.conditioning

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        super()._fit(head, train, moments)
        if self.neurons is not None:
            self.columns_ = drawn_columns(train.n_features, self.neurons, self.seed)
        view = _View(train, self)
        # Not kept in a name here: EM lets go of the first statistics, which may be most of the memory.
        self.mixture_ = fit_from(
            view,
            self._first(head, train, view, moments),
            ridge=self.ridge,
            iterations=0 if self.one_per_class or self.components == 1 else 100,
        )

    def _first(self, head: Head, train: FeatureSet, view: "_View", moments: ClassMoments | None) -> Statistics:
        """Where EM starts: without a pass where a shared covariance of the features as they are is asked for."""
        covariance, groups = self._affordable(head, view.n_features), self._start(head, train, view)
        as_they_are = self.columns_ is None and self.offset_ is None and not self.normalise
        if covariance == "tied" and moments is not None and as_they_are and groups is train.labels:
            return TiedStatistics.of_classes(moments)
        return first_statistics(view, groups, covariance)

    def _affordable(self, head: Head, features: int) -> Covariance:
        """The covariance asked for; one for all components where one each would need more than FULL_BYTES.

        The limit is fixed, not this machine's free memory: the same features give the same density everywhere.
        """
        components = self.components or head.n_classes
        size = components * features**2 * 8
        if self.covariance != "full" or size <= FULL_BYTES:
            return self.covariance
        warnings.warn(
            f"density: {components:,} covariances of {features:,} x {features:,} need {size / 1e9:.0f} GB; all "
            'components share one covariance instead (covariance="tied")',
            stacklevel=2,
        )
        return "tied"

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return -self.mixture_.log_density(self._transformed(rows))

    def _chunk(self) -> int:
        # Rows are gathered by component: the more at once, the fuller each product.
        return max(4096, (1 << 26) // (4 * self.n_features_))

    def state(self) -> dict[str, NDArray]:
        return {**self.mixture_.state(), **super().state()}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        super()._restore(state)
        self.mixture_ = GaussianMixture.from_state(state)

    def _start(self, head: Head, train: FeatureSet, view: "_View") -> NDArray[np.int64]:
        components = self.components or head.n_classes
        if not self._from_classes:
            return start(view, components, "random" if self.init == "labels" else self.init, self.seed)
        assert train.labels is not None
        if components != head.n_classes:
            raise SoftscopeError(
                f"density: the classes give {head.n_classes} components, {components} were asked for",
                'Use Density(init="kmeans") for another number',
            )
        return train.labels

    def _check(self, head: Head) -> None:
        self._check_known("init", self.init, get_args(Init))
        super()._check(head)
        if self.components is not None and self.components < 1:
            raise SoftscopeError(f"density: {self.components} components", "Ask for at least 1")
        if self.neurons is not None and not 1 <= self.neurons <= head.n_features:
            raise SoftscopeError(
                f"density: {self.neurons} neurons asked for, the features have {head.n_features}",
                f"Use 1 to {head.n_features}, or None for all",
            )


@register
@dataclass(kw_only=True, eq=False, repr=False)
class KernelDensity(_Transformed):
    """E8: minus the log of a density with one isotropic Gaussian on each training row.

    `bandwidth` None takes the one under which held-out training rows are most likely (`held_out_bandwidth`);
    `bandwidth_` is the one used. `transform="log"` works on log(max(z, 0) + d), d = `offset_`, as in `Density`,
    and `normalise` on z / norm(z). The
    training rows are kept: `max_rows` of them at most, drawn by `seed` where there are more; `rows_` says how many.
    """

    info = Info("E8", "kde", "U_kde", "-log (1/N) sum_n N(z; x_n, h^2 I)", ("train",))

    bandwidth: float | None = None
    transform: Transform = "none"
    normalise: bool = False
    max_rows: int = 100_000
    seed: int = 0
    bandwidth_: float = field(init=False)
    rows_: int = field(init=False)

    def _check(self, head: Head) -> None:
        if self.bandwidth is not None and not (np.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise SoftscopeError(f"kde: bandwidth is {self.bandwidth}", "Give a positive number, or None to choose it")
        super()._check(head)

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        super()._fit(head, train, moments)
        rows = self._transformed(kept_rows(train, self.max_rows, self.seed))
        bandwidth = held_out_bandwidth(rows, self.seed).value if self.bandwidth is None else self.bandwidth
        self._take(Kernels.on(rows, bandwidth))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return -self._kernels.log_density(self._transformed(rows))

    def state(self) -> dict[str, NDArray]:
        kernels = self._kernels
        bandwidth = np.array([kernels.bandwidth])
        return {"centres": kernels.centres, "origin": kernels.origin, "bandwidth": bandwidth, **super().state()}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        super()._restore(state)
        self._take(Kernels(state["centres"], state["origin"], float(state["bandwidth"][0])))

    def _take(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self.bandwidth_ = kernels.bandwidth
        self.rows_ = len(kernels.centres)


def drawn_columns(features: int, neurons: int, seed: int) -> NDArray[np.int64]:
    """`neurons` of `features` columns, drawn by `seed`, ascending."""
    return np.sort(np.random.default_rng(seed).choice(features, neurons, replace=False))


def log_features(rows: NDArray, offset: float) -> NDArray:
    """log(max(z, 0) + d), in the rows' own type."""
    logs: NDArray = np.log(np.maximum(rows, 0) + rows.dtype.type(offset))
    return logs


class _View:
    """The transformed, chosen columns of a feature set, chunk by chunk."""

    def __init__(self, features: FeatureSet, density: Density) -> None:
        self._features, self._density = features, density

    def __len__(self) -> int:
        return len(self._features)

    @property
    def n_features(self) -> int:
        columns = self._density.columns_
        return self._features.n_features if columns is None else len(columns)

    def chunks(self, rows: int | None = None) -> Iterator[NDArray]:
        for chunk in self._features.chunks(rows):
            yield self._density._transformed(chunk)

    def over_shards(self, work: Callable[[Any, Any], Any], values: Any = None) -> list[Any]:
        return self._features.over_shards(partial(_in_view, work, self._density), values)


def _in_view(work: Callable[[Any, Any], Any], density: Density, shard: FeatureSet, values: Any) -> Any:
    return work(_View(shard, density), values)
