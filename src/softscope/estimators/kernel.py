"""E8, kernel density on training features: the paper's worse alternative to the Gaussian mixture."""

from collections.abc import Mapping
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments, Kernels, held_out_bandwidth
from .base import Estimator, Info, register, unit_rows
from .density import LOG_OFFSET, Transform, log_features
from .neighbours import kept_rows


@register
class KernelDensity(Estimator):
    """E8: minus the log of a density with one isotropic Gaussian on each training row.

    `bandwidth` None takes the one under which held-out training rows are most likely (`held_out_bandwidth`);
    `bandwidth_` is the one used. `transform="log"` works on log(max(z, 0) + d), d = `offset_`, as in `Density`,
    and `normalise` on z / norm(z). The
    training rows are kept: `max_rows` of them at most, drawn by `seed` where there are more; `rows_` says how many.
    """

    info = Info("E8", "kde", "U_kde", "-log (1/N) sum_n N(z; x_n, h^2 I)", ("train",))

    bandwidth_: float
    rows_: int
    offset_: float | None

    def __init__(
        self,
        *,
        bandwidth: float | None = None,
        transform: Transform = "none",
        normalise: bool = False,
        max_rows: int = 100_000,
        seed: int = 0,
    ) -> None:
        self.bandwidth = bandwidth
        self.transform = transform
        self.normalise = normalise
        self.max_rows = max_rows
        self.seed = seed

    def _check(self, head: Head) -> None:
        if self.bandwidth is not None and not (np.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise SoftscopeError(f"kde: bandwidth is {self.bandwidth}", "Give a positive number, or None to choose it")
        if self.transform not in get_args(Transform):
            raise SoftscopeError(
                f"kde: transform {self.transform!r} is unknown", f"Use one of {', '.join(get_args(Transform))}"
            )

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        self.offset_ = LOG_OFFSET if self.transform == "log" else None
        rows = self._transformed(kept_rows(train, self.max_rows, self.seed))
        bandwidth = held_out_bandwidth(rows, self.seed).value if self.bandwidth is None else self.bandwidth
        self._take(Kernels.on(rows, bandwidth))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return -self._kernels.log_density(self._transformed(rows))

    def state(self) -> dict[str, NDArray]:
        kernels = self._kernels
        offset = {} if self.offset_ is None else {"offset": np.array([self.offset_])}
        bandwidth = np.array([kernels.bandwidth])
        return {"centres": kernels.centres, "origin": kernels.origin, "bandwidth": bandwidth, **offset}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self.offset_ = float(state["offset"][0]) if "offset" in state else None
        self._take(Kernels(state["centres"], state["origin"], float(state["bandwidth"][0])))

    def _transformed(self, rows: NDArray) -> NDArray:
        scaled = unit_rows(rows) if self.normalise else rows
        return scaled if self.offset_ is None else log_features(scaled, self.offset_)

    def _take(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self.bandwidth_ = kernels.bandwidth
        self.rows_ = len(kernels.centres)
