"""Scoring a feature file of any size into a parquet file, so that an interrupted run goes on where it stopped.

A second run takes up the parts of an earlier one (see `parts`) where guard, input, batch and version are the same; how
often it was interrupted leaves no trace in the output.
"""

import json
import os
from collections.abc import Callable
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
from .conformal import Whole, alarm_band
from .guard import Guard, predicted_or_none
from .parts import Parts, working_folder
from .saving import contents, digest

if TYPE_CHECKING:
    import pyarrow as pa

OnBad = Literal["error", "flag"]
Progress = Callable[[int], None]
BATCH_BYTES = 1 << 26
_MEND = "Mend what made it, or have such rows marked with --on-bad flag"
_COLUMNS = ("row", "uncertainty", "p_value", "alarm", "predicted", "bad")


@dataclass(frozen=True)
class Summary:
    """What a run found. `alarms` are those among the `rows` - `bad` rows that could be scored.

    `expected` are the fewest and most alarms with which so many rows of the calibration's kind would surprise no more
    than one time in twenty; None where alarms are calibrated per class, or no row could be scored.
    """

    rows: int
    bad: int
    alarms: int
    promised: float
    expected: tuple[int, int] | None

    @property
    def rate(self) -> float | None:
        """Alarms a scored row."""
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
    progress: Progress | None = None,
) -> Summary:
    """Score the features in `source` into the parquet file `output`: one row each, in order.

    Columns: row, uncertainty, p_value, alarm, predicted (the class by its number; names in the schema's metadata) and
    bad. A row that can't be scored (NaN, inf, null, too large) is an error; with `on_bad="flag"` it is `bad`, its
    alarm is true and the other columns are null. `progress` is told how many rows were done since it was last told.
    """
    features = FeatureSet.open(source)
    check_columns(features.n_features, f"{features.name}: z", columns=guard.head.n_features)
    target = _checked_output(Path(output), Path(source))
    size = batch or chunk_rows(features.n_features, features.dtype.itemsize, BATCH_BYTES)
    key = {"guard": digest(*contents(guard)), "input": features.stamp(), "batch": size, "softscope": __version__}
    tell = progress or (lambda rows: None)
    with working_folder(target, fingerprint(key)) as folder:
        parts = Parts(folder, len(features), size)
        done = parts.done()
        tell(min(len(features), done * size))
        for number, rows in enumerate(
            features.unchecked_chunks(size, first=min(len(features), done * size), holes=on_bad == "flag"), done
        ):
            parts.write(number, _table(guard, features.name, rows, number * size, on_bad))
            tell(len(rows))
        bad, alarms = parts.join(target)
    scored = len(features) - bad
    pooled = not guard.per_class and scored > 0
    expected = alarm_band(guard.false_alarms, len(guard.calibration.scores), scored) if pooled else None
    return Summary(len(features), bad, alarms - bad, guard.false_alarms, expected)


def _table(guard: Guard, name: str, rows: NDArray, first: int, on_bad: OnBad) -> "pa.Table":
    """The output's rows for one batch."""
    import pyarrow as pa

    if on_bad == "error":
        try:
            check_finite(rows, f"{name}: z", first_row=first)
        except SoftscopeError as error:
            raise SoftscopeError(error.what, _MEND) from error
    good = np.flatnonzero(np.isfinite(rows).all(axis=1))
    classes = predicted_or_none(guard.head, _chosen(rows, good))
    good, classes = good[classes >= 0], classes[classes >= 0]
    scores = np.empty(0)
    if len(good):
        with np.errstate(over="ignore", invalid="ignore"):
            scores = guard.estimator.uncertainty(_chosen(rows, good))
    sound = np.isfinite(scores)
    good, classes, scores = good[sound], classes[sound], scores[sound]
    bad = np.ones(len(rows), bool)
    bad[good] = False
    if on_bad == "error" and bad.any():
        raise SoftscopeError(
            f"{name}: row {first + int(bad.argmax())} can't be scored, its features are too large", _MEND
        )
    p_values = guard.calibration.p_values(scores, classes if guard.per_class else np.zeros(len(good), np.int64))
    values: dict[str, Any] = {"row": np.arange(first, first + len(rows))}
    for column, found in zip(_COLUMNS[1:], (scores, p_values, p_values <= guard.false_alarms, classes)):
        spread = np.ones(len(rows), found.dtype)  # an alarm where nothing could be said
        spread[good] = found
        values[column] = pa.array(spread, mask=None if column == "alarm" else bad)
    values["bad"] = bad
    table = pa.table(values)
    words = {"guard": repr(guard)} | ({"classes": json.dumps(guard.head.classes)} if guard.head.classes else {})
    return table.replace_schema_metadata(words)


def _chosen(rows: NDArray, numbers: Whole) -> NDArray:
    """The rows of these numbers, not copied where they are all."""
    return rows if len(numbers) == len(rows) else rows[numbers]


def _checked_output(target: Path, source: Path) -> Path:
    if target.suffix.lower() != ".parquet":
        raise SoftscopeError(f"{target}: the output is a parquet file", "Give it a name that ends in .parquet")
    if target.is_dir():
        raise SoftscopeError(f"{target}: is a folder", "Choose another name for the output")
    inside, place = source.resolve(), target.resolve()
    if place == inside or place.parent == inside:
        raise SoftscopeError(f"{target}: would become part of its own input", "Choose another place for the output")
    return target
