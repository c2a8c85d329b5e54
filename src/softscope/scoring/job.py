"""`Job`: what a worker does with a unit, wherever it runs: read, score, write.

A bounded block is read at a time. What can't be read is a row with a reason, never an error.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..arrays import check_columns, chunk_rows, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..guard import Guard
from .folders import OutputFolder, local_copy
from .outputs import Counts, write_output
from .plan import Piece, Unit
from .rows import NO_ROW, RowBlock, RowScorer

if TYPE_CHECKING:
    import pyarrow as pa

    from .pictures import DecodedRows, Pictures


_BLOCK_BYTES = 1 << 25


@dataclass(frozen=True)
class Job:
    """What a worker needs to know to score any unit of a run."""

    guards: tuple[Guard, ...]
    folder: OutputFolder
    pictures: "Pictures | None" = None

    @cached_property
    def scorer(self) -> RowScorer:
        """Made once in each worker."""
        return RowScorer(self.guards)

    def blocks(self, unit: Unit) -> "Iterator[RowBlock | DecodedRows]":
        """The inputs of a unit: features, or images for the model."""
        if self.pictures is not None:
            yield from self.pictures.blocks(unit)
            return
        for piece in unit.pieces:
            yield from feature_blocks(piece, self.scorer.head.n_features)

    def table(self, blocks: "Iterable[RowBlock | DecodedRows]") -> "pa.Table":
        """The scores of inputs that were read."""
        import pyarrow as pa

        return pa.concat_tables([self.scorer.table(self._features(block)) for block in blocks])

    def _features(self, block: "RowBlock | DecodedRows") -> RowBlock:
        if isinstance(block, RowBlock):
            return block
        assert self.pictures is not None
        return self.pictures.features(block)

    def write(self, unit: Unit, table: "pa.Table") -> Counts:
        """Write the output of a unit, and count what is in it."""
        write_output(self.folder, unit, table)
        return Counts.of(table, self.scorer.head.n_classes)

    def __call__(self, unit: Unit) -> Counts:
        """Score one unit: a block in memory at a time, and nothing of it when it is done."""
        import pyarrow as pa

        try:
            return self.write(unit, self.table(self.blocks(unit)))
        finally:
            pa.default_memory_pool().release_unused()  # it keeps what was freed: the next unit would come on top


def feature_blocks(piece: Piece, width: int) -> Iterator[RowBlock]:
    """The rows of a feature file, `width` columns each.

    A file that can't be opened is one input without a row number. Where it can't be read on, the reason stands beside
    every row that is left, so that none is missing.
    """
    piece.file.check_unchanged()
    size = chunk_rows(width, 4, _BLOCK_BYTES)
    with local_copy(piece.file.path) as path:
        row, stop = NO_ROW, NO_ROW + 1  # one input, until the file says how many
        try:
            features = FeatureSet.open(path, labels=False)
            check_columns(features.n_features, f"{piece.file.path}: z", columns=width)
            row, stop = piece.first, len(features) if piece.stop is None else piece.stop
            for z in features.unchecked_chunks(size, first=row, holes=True):
                chosen = z[: stop - row]
                if len(chosen):
                    yield RowBlock(piece.file.path, np.arange(row, row + len(chosen)), chosen)
                row += len(chosen)
                if row >= stop:
                    break
        except SoftscopeError as error:
            reason = error.what.replace(str(path), piece.file.path)
            for span in spans(stop - row, size):
                yield unreadable(piece.file.path, np.arange(row + span.start, row + span.stop), width, reason)


def unreadable(path: str, rows: NDArray[np.int64], width: int, reason: str) -> RowBlock:
    """Inputs that can't be read."""
    reason = reason.removeprefix(f"{path}: ").removeprefix("z: ")
    return RowBlock(
        path, rows, np.full((len(rows), width), np.nan, np.float32), dict.fromkeys(range(len(rows)), reason)
    )
