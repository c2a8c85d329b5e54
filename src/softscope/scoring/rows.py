"""Features to rows of the output: class, confidence, uncertainty, p-value, alarm, and which kind of score alarms."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError, printable
from ..estimators import Estimator
from ..guard import Guard, classify, judge

if TYPE_CHECKING:
    import pyarrow as pa

NO_ROW = -1  # of a file that can't be opened: null in the output
ALARM_BY = ("none", "softmax", "density", "both")
_NOT_FINITE = "features are missing, NaN or infinite"
_TOO_LARGE = "features are too large to score"


@dataclass(frozen=True)
class RowBlock:
    """Some inputs: `path` of the file (one for all, or one each), `row` in it, features `z` [n, H].

    `bad` has the reason for each input that has no features, by its position; its row of `z` is NaN.
    """

    path: str | Sequence[str]
    row: NDArray[np.int64]
    z: NDArray
    bad: Mapping[int, str] = field(default_factory=dict)


class RowScorer:
    """One guard, or a guard on a softmax score and one on a density, both for the same head.

    Uncertainty, p-value and alarm are those of the first guard. With two guards `alarm_by` says which of them alarm:
    "density" alone means extrapolation, an input far from all that was trained on and yet classified with confidence.
    """

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.guards = tuple(guards)
        self.head = self.guards[0].head
        kinds = [_kind(guard.estimator) for guard in self.guards]
        if len(self.guards) > 1 and sorted(kinds) != ["density", "softmax"]:
            names = " and ".join(guard.estimator.info.name for guard in self.guards)
            raise SoftscopeError(
                f"the guards {names} don't make a pair", "Give one guard, or one on a softmax score and one on density"
            )
        for guard in self.guards[1:]:
            same = np.array_equal(guard.head.weight, self.head.weight)
            if not (same and np.array_equal(guard.head.bias, self.head.bias)):
                raise SoftscopeError("the two guards were fitted for different heads", "Fit both with the same --head")
        self._weights = [1 + ["softmax", "density"].index(kind) for kind in kinds]

    def table(self, block: RowBlock) -> "pa.Table":
        """The rows of the output for `block`, in order: one for each input, whatever is wrong with it."""
        import pyarrow as pa

        count = len(block.row)
        confidence = np.ones(count)
        classes = classify(self.head, block.z, confidence)
        judged = [judge(guard, block.z, classes) for guard in self.guards]
        bad = np.any([each.bad for each in judged], axis=0)
        reasons = np.full(count, None, object)
        reasons[bad] = np.where(np.isfinite(block.z[bad]).all(axis=1), _TOO_LARGE, _NOT_FINITE)
        reasons[list(block.bad)] = list(block.bad.values())
        by = sum((each.alarms * np.int8(w) for each, w in zip(judged, self._weights)), np.zeros(count, np.int8))

        def column(values: NDArray) -> "pa.Array":
            return pa.array(values, mask=bad)

        names = self.head.classes or [str(number) for number in range(self.head.n_classes)]
        return pa.table(
            {
                "path": pa.repeat(printable(block.path), count)
                if isinstance(block.path, str)
                else pa.array(map(printable, block.path), pa.string()),
                "row": pa.array(block.row, pa.int64(), mask=block.row == NO_ROW),
                "predicted": column(classes),
                "class": pa.array(names, pa.string()).take(column(classes)),
                "confidence": column(confidence),
                "uncertainty": column(judged[0].scores),
                "p_value": column(judged[0].p_values),
                "alarm": judged[0].alarms | bad,
                "alarm_by": pa.array(ALARM_BY).take(column(by))
                if len(self.guards) > 1
                else pa.nulls(count, pa.string()),
                "bad": pa.array(reasons, pa.string()),
            },
            metadata={"guards": json.dumps([repr(guard) for guard in self.guards])},
        )


def _kind(estimator: Estimator) -> str:
    """Scores that read the head alone count as softmax; those fitted on training features as density."""
    return "density" if "train" in estimator.info.needs else "softmax"
