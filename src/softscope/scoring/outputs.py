"""What a run leaves behind: a parquet file for each unit, `_run.json` at its start, `_manifest.json` at its end.

Names that begin with an underscore are skipped by whatever reads a folder of parquet (pandas, DuckDB, Spark, pyarrow).
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..canonical import parse_json, plain
from ..errors import SoftscopeError
from ..guard import counts_by_class, sealed, unsealed
from .folders import OutputFolder
from .plan import Unit

if TYPE_CHECKING:
    import pyarrow as pa

RUN, MANIFEST = "_run.json", "_manifest.json"
_GROUP_ROWS = 1 << 17  # what the writer holds encoded at a time; readers skip and parallelize by these groups


@dataclass(frozen=True)
class Counts:
    """Of one output or of all: inputs, and by predicted class those `scored` and the `alarms` among them."""

    rows: int
    scored: NDArray[np.int64]
    alarms: NDArray[np.int64]
    alarm_by: Mapping[str, int]
    first_bad: str | None

    @classmethod
    def of(cls, table: "pa.Table", classes: int) -> "Counts":
        """What is in a table of scores."""
        scored, alarms = counts_by_class(table, classes)
        by = Counter(table["alarm_by"].drop_null().to_pylist())
        first = table.filter(table["bad"].is_valid()).slice(0, 1).to_pylist()
        return cls(len(table), scored, alarms, by, f"{first[0]['path']}: {first[0]['bad']}" if first else None)

    @classmethod
    def total(cls, parts: Sequence["Counts"]) -> "Counts":
        """The counts of all outputs together, in their order."""
        by: Counter[str] = Counter()
        for part in parts:
            by.update(part.alarm_by)
        first = next((part.first_bad for part in parts if part.first_bad), None)
        scored, alarms = sum(part.scored for part in parts), sum(part.alarms for part in parts)
        return cls(sum(part.rows for part in parts), np.asarray(scored), np.asarray(alarms), by, first)


def write_output(folder: OutputFolder, unit: Unit, table: "pa.Table") -> None:
    """Write the scores of `unit`, whole or not at all."""
    # Numbers that hardly repeat make a dictionary of each row group larger; row numbers rise by one.
    repeating = [name for name in table.column_names if name not in ("row", "uncertainty")]
    encodings = {"use_dictionary": repeating, "column_encoding": {"row": "DELTA_BINARY_PACKED"}}
    folder.write(unit.name, sealed(table, unit.name, group_rows=_GROUP_ROWS, **encodings))


def finished(folder: OutputFolder, unit: Unit, classes: int) -> Counts | None:
    """The counts of the output of `unit` if it is there and as it was written; else it is scored again."""
    content = folder.read(unit.name)
    try:
        table = None if content is None else unsealed(content, unit.name)
        return None if table is None else Counts.of(table, classes)
    except Exception:  # a forged one
        return None


def claim(folder: OutputFolder, run: Mapping[str, Any]) -> None:
    """Write down what the scores in `folder` are of, or raise where it holds those of something else."""
    wanted = plain(dict(run))
    content = folder.read(RUN)
    if content is None:
        folder.write(RUN, _json(wanted))
        return
    try:
        present = parse_json(content)
        different = [name for name, value in wanted.items() if present[name] != value]
    except (ValueError, KeyError, TypeError):
        different = ["format"]
    if different:
        raise SoftscopeError(
            f"{folder.where}: holds the scores of another run (other {', '.join(different)})",
            "Choose another folder for the output, or remove that one",
        )


def write_manifest(folder: OutputFolder, manifest: Mapping[str, Any]) -> None:
    """Say that the run is complete, and what came out."""
    folder.write(MANIFEST, _json(plain(dict(manifest))))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
