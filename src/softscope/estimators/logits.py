"""The scores of the logits: the classes E1-E3, margin, max-logit and energy, and `scores`, any of them in one pass.

One product z W' serves them all: the logits of a few rows are made once and read from cache. No N x K array exists at
any time, whatever N is. Up to COMPILE_ROWS rows are scored by the numpy formulas of `softmax.py`; above, where it pays
for itself, by the compiled kernel on all cores. The two agree to 1e-12.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns, check_finite, chunk_rows, spans
from ..blas import one_blas_thread
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from .base import ESTIMATORS, Estimator, Info, register
from .softmax import Tail, energy, margin, max_logit, plain_entropy, plain_max

COMPILE_ROWS = 20_000
_LOGIT_BYTES = 1 << 19  # logits at hand: half of a core's second-level cache
_TASK_BYTES = 1 << 23

Reader = Callable[[NDArray], list[NDArray]]
Task = tuple[int, NDArray]


class LogitEstimator(Estimator):
    """An uncertainty that is a function of the logits alone, scored by `scores`, the one place that has them."""

    temperature: float = 10.0  # read by `Cool` alone

    @staticmethod
    @abstractmethod
    def rank(warm: Tail, cool: Tail) -> Floats:
        """The rank form, from the tails at temperature 1 and at U_cool's temperature."""

    @staticmethod
    @abstractmethod
    def printed(logits: NDArray, temperature: float) -> NDArray:
        """The value as defined, from float32 logits; `temperature` is U_cool's."""

    def uncertainty(self, z: Any) -> Floats:
        return self._scores(z, plain=False)

    def plain(self, z: Any) -> NDArray[np.float32]:
        return self._scores(z, plain=True)

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return self._scores(rows, plain=False)

    def _scores(self, z: Any, *, plain: bool) -> NDArray:
        name = self.info.name
        features = self._features(z)
        return scores(self.head_, features, (name,), plain=plain, temperature=self.temperature)[name]


@register
class MaxProbability(LogitEstimator):
    """E1, U_max: minus the largest softmax probability, ranked by its log-odds."""

    info = Info("E1", "max", "U_max", "-max_i s_i", ("head",))

    @staticmethod
    def rank(warm: Tail, cool: Tail) -> Floats:
        return warm.log_odds()

    @staticmethod
    def printed(logits: NDArray, temperature: float) -> NDArray:
        return plain_max(logits)


@register
class Entropy(LogitEstimator):
    """E2, U_entropy: entropy of the softmax, ranked by its logarithm."""

    info = Info("E2", "entropy", "U_entropy", "-sum_i s_i log s_i", ("head",))

    @staticmethod
    def rank(warm: Tail, cool: Tail) -> Floats:
        return warm.log_entropy()

    @staticmethod
    def printed(logits: NDArray, temperature: float) -> NDArray:
        return plain_entropy(logits)


@register
class Cool(LogitEstimator):
    """E3, U_cool: entropy of the softmax of logits / temperature (the bias is divided too), ranked by its logarithm."""

    info = Info("E3", "cool", "U_cool", "U_entropy of logits / temperature", ("head",))

    def __init__(self, *, temperature: float = 10.0) -> None:
        self.temperature = temperature

    @staticmethod
    def rank(warm: Tail, cool: Tail) -> Floats:
        return cool.log_entropy()

    @staticmethod
    def printed(logits: NDArray, temperature: float) -> NDArray:
        return plain_entropy(logits, temperature)


@register
class Margin(LogitEstimator):
    """Minus the gap between the two largest logits."""

    info = Info("B1", "margin", "U_margin", "-(l_1 - l_2), logits sorted", ("head",), "Scheffer et al. 2001")

    @staticmethod
    def rank(warm: Tail, cool: Tail) -> Floats:
        return -warm.gap

    @staticmethod
    def printed(logits: NDArray, temperature: float) -> NDArray:
        return margin(logits)


@register
class MaxLogit(LogitEstimator):
    """Minus the largest logit."""

    info = Info("B2", "max-logit", "U_logit", "-max_i l_i", ("head",), "Hendrycks et al. 2022")

    @staticmethod
    def rank(warm: Tail, cool: Tail) -> Floats:
        return -warm.first

    @staticmethod
    def printed(logits: NDArray, temperature: float) -> NDArray:
        return max_logit(logits)


@register
class Energy(LogitEstimator):
    """Free energy: minus the logarithm of the summed exponentials of the logits."""

    info = Info("B3", "energy", "U_energy", "-log sum_i exp(l_i)", ("head",), "Liu et al. 2020")

    @staticmethod
    def rank(warm: Tail, cool: Tail) -> Floats:
        return warm.energy()

    @staticmethod
    def printed(logits: NDArray, temperature: float) -> NDArray:
        return energy(logits)


