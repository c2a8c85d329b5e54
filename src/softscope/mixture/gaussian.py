"""Gaussian mixtures fitted by EM, one pass over chunks an iteration, and their log density (E4)."""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_labels, chunk_rows, placed
from ..errors import SoftscopeError
from .conditioning import Conditioning, Covariance, Statistics, dropped
from .diagonal import DiagonalComponents, DiagonalStatistics, SphericalStatistics
from .full import FullComponents, FullStatistics, TiedComponents, TiedStatistics
from .moments import Moments, in_tree_order

T = TypeVar("T")
_CHUNK_BYTES = 1 << 26


class Rows(Protocol):
    """What a mixture is fitted on: a `FeatureSet`, or a view of one."""

    def __len__(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    def chunks(self, rows: int | None = None) -> Iterator[NDArray]: ...


class Components(Protocol):
    """K weighted Gaussians."""

    weights: Floats
    means: Floats

    def log_joint(self, x: NDArray) -> Floats:
        """log w_k + log N(x; mu_k, Sigma_k), [n, K]."""

    def state(self) -> dict[str, NDArray]:
        """Arrays that `from_state` rebuilds them from."""


#: What each kind of covariance sums, and the components it makes of it.
_KINDS: dict[str, tuple[Any, Any]] = {
    "full": (FullStatistics, FullComponents),
    "tied": (TiedStatistics, TiedComponents),
    "diagonal": (DiagonalStatistics, DiagonalComponents),
    "spherical": (SphericalStatistics, DiagonalComponents),
}


@dataclass(frozen=True)
class GaussianMixture:
    """q(z) = sum_k w_k N(z; mu_k, Sigma_k). `history` is the mean log-likelihood before each update."""

    covariance: Covariance
    components: Components
    history: tuple[float, ...] = ()
    converged: bool = True
    conditioning: tuple[Conditioning, ...] = field(default=(), repr=False)

    @property
    def weights(self) -> Floats:
        """[K], summing to 1."""
        return self.components.weights

    @property
    def means(self) -> Floats:
        """[K, H]."""
        return self.components.means

    def log_density(self, x: NDArray) -> Floats:
        """log q of each row, float64, in log space throughout."""
        out = np.empty(len(x))
        size = _rows_a_chunk(x.shape[1], len(self.weights))
        for start in range(0, len(x), size):
            out[start : start + size] = _normaliser(self.components.log_joint(x[start : start + size]))
        return out

    def state(self) -> dict[str, NDArray]:
        """Arrays that rebuild the mixture (without its history)."""
        return {"covariance": np.array(get_args(Covariance).index(self.covariance)), **self.components.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray]) -> "GaussianMixture":
        """The inverse of `state`."""
        covariance: Covariance = get_args(Covariance)[int(state["covariance"])]
        return cls(covariance, _KINDS[covariance][1].from_state(dict(state)))


def fit_mixture(
    rows: Rows,
    start: NDArray[np.int64],
    *,
    covariance: Covariance = "full",
    ridge: float = 1e-5,
    iterations: int = 100,
    tolerance: float = 1e-3,
) -> GaussianMixture:
    """EM from a hard assignment `start` [N] of rows to components 0..K-1.

    Stops when the mean log-likelihood changes by less than `tolerance`, as scikit-learn does. `iterations=0` is the
    closed-form fit of each group by itself.

    >>> import numpy as np
    >>> import softscope as sx
    >>> z = np.random.default_rng(0).normal(size=(300, 2)) + 5 * (np.arange(300) % 2)[:, None]
    >>> mixture = fit_mixture(sx.FeatureSet(z), np.arange(300) % 2, covariance="full")
    >>> mixture.log_density(np.array([[0.0, 0.0], [5.0, 5.0], [50.0, 0.0]])).round(0)
    array([  -2.,   -3., -933.])
    """
    # Not kept in a name here: EM lets go of the first statistics, which may be most of the memory, as soon as it can.
    return fit_from(
        rows, first_statistics(rows, start, covariance), ridge=ridge, iterations=iterations, tolerance=tolerance
    )


def first_statistics(rows: Rows, start: NDArray[np.int64], covariance: Covariance) -> Statistics:
    """Statistics of the groups of `start`, the same for every ridge: a pass for their means, then one about these."""
    if covariance not in get_args(Covariance):
        raise SoftscopeError(f"covariance {covariance!r} is unknown", f"Use one of {', '.join(get_args(Covariance))}")
    as_labels(start, "start", rows=len(rows))
    means, whole = _group_means(rows, start, scatter=covariance == "tied")
    statistics: Statistics = _KINDS[covariance][0].about(means, whole, rows)
    return in_tree_order(_over_shards(rows, partial(_add_groups, statistics), start), _joined)


def fit_from(
    rows: Rows,
    first: Statistics,
    *,
    ridge: float = 1e-5,
    iterations: int = 100,
    tolerance: float = 1e-3,
    measured: bool = True,
) -> GaussianMixture:
    """`fit_mixture` from statistics that several ridges may share; `first` is left as it is.

    Not `measured`, its `conditioning` lacks ranks and condition numbers: with many full covariances these take as
    long as an iteration.
    """
    if not (np.isfinite(ridge) and ridge >= 0):
        raise SoftscopeError(f"ridge is {ridge}, expected a number >= 0", "The paper uses 1e-5")
    statistics = copy(first)
    del first
    statistics.ridge = ridge
    survivors = _Survivors(len(statistics.counts))
    components = _m_step(statistics, survivors)
    history: list[float] = []
    converged = iterations == 0
    while not converged and len(history) < iterations:
        statistics = statistics.empty(components.means)
        likelihood, statistics = _e_step(rows, components, statistics)
        history.append(likelihood)
        del components
        components = _m_step(statistics, survivors)
        converged = len(history) > 1 and abs(history[-1] - history[-2]) < tolerance
    lines = survivors.report(statistics.conditioning(components, survivors.kept, measured=measured))
    return GaussianMixture(statistics.covariance, components, tuple(history), converged, lines)


