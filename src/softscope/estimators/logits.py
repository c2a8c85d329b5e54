"""The scores of the logits: the classes E1-E3, margin, max-logit and energy, and many scores in one pass.

`scores` gives any scores of the logits, `uncertainties` those of any fitted estimators of one head.

One product z W' serves them all: the logits of a few rows are made once and read from cache. No N x K array exists at
any time, whatever N is. Up to COMPILE_ROWS rows are scored by the numpy formulas of `softmax.py`; above, where it pays
for itself, by compiled loops on all cores. The two agree to 1e-12.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns, check_finite, chunk_rows, placed, spans
from ..blas import one_blas_thread
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from .base import ESTIMATORS, Block, Estimator, Info, LogitReader, register
from .softmax import Tail, energy, margin, max_logit, plain_entropy, plain_max

COMPILE_ROWS = 20_000
_LOGIT_BYTES = 1 << 19  # logits at hand: half of a core's second-level cache
_TASK_BYTES = 1 << 23

Task = tuple[int, NDArray]


class LogitEstimator(Estimator):
    """An uncertainty that is a function of the logits alone, scored by `scores`, the one place that has them."""

    temperature: float = 10.0  # read by `Cool` alone
    cooled: ClassVar[bool] = False  # whether it reads logits / temperature
    _rank: ClassVar["staticmethod[[Tail], Floats]"]
    _printed: ClassVar["staticmethod[[NDArray], NDArray]"]

    @classmethod
    def rank(cls, warm: Tail, cool: Tail) -> Floats:
        """The rank form, from the tails at temperature 1 and at U_cool's temperature."""
        return cls._rank(cool if cls.cooled else warm)

    @classmethod
    def printed(cls, logits: NDArray, temperature: float) -> NDArray:
        """The value as defined, from float32 logits; `temperature` is U_cool's."""
        return cls._printed(logits / logits.dtype.type(temperature) if cls.cooled else logits)

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
    _rank, _printed = staticmethod(Tail.log_odds), staticmethod(plain_max)


@register
class Entropy(LogitEstimator):
    """E2, U_entropy: entropy of the softmax, ranked by its logarithm."""

    info = Info("E2", "entropy", "U_entropy", "-sum_i s_i log s_i", ("head",))
    _rank, _printed = staticmethod(Tail.log_entropy), staticmethod(plain_entropy)


@register
class Cool(LogitEstimator):
    """E3, U_cool: entropy of the softmax of logits / temperature (the bias is divided too), ranked by its logarithm."""

    info = Info("E3", "cool", "U_cool", "U_entropy of logits / temperature", ("head",))
    _rank, _printed = staticmethod(Tail.log_entropy), staticmethod(plain_entropy)
    cooled = True

    def __init__(self, *, temperature: float = 10.0) -> None:
        self.temperature = temperature


@register
class Margin(LogitEstimator):
    """Minus the gap between the two largest logits."""

    info = Info("B1", "margin", "U_margin", "-(l_1 - l_2), logits sorted", ("head",), "Scheffer et al. 2001")
    _rank, _printed = staticmethod(Tail.margin), staticmethod(margin)


@register
class MaxLogit(LogitEstimator):
    """Minus the largest logit."""

    info = Info("B2", "max-logit", "U_logit", "-max_i l_i", ("head",), "Hendrycks et al. 2022")
    _rank, _printed = staticmethod(Tail.max_logit), staticmethod(max_logit)


@register
class Energy(LogitEstimator):
    """Free energy: minus the logarithm of the summed exponentials of the logits."""

    info = Info("B3", "energy", "U_energy", "-log sum_i exp(l_i)", ("head",), "Liu et al. 2020")
    _rank, _printed = staticmethod(Tail.energy), staticmethod(energy)


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
    chosen = {name: logit_score(name) for name in names}
    check_temperature(temperature)
    features = FeatureSet.of(z)
    check_columns(features.n_features, f"{features.name}: z", columns=head.n_features)
    out = {name: np.empty(len(features), np.float32 if plain else np.float64) for name in names}

    def read(place: slice, block: Block) -> None:
        for name, kind in chosen.items():
            if plain:
                out[name][place] = kind.printed(block.logits.astype(np.float32, copy=False), temperature)
            else:
                out[name][place] = kind.rank(block.warm, block.cool if kind.cooled else block.warm)

    def check(start: int, rows: NDArray) -> None:
        if not all(np.isfinite(column[start : start + len(rows)]).all() for column in out.values()):
            check_finite(rows, f"{features.name}: z", first_row=start)
            dtype = head.logit_dtype(features.dtype)
            raise SoftscopeError(
                f"{features.name}: z from row {start} on has logits beyond the range of {dtype}",
                "Scale the features down, or give z and the head in float64",
            )

    _over_blocks(head, features, temperature, read, check, compiled=not plain)
    return out