def scores(
    head: Head,
    z: Any,
    names: Sequence[str] = ("max", "entropy", "cool", "energy", "max-logit"),
    *,
    plain: bool = False,
    temperature: float = 10.0,
) -> dict[str, NDArray]:
    """Scores of the rows of `z` by name, float64 [N] each; with `plain` the paper's float32 values instead.

    A row's scores do not depend on the rows beside it. `temperature` is that of U_cool.
    """
    chosen = [logit_score(name) for name in names]
    check_temperature(temperature)
    features = FeatureSet.of(z)
    check_columns(features.n_features, f"{features.name}: z", columns=head.n_features)
    out = {name: np.empty(len(features), np.float32 if plain else np.float64) for name in names}
    many = len(features) > COMPILE_ROWS
    reader = reader_of(head, features.dtype, chosen, temperature, plain=plain, compiled=many)

    def work(task: Task) -> None:
        start, rows = task
        for span, product in blocks_of(head, rows):
            for name, column in zip(names, reader(product)):
                out[name][start + span.start : start + span.stop] = column
        if not all(np.isfinite(column[start : start + len(rows)]).all() for column in out.values()):
            raise _not_finite(head, features, task)

    (on_all_cores if many else in_turn)(work, tasks_of(head, features))
    return out


def logit_score(name: str) -> type[LogitEstimator]:
    """The score of the logits that is called `name`."""
    known = {name: cls for name, cls in ESTIMATORS.items() if issubclass(cls, LogitEstimator)}
    if name not in known:
        raise SoftscopeError(f"no score of the logits is called {name!r}", f"Choose from {', '.join(known)}")
    return known[name]


def check_temperature(temperature: float) -> float:
    """`temperature` if it is a positive number, else a SoftscopeError."""
    if not (np.isfinite(temperature) and temperature > 0):
        raise SoftscopeError(f"temperature is {temperature}", "Give a positive number, the paper's U_cool uses 10")
    return float(temperature)


def tasks_of(head: Head, features: FeatureSet) -> Iterator[Task]:
    """The features in pieces of a few MB, each with the number of its first row."""
    size = _whole(chunk_rows(head.n_features, features.dtype.itemsize, _TASK_BYTES), head.block_rows)
    start = 0
    for rows in features.unchecked_chunks(size):
        yield start, rows
        start += len(rows)


def blocks_of(head: Head, rows: NDArray) -> Iterator[tuple[slice, NDArray]]:
    """The products of `rows` with the weights, a cacheful at a time; the next block takes the place of the last."""
    dtype = head.logit_dtype(rows.dtype)
    size = _whole(chunk_rows(head.n_classes, dtype.itemsize, _LOGIT_BYTES), head.block_rows)
    product = np.empty((min(size, len(rows)), head.n_classes), dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found in the scores
        for span in spans(len(rows), size):
            here = product[: span.stop - span.start]
            head.product(rows[span], here)
            yield span, here


def reader_of(
    head: Head,
    dtype: np.dtype,
    chosen: Sequence[type[LogitEstimator]],
    temperature: float,
    *,
    plain: bool,
    compiled: bool,
) -> Reader:
    """From products z W' of some rows to their scores, in the order of `chosen`."""
    bias = head.bias.astype(head.logit_dtype(dtype))

    def read_plain(product: NDArray) -> list[NDArray]:
        logits = (product + bias).astype(np.float32, copy=False)
        return [one.printed(logits, temperature) for one in chosen]

    def read_rank(product: NDArray) -> list[NDArray]:
        logits = product + bias
        warm = Tail.of(logits)
        cool = Tail.of(logits, temperature) if any(one.info.name == "cool" for one in chosen) else warm
        return [one.rank(warm, cool) for one in chosen]

    def read_compiled(product: NDArray) -> list[NDArray]:
        from .compiled import tails

        sums = np.empty((2, 4, len(product)))
        tails(product, bias, 1.0 / temperature, sums[0], sums[1])
        warm, cool = Tail(*sums[0]), Tail(*sums[1])
        return [one.rank(warm, cool) for one in chosen]

    return read_plain if plain else read_compiled if compiled else read_rank


def in_turn(work: Callable[[Task], None], tasks: Iterable[Task]) -> None:
    """`work` on each task, one after the other."""
    for task in tasks:
        work(task)


def on_all_cores(work: Callable[[Task], None], tasks: Iterable[Task]) -> None:
    """`work` on each task, one thread per core, BLAS single-threaded: one's product overlaps another's scores."""
    from concurrent.futures import Future, ThreadPoolExecutor

    pending: deque[Future[None]] = deque()
    with one_blas_thread() as threads, ThreadPoolExecutor(threads) as pool:
        try:
            for task in tasks:
                pending.append(pool.submit(work, task))
                if len(pending) > 2 * threads:
                    pending.popleft().result()
            while pending:
                pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _not_finite(head: Head, features: FeatureSet, task: Task) -> SoftscopeError:
    start, rows = task
    check_finite(rows, f"{features.name}: z", first_row=start)
    return SoftscopeError(
        f"{features.name}: z from row {start} on has logits beyond the range of {head.logit_dtype(features.dtype)}",
        "Scale the features down, or give z and the head in float64",
    )


def _whole(rows: int, block: int) -> int:
    """`rows` rounded down to whole blocks, at least one."""
    return max(1, rows // block) * block
