"""What is there of each catalogued data set, as plain values for a table or JSON."""

from dataclasses import asdict, dataclass
from typing import Any

from ...errors import SoftscopeError
from .catalog import CATALOG
from .entry import DataSet
from .folders import split_state


@dataclass(frozen=True)
class SplitRow:
    """One split: `complete`, `partial`, `absent` or `damaged`, its rows here and in the complete set, its folder."""

    split: str
    status: str
    rows: int
    complete_rows: int
    folder: str | None
    problem: str | None = None


@dataclass(frozen=True)
class DataSetRow:
    """One data set and the state of its splits."""

    entry: DataSet
    splits: tuple[SplitRow, ...]

    @property
    def status(self) -> str:
        """The splits' common state; `partial` where they differ and something is there; `damaged` if one is."""
        found = {row.status for row in self.splits}
        if len(found) == 1:
            return found.pop()
        return "damaged" if "damaged" in found else "partial"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        entry = self.entry
        return {
            "name": entry.name,
            "title": entry.title,
            "aliases": list(entry.aliases),
            "status": self.status,
            "classes": len(entry.classes),
            "shape": list(entry.shape),
            "makers": entry.makers,
            "licence": entry.licence,
            "citation": entry.citation,
            "note": entry.note,
            "sources": [source.kind for source in entry.sources],
            "splits": [asdict(row) for row in self.splits],
        }


def overview() -> list[DataSetRow]:
    """Every data set of the catalogue with what is there of it."""
    return [DataSetRow(entry, tuple(_split_row(entry, split) for split in entry.splits)) for entry in CATALOG]


def _split_row(entry: DataSet, split: str) -> SplitRow:
    complete = entry.splits[split]
    if entry.name == "digits":
        return SplitRow(split, "complete", complete, complete, None)
    try:
        state = split_state(entry, split)
    except SoftscopeError as error:
        return SplitRow(split, "damaged", 0, complete, None, str(error))
    folder = str(state.files[0].parent) if state.files else None
    return SplitRow(split, state.status, state.rows, complete, folder)