def uncertainties(fitted: Mapping[str, Estimator], z: Any) -> dict[str, Floats]:
    """`uncertainty(z)` of each, float64 [N] by the given names, in less time than one after the other.

    All must be fitted with the same head. Scores are those of `Estimator.uncertainty` to the rounding of products.

    >>> import softscope as sx
    >>> from softscope.estimators import estimator
    >>> head = sx.Head([[1.0, 0.0], [0.0, 1.0]])
    >>> fitted = {name: estimator(name).fit(head, None) for name in ("max-logit", "norm")}
    >>> uncertainties(fitted, [[3.0, 4.0]])
    {'max-logit': array([-4.]), 'norm': array([-5.])}
    """
    if not fitted:
        return {}
    features = next(item._features(z) for item in fitted.values())
    head = next(iter(fitted.values())).head_
    if any(item.head_ is not head for item in fitted.values()):
        raise SoftscopeError("the estimators have different heads", "Score them one by one")
    temperature = next((item.temperature for item in fitted.values() if isinstance(item, Cool)), 10.0)
    shared = {
        name: type(item)
        for name, item in fitted.items()
        if isinstance(item, LogitEstimator) and (not isinstance(item, Cool) or item.temperature == temperature)
    }
    out = {name: np.empty(len(features)) for name in fitted}

    def read(place: slice, block: Block) -> None:
        for name, kind in shared.items():
            out[name][place] = kind.rank(block.warm, block.cool if kind.cooled else block.warm)
        lost = ~np.isfinite(block.logits).all(axis=1)
        for name, item in fitted.items():
            if isinstance(item, LogitReader):
                out[name][place] = item._from_block(block)
                out[name][place][lost] = np.nan

    def check(start: int, rows: NDArray) -> None:
        here = slice(start, start + len(rows))
        for name, item in fitted.items():
            if name not in shared and not isinstance(item, LogitReader):
                out[name][here] = item._uncertainty(rows)
            if not np.isfinite(out[name][here]).all():
                check_finite(rows, f"{features.name}: z", first_row=start)
                row = start + int((~np.isfinite(out[name][here])).argmax())
                raise SoftscopeError(
                    f"{features.name}: row {row} is too large for {name} to score", "Drop the row, or fix its source"
                )

    _over_blocks(head, features, temperature, read, check)
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
    for span, rows in placed(features.unchecked_chunks(size)):
        yield span.start, rows


def _over_blocks(
    head: Head,
    features: FeatureSet,
    temperature: float,
    read: Callable[[slice, Block], None],
    check: Callable[[int, NDArray], None],
    *,
    compiled: bool = True,
) -> None:
    """`read` every row's place and block, a cacheful of logits at a time, and `check` each task once it is read.

    Many rows are read on all cores, by the compiled block if `compiled`.
    """
    many = len(features) > COMPILE_ROWS
    block_of = _compiled_block() if many and compiled else Block
    dtype = head.logit_dtype(features.dtype)
    bias = head.bias.astype(dtype)
    size = _whole(chunk_rows(head.n_classes, dtype.itemsize, _LOGIT_BYTES), head.block_rows)

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is found by `check`
    def work(task: Task) -> None:
        start, rows = task
        logits = np.empty((min(size, len(rows)), head.n_classes), dtype)  # the next block takes the place of the last
        for span in spans(len(rows), size):
            here = logits[: span.stop - span.start]
            head.product(rows[span], here)
            here += bias
            read(slice(start + span.start, start + span.stop), block_of(rows[span], here, temperature))
        check(start, rows)

    (on_all_cores if many else in_turn)(work, tasks_of(head, features))


def _compiled_block() -> type[Block]:
    """Imported where it pays: numba takes half a second."""
    from .compiled_block import CompiledBlock

    return CompiledBlock


def in_turn(work: Callable[[Task], None], tasks: Iterable[Task]) -> None:
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


def _whole(rows: int, block: int) -> int:
    """`rows` rounded down to whole blocks, at least one."""
    return max(1, rows // block) * block
