"""What a run leaves behind: a parquet file for each unit, `_run.json` at its start, `_manifest.json` at its end.

Names that begin with an underscore are skipped by whatever reads a folder of parquet (pandas, DuckDB, Spark, pyarrow).
"""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..canonical import parse_json, plain
from ..errors import SoftscopeError
from .folders import OutputFolder
from .plan import Unit

if TYPE_CHECKING:
    import pyarrow as pa

RUN, MANIFEST = "_run.json", "_manifest.json"
_MARK = "softscope.unit"
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
        good = table.select(["predicted", "alarm", "alarm_by"]).filter(table["bad"].is_null())
        predicted, alarm = good["predicted"].to_numpy(), good["alarm"].to_numpy()
        scored, alarms = (np.bincount(p, minlength=classes).astype(np.int64) for p in (predicted, predicted[alarm]))
        by = Counter(good["alarm_by"].drop_null().to_pylist())
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
    """Write the scores of `unit`, whole or not at all; the footer holds its name and the sha256 of all before it."""
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    # Numbers that hardly repeat make a dictionary of each row group larger; row numbers rise by one.
    repeating = [name for name in table.column_names if name not in ("row", "uncertainty")]
    encodings = {"use_dictionary": repeating, "column_encoding": {"row": "DELTA_BINARY_PACKED"}}
    with pq.ParquetWriter(stream, table.schema, write_page_checksum=True, **encodings) as writer:
        writer.write_table(table, row_group_size=_GROUP_ROWS)
        writer.add_key_value_metadata({_MARK: _mark(unit, stream.getbuffer())})
    folder.write(unit.name, stream.getvalue())


def finished(folder: OutputFolder, unit: Unit, classes: int) -> Counts | None:
    """The counts of the output of `unit` if it is there and as it was written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = folder.read(unit.name)
    if content is None:
        return None
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        if file.metadata.metadata[_MARK.encode()] != _mark(unit, memoryview(content)[:footer]).encode():
            return None
        return Counts.of(file.read(), classes)
    except Exception:  # damaged in whatever way: scored again
        return None


def _mark(unit: Unit, content: memoryview) -> str:
    return f"{unit.name} {hashlib.sha256(content).hexdigest()}"


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
