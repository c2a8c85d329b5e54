"""Scoring a feature file of any size into a parquet file, so that an interrupted run goes on where it stopped.

A second run takes up the parts of an earlier one (see `parts`) where guard, input, batch and version are the same; how
often it was interrupted leaves no trace in the output.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..arrays import check_columns, check_finite, chunk_rows
from ..canonical import fingerprint
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import check_suffix, output_file
from ..progress import Progress, silent
from .conformal import Whole
from .guard import Guard
from .judging import judge
from .parts import Parts, working_folder

if TYPE_CHECKING:
    import pyarrow as pa

OnBad = Literal["error", "flag"]
BATCH_BYTES = 1 << 26
_FLAG = "Fix its source, or mark such rows with --on-bad flag"


@dataclass(frozen=True)
class Summary:
    """What a run counted. `alarms` are those among the `rows` - `bad` rows that could be scored.

    `expected` are the fewest and most alarms that so many rows of the calibration's kind raise in 95 % of cases; None
    where alarms are calibrated per class, or no row could be scored. `exceeded` names what raised more alarms than
    that: the classes of a guard calibrated per class (the 2.5 % shared among them), or all inputs.
    """

    rows: int
    bad: int
    alarms: int
    promised: float
    expected: tuple[int, int] | None
    exceeded: tuple[str, ...] = ()

    @classmethod
    def of(cls, guard: Guard, rows: int, scored: Whole, alarms: Whole) -> "Summary":
        """From the scored rows and the alarms of each predicted class."""
        total, raised = int(scored.sum()), int(alarms.sum())
        expected, exceeded = None, []
        if guard.per_class:
            share = 0.05 / max(1, int((scored > 0).sum()))
            for k in np.flatnonzero(scored):
                band = guard.promise.alarm_band(int(guard.calibration.counts[k]), int(scored[k]), share)
                exceeded += [guard.head.class_name(int(k))] if alarms[k] > band[1] else []
        elif total:
            expected = guard.promise.alarm_band(len(guard.calibration.scores), total)
            exceeded = ["all inputs"] if raised > expected[1] else []
        return cls(rows, rows - total, raised, guard.false_alarms, expected, tuple(exceeded))

    @property
    def rate(self) -> float | None:
        """Alarms per scored row."""
        return self.alarms / (self.rows - self.bad) if self.rows > self.bad else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"rate": self.rate}


def score_file(
    guard: Guard,
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    on_bad: OnBad = "error",
    batch: int | None = None,
    progress: Progress = silent,
) -> Summary:
    """Score the features in `source` into the parquet file `output`: one row each, in order.

    Columns: row, uncertainty, p_value, alarm, predicted (the class by its number; names in the schema's metadata) and
    bad. A row that can't be scored (NaN, inf, null, too large) is an error; with `on_bad="flag"` it is `bad`, its
    alarm is true and the other columns are null.
    """
    features = FeatureSet.open(source)
    check_columns(features.n_features, f"{features.name}: z", columns=guard.head.n_features)
    target = _checked_output(Path(output), Path(source))
    size = batch or chunk_rows(features.n_features, features.dtype.itemsize, BATCH_BYTES)
    key = {"guard": guard.sha256, "input": features.stamp(), "batch": size, "softscope": __version__}
    with working_folder(target) as folder:
        parts = Parts(folder, fingerprint(key), -(-len(features) // size))
        done = parts.done()
        first = min(len(features), done * size)
        progress("scoring", first, len(features))
        counts = np.zeros((2, guard.head.n_classes), np.int64)
        for number, rows in enumerate(features.unchecked_chunks(size, first=first, holes=on_bad == "flag"), done):
            parts.write(number, _table(guard, features.name, rows, number * size, on_bad))
            progress("scoring", number * size + len(rows), len(features))
        for table in parts.joined_into(target):
            counts += counts_by_class(table, guard.head.n_classes)
    return Summary.of(guard, len(features), *counts)


def counts_by_class(table: "pa.Table", classes: int) -> Whole:
    """Scored rows and alarms of each predicted class in a table of scores, [2, classes]."""
    good = table.select(["predicted", "alarm"]).drop_null()
    predicted, alarm = good["predicted"].to_numpy(), good["alarm"].to_numpy()
    return np.stack([np.bincount(each, minlength=classes) for each in (predicted, predicted[alarm])])


def _table(guard: Guard, name: str, rows: NDArray, first: int, on_bad: OnBad) -> "pa.Table":
    """The output's rows for one batch."""
    import pyarrow as pa

    if on_bad == "error":
        try:
            check_finite(rows, f"{name}: z", first_row=first)
        except SoftscopeError as error:
            raise SoftscopeError(error.what, _FLAG) from error
    judged = judge(guard, rows)
    bad = judged.bad
    if on_bad == "error" and bad.any():
        raise SoftscopeError(
            f"{name}: row {first + int(bad.argmax())} can't be scored, its features are too large", _FLAG
        )
    columns = {
        "row": np.arange(first, first + len(rows)),
        "uncertainty": pa.array(judged.scores, mask=bad),
        "p_value": pa.array(judged.p_values, mask=bad),
        "alarm": judged.alarms,
        "predicted": pa.array(judged.classes, mask=bad),
        "bad": bad,
    }
    words = {"guard": repr(guard)} | ({"classes": json.dumps(guard.head.classes)} if guard.head.classes else {})
    return pa.table(columns, metadata=words)


def _checked_output(target: Path, source: Path) -> Path:
    check_suffix(target, ".parquet")
    file = output_file(target)  # a link is written through: the parts stand beside what it leads to
    inside, place = (Path(os.path.realpath(each)) for each in (source, file))
    if place == inside or place.parent == inside:
        raise SoftscopeError(f"{target}: would become part of its own input", "Choose another place for the output")
    return file
