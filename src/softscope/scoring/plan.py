"""The plan of a run: input files, grouped or cut into units of work whose outputs have names that never change.

An output's name is the hash of its unit's files (path, size, time of change, range of rows) and of what scores them.
So whoever runs the same thing again, however often it was killed, finds what is finished by its name.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..arrays import spans
from ..canonical import fingerprint
from ..errors import SoftscopeError
from ..features import FeatureSet
from .folders import InputFile, is_address

FEATURES = (".safetensors", ".npy", ".npz", ".parquet")
UNIT_BYTES, UNIT_ROWS = 1 << 27, 1 << 62
_UNIT_FILES = 4096
_CUT = (".safetensors", ".npy", ".parquet")  # an npz may be compressed, and is then read from its start each time


@dataclass(frozen=True)
class Piece:
    """A file of the input, or its rows `first` to `stop` (None: all that it has)."""

    file: InputFile
    first: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class Unit:
    """What one worker scores at a time into one output, `name`; `rows` as far as known beforehand."""

    name: str
    pieces: tuple[Piece, ...]
    rows: int


def make_plan(
    files: Sequence[InputFile], key: str, count: Callable[[str], int], unit_bytes: int, unit_rows: int
) -> list[Unit]:
    """Units of about `unit_bytes` of input and at most `unit_rows` inputs each, in the order of the files.

    `key` is what scores them; `count` says how many inputs a file has.
    """
    units = []
    for number, (pieces, rows) in enumerate(_groups(files, count, unit_bytes, unit_rows)):
        digest = fingerprint({"key": key, "pieces": list(pieces)})
        units.append(Unit(f"{number:07}-{digest[:32]}.parquet", pieces, rows))
    return units


def _groups(
    files: Iterable[InputFile], count: Callable[[str], int], unit_bytes: int, unit_rows: int
) -> Iterator[tuple[tuple[Piece, ...], int]]:
    group: list[Piece] = []
    size = rows = 0
    for file in files:
        inputs = count(file.path)
        full = size + file.size > unit_bytes or rows + inputs > unit_rows or len(group) >= _UNIT_FILES
        if group and full:
            yield tuple(group), rows
            group, size, rows = [], 0, 0
        if (file.size > unit_bytes or inputs > unit_rows) and inputs > 1 and file.path.lower().endswith(_CUT):
            for span in spans(inputs, min(unit_rows, -(-inputs * unit_bytes // file.size))):
                yield (Piece(file, span.start, span.stop),), span.stop - span.start
            continue
        group.append(Piece(file))
        size, rows = size + file.size, rows + inputs
    if group:
        yield tuple(group), rows


def count_rows(path: str) -> int:
    """How many rows a file of features has; 0 where that can't be said without reading all of it."""
    if is_address(path):
        return 0
    try:
        return len(FeatureSet.open(path, labels=False))
    except SoftscopeError:
        return 0  # its row in the output says why