def _e_step(rows: Rows, components: Components, empty: Statistics) -> tuple[float, Statistics]:
    """The mean log-likelihood, and the statistics of every row by the responsibilities of the components for it."""
    parts = _over_shards(rows, partial(_responsibilities, components, empty))
    total = in_tree_order([total for total, _ in parts], lambda one, other: one + other)
    return total / len(rows), in_tree_order([statistics for _, statistics in parts], _joined)


def _responsibilities(
    components: Components, statistics: Statistics, rows: Rows, values: None
) -> tuple[float, Statistics]:
    """Sum of the log-likelihoods of `rows`, which are added to `statistics`."""
    total = 0.0
    for x in rows.chunks(_rows_a_chunk(rows.n_features, len(components.weights))):
        joint = components.log_joint(x)
        normaliser = _normaliser(joint)
        total += float(normaliser.sum())
        joint -= normaliser[:, None]
        # exp of anything below is denormal or zero, and far below what the statistics count.
        np.maximum(joint, -80.0, out=joint)
        statistics.add(x, np.exp(joint, out=joint))
    return total, statistics


def _over_shards(rows: Rows, work: Callable[[Any, Any], T], values: Any = None) -> list[T]:
    """`work(shard, its part of values)` for every shard of `rows`, in order; other rows are one shard."""
    run = getattr(rows, "over_shards", None)
    return [work(rows, values)] if run is None else run(work, values)


def _joined(one: Statistics, other: Statistics) -> Statistics:
    one.merge(other)
    return one


def _m_step(statistics: Statistics, survivors: "_Survivors") -> Components:
    """The maximum-likelihood components of `statistics`; those left without rows are dropped."""
    components: Components
    components, kept = statistics.components()
    survivors.keep(kept, statistics.counts)
    return components


class _Survivors:
    """Which of the components that were asked for are left, under their first numbers."""

    def __init__(self, components: int) -> None:
        self.kept = self._numbers = np.arange(components)
        self._gone: dict[int, Conditioning] = {}

    def keep(self, kept: NDArray[np.int64], counts: Floats) -> None:
        """Of the components left so far, with these `counts`, the last step kept `kept`."""
        for k in np.setdiff1d(np.arange(len(counts)), kept):
            number = int(self._numbers[k])
            self._gone[number] = dropped(number, float(counts[k]))
        self.kept, self._numbers = kept, self._numbers[kept]

    def report(self, lines: tuple[Conditioning, ...]) -> tuple[Conditioning, ...]:
        """The lines of the survivors (a line of a shared covariance stays as it is) and of those that were dropped."""
        shared = [line for line in lines if line.component < 0]
        own = [replace(line, component=int(n)) for line, n in zip(lines, self._numbers) if line.component >= 0]
        return (*shared, *sorted([*own, *self._gone.values()], key=lambda line: line.component))


def _normaliser(joint: Floats) -> Floats:
    """log sum_k exp(joint[:, k]) of each row."""
    best = joint.max(axis=1)
    shifted = joint - best[:, None]
    np.maximum(shifted, -80.0, out=shifted)
    np.exp(shifted, out=shifted)
    return np.asarray(best + np.log(shifted.sum(axis=1)))


def _rows_a_chunk(features: int, components: int) -> int:
    return max(256, min(chunk_rows(features, 4, _CHUNK_BYTES), chunk_rows(components, 8, _CHUNK_BYTES // 2)))


def _group_means(rows: Rows, start: NDArray[np.int64], *, scatter: bool) -> tuple[Floats, Moments]:
    """Mean of each group [K, H] (of all rows where a group is empty), and the moments of all rows, the scatter only
    where it is asked for."""
    parts = _over_shards(rows, partial(_group_sums, int(start.max()) + 1, scatter), start)
    counts = in_tree_order([part[0] for part in parts], np.add)
    sums = in_tree_order([part[1] for part in parts], np.add)
    whole = in_tree_order([part[2] for part in parts], Moments.merge)
    centre = sums.sum(axis=0) / counts.sum()
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1.0)[:, None], centre)
    return means, whole if scatter else Moments(float(counts.sum()), centre, whole.scatter)


def _group_sums(classes: int, scatter: bool, rows: Rows, start: NDArray[np.int64]) -> tuple[Floats, Floats, Moments]:
    """How many rows each group has, their sums [K, H], and the moments of all rows where `scatter` is asked for."""
    counts, sums = np.zeros(classes), np.zeros((classes, rows.n_features))
    whole = Moments(0.0, np.zeros(rows.n_features), np.zeros((rows.n_features, rows.n_features)))
    for x, member in _groups_of(rows, start, classes):
        counts += member.sum(axis=0)
        sums += member.T @ x
        if scatter:
            whole = whole.merge(Moments.of(x))
    return counts, sums, whole


def _add_groups(statistics: Statistics, rows: Rows, start: NDArray[np.int64]) -> Statistics:
    """`statistics` with the rows of each group added."""
    for x, member in _groups_of(rows, start, len(statistics.counts)):
        statistics.add(x, member)
    return statistics


def _groups_of(rows: Rows, start: NDArray[np.int64], classes: int) -> Iterator[tuple[NDArray, Floats]]:
    """Chunks of rows, each with its one-hot membership [n, K]."""
    for span, x in placed(rows.chunks(_rows_a_chunk(rows.n_features, classes))):
        yield x, (start[span, None] == np.arange(classes)).astype(np.float64)
