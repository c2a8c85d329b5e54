"""Many fitted estimators of one head in one pass: a block of rows is read once, and its logits are made once."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from ..features import FeatureSet
from .base import Estimator, LogitReader
from .logits import COMPILE_ROWS, LogitEstimator, Task, blocks_of, in_turn, on_all_cores, reader_of, tasks_of

Scorer = Callable[[NDArray, NDArray], NDArray]


def uncertainties(fitted: Mapping[str, Estimator], z: Any) -> dict[str, Floats]:
    """`uncertainty(z)` of each, float64 [N] by the given names, in less time than one after the other.

    All must be fitted with the same head. Scores are those of `Estimator.uncertainty` to the rounding of products.
    """
    if not fitted:
        return {}
    first = next(iter(fitted.values()))
    features = first._features(z)
    head = first.head_
    if any(item._features(features).n_features and item.head_ is not head for item in fitted.values()):
        raise SoftscopeError("the estimators have different heads", "Score them one by one")
    many = len(features) > COMPILE_ROWS
    shared = {name: item for name, item in fitted.items() if isinstance(item, LogitEstimator)}
    reader = _tails(shared, features, compiled=many)
    bias = head.bias.astype(head.logit_dtype(features.dtype))
    out = {name: np.empty(len(features)) for name in fitted}

    def work(task: Task) -> None:
        start, rows = task
        here = slice(start, start + len(rows))
        for span, product in blocks_of(head, rows):
            place = slice(start + span.start, start + span.stop)
            for name, column in zip(shared, reader(product)):
                out[name][place] = column
            product += bias
            for name, item in fitted.items():
                if isinstance(item, LogitReader):
                    out[name][place] = item._from_logits(rows[span], product)
        for name, item in fitted.items():
            if not isinstance(item, LogitEstimator | LogitReader):
                out[name][here] = item._uncertainty(rows)
            if not np.isfinite(out[name][here]).all():
                item.uncertainty(FeatureSet(rows, name=features.name))  # names the row and what is wrong with it

    (on_all_cores if many else in_turn)(work, tasks_of(head, features))
    return out


def _tails(shared: Mapping[str, Any], features: FeatureSet, *, compiled: bool) -> Callable[[NDArray], list[NDArray]]:
    """What reads the scores of the logits off a block of products; U_cool's temperature is that of the last one."""
    if not shared:
        return lambda product: []
    item = next(iter(shared.values()))
    temperature = next((one.temperature for one in shared.values() if one.info.name == "cool"), 10.0)
    chosen = [type(one) for one in shared.values()]
    return reader_of(item.head_, features.dtype, chosen, temperature, plain=False, compiled=compiled)
