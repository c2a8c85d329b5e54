"""Many fitted estimators of one head in one pass: a block of rows is read once, and its logits are made once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Floats, check_finite
from ..errors import SoftscopeError
from .base import Block, Estimator, LogitReader
from .logits import COMPILE_ROWS, Cool, LogitEstimator, Task, blocks_of, in_turn, on_all_cores, tasks_of


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
    many = len(features) > COMPILE_ROWS
    temperature = next((item.temperature for item in fitted.values() if isinstance(item, Cool)), 10.0)
    shared = {
        name: type(item)
        for name, item in fitted.items()
        if isinstance(item, LogitEstimator) and (not isinstance(item, Cool) or item.temperature == temperature)
    }
    block_of = _compiled_block() if many else Block
    bias = head.bias.astype(head.logit_dtype(features.dtype))
    out = {name: np.empty(len(features)) for name in fitted}

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is named below
    def work(task: Task) -> None:
        start, rows = task
        here = slice(start, start + len(rows))
        for span, product in blocks_of(head, rows):
            place = slice(start + span.start, start + span.stop)
            product += bias
            block = block_of(rows[span], product, temperature)
            for name, kind in shared.items():
                out[name][place] = kind.rank(block.warm, block.cool if kind is Cool else block.warm)
            lost = ~np.isfinite(product).all(axis=1)
            for name, item in fitted.items():
                if isinstance(item, LogitReader):
                    out[name][place] = item._from_block(block)
                    out[name][place][lost] = np.nan
        for name, item in fitted.items():
            if name not in shared and not isinstance(item, LogitReader):
                out[name][here] = item._uncertainty(rows)
            if not np.isfinite(out[name][here]).all():
                check_finite(rows, f"{features.name}: z", first_row=start)
                row = start + int((~np.isfinite(out[name][here])).argmax())
                raise SoftscopeError(
                    f"{features.name}: row {row} is too large for {name} to score", "Drop the row, or fix its source"
                )

    (on_all_cores if many else in_turn)(work, tasks_of(head, features))
    return out


def _compiled_block() -> type[Block]:
    """Imported where it pays: numba takes half a second."""
    from .compiled_block import CompiledBlock

    return CompiledBlock
