"""Features to rows of the output: class, confidence, uncertainty, p-value, alarm, and which kind of score alarms."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, chunk_rows, spans
from ..errors import SoftscopeError, printable
from ..estimators import Estimator
from ..guard import Guard, scores_or_nan

if TYPE_CHECKING:
    import pyarrow as pa

NO_ROW = -1  # of a file that can't be opened: null in the output
ALARM_BY = ("none", "softmax", "density", "both")
_NOT_FINITE = "features are missing, NaN or infinite"
_TOO_LARGE = "features are too large to score"


@dataclass(frozen=True)
class Block:
    """Some inputs: `path` of the file (one for all, or one each), `row` in it, features `z` [n, H].

    `bad` has the reason for each input that has no features, by its position; its row of `z` isn't looked at.
    """

    path: str | Sequence[str]
    row: NDArray[np.int64]
    z: NDArray
    bad: Mapping[int, str] = field(default_factory=dict)


class Scorer:
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

    def table(self, block: Block) -> "pa.Table":
        """The rows of the output for `block`, in order: one for each input, whatever is wrong with it."""
        import pyarrow as pa

        count = len(block.row)
        reasons = np.full(count, None, object)
        reasons[list(block.bad)] = list(block.bad.values())
        good = np.array([reason is None for reason in reasons]) if block.bad else np.ones(count, bool)
        finite = np.isfinite(block.z).all(axis=1)
        reasons[good & ~finite] = _NOT_FINITE
        numbers = np.flatnonzero(good & finite)
        rows = block.z if len(numbers) == count else block.z[numbers]
        classes, confidence = self._classes(rows)
        scores = [scores_or_nan(guard.estimator, rows) for guard in self.guards]
        sound = (classes >= 0) & np.isfinite(scores).all(axis=0)
        reasons[numbers[~sound]] = _TOO_LARGE
        numbers, classes, confidence = numbers[sound], classes[sound], confidence[sound]
        missing = np.ones(count, bool)
        missing[numbers] = False
        groups = [classes if guard.per_class else np.zeros_like(classes) for guard in self.guards]
        p_values = [g.calibration.p_values(s[sound], group) for g, s, group in zip(self.guards, scores, groups)]
        alarms = [guard.alarming(p, group) for guard, p, group in zip(self.guards, p_values, groups)]

        def column(values: NDArray, mask: Any = missing) -> "pa.Array":
            spread = np.ones(count, values.dtype)  # an alarm where nothing could be said
            spread[numbers] = values
            return pa.array(spread, mask=mask)

        by = sum((a * np.int8(w) for a, w in zip(alarms, self._weights)), np.zeros(len(numbers), np.int8))
        names = self.head.classes or [str(number) for number in range(self.head.n_classes)]
        return pa.table(
            {
                "path": _words([printable(block.path)] * bool(count), np.zeros(count, np.int32))
                if isinstance(block.path, str)
                else pa.array(map(printable, block.path), pa.string()),
                "row": pa.array(block.row, pa.int64(), mask=block.row == NO_ROW),
                "predicted": column(classes),
                "class": _words(names, column(classes)),
                "confidence": column(confidence),
                "uncertainty": column(scores[0][sound]),
                "p_value": column(p_values[0]),
                "alarm": column(alarms[0], None),
                "alarm_by": _words(ALARM_BY, column(by)) if len(self.guards) > 1 else pa.nulls(count, pa.string()),
                "bad": pa.array(reasons, pa.string()),
            },
            metadata={"guards": json.dumps([repr(guard) for guard in self.guards])},
        )

    def _classes(self, rows: NDArray) -> tuple[NDArray[np.int64], Floats]:
        """The predicted class of each finite row (-1 where logits overflow) and max_i softmax_i."""
        classes, confidence = np.empty(len(rows), np.int64), np.empty(len(rows))
        for span in spans(len(rows), chunk_rows(max(self.head.n_classes, self.head.n_features))):
            logits = np.empty((span.stop - span.start, self.head.n_classes), self.head.logit_dtype(rows.dtype))
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                self.head.product(rows[span], logits)
                logits += self.head.bias.astype(logits.dtype, copy=False)
                largest = logits.max(axis=1)
                powers = np.exp((logits - largest[:, None]).astype(np.float64, copy=False))
                confidence[span] = 1.0 / powers.sum(axis=1)
            classes[span] = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)
        return classes, confidence


def _kind(estimator: Estimator) -> str:
    """Scores that read the head alone count as softmax; those fitted on training features as density."""
    return "density" if "train" in estimator.info.needs else "softmax"


def _words(names: Sequence[str], numbers: Any) -> "pa.Array":
    """Texts by their number, null where the number is."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(numbers).cast(pa.int32()), pa.array(names, pa.string())).cast(
        pa.string()
    )
