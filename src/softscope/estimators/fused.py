"""Many logit-based scores from one product z W': the logits of a few rows are made once and read from cache.

No N x K array exists at any time, whatever N is. Up to COMPILE_ROWS rows are scored by the numpy formulas of
`softmax.py`; above, where it pays for itself, by the compiled kernel on all cores. The two agree to 1e-12.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import check_columns, check_finite, chunk_rows, spans
from ..blas import one_blas_thread
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from .base import ESTIMATORS
from .softmax import LogitEstimator, Tail, check_temperature

COMPILE_ROWS = 20_000
_LOGIT_BYTES = 1 << 19  # logits at hand: half of a core's second-level cache
_TASK_BYTES = 1 << 23

Reader = Callable[[NDArray], list[NDArray]]
Task = tuple[int, NDArray]


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
    reader = _reader(head, features.dtype, chosen, temperature, plain=plain, compiled=many)

    def work(task: Task) -> None:
        start, rows = task
        for span, values in _score(head, rows, reader):
            for name, column in zip(names, values):
                out[name][start + span.start : start + span.stop] = column
        if not all(np.isfinite(column[start : start + len(rows)]).all() for column in out.values()):
            raise _not_finite(head, features, task)

    (on_all_cores if many else _in_turn)(work, tasks_of(head, features))
    return out


def logit_score(name: str) -> type[LogitEstimator]:
    """The score of the logits that is called `name`."""
    known = {name: cls for name, cls in ESTIMATORS.items() if issubclass(cls, LogitEstimator)}
    if name not in known:
        raise SoftscopeError(f"no score of the logits is called {name!r}", f"Choose from {', '.join(known)}")
    return known[name]


def tasks_of(head: Head, features: FeatureSet) -> Iterator[Task]:
    """The features in pieces of a few MB, each with the number of its first row."""
    size = _whole(chunk_rows(head.n_features, features.dtype.itemsize, _TASK_BYTES), head.block_rows)
    start = 0
    for rows in features.unchecked_chunks(size):
        yield start, rows
        start += len(rows)


def _score(head: Head, rows: NDArray, reader: Reader) -> Iterator[tuple[slice, list[NDArray]]]:
    """What `reader` makes of the products of `rows` with the weights, a cacheful at a time."""
    dtype = head.logit_dtype(rows.dtype)
    size = _whole(chunk_rows(head.n_classes, dtype.itemsize, _LOGIT_BYTES), head.block_rows)
    product = np.empty((min(size, len(rows)), head.n_classes), dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found in the scores
        for span in spans(len(rows), size):
            here = product[: span.stop - span.start]
            head.product(rows[span], here)
            yield span, reader(here)


def _reader(
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


def _in_turn(work: Callable[[Task], None], tasks: Iterable[Task]) -> None:
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
