"""The inputs of a unit, a bounded block at a time. What can't be read is a row with a reason, never an error."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..arrays import check_columns, chunk_rows, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from .folders import local_copy
from .plan import Piece
from .rows import NO_ROW, Block

_BLOCK_BYTES = 1 << 25


def feature_blocks(piece: Piece, width: int) -> Iterator[Block]:
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
                    yield Block(piece.file.path, np.arange(row, row + len(chosen)), chosen)
                row += len(chosen)
                if row >= stop:
                    break
        except SoftscopeError as error:
            reason = error.what.replace(str(path), piece.file.path)
            for span in spans(stop - row, size):
                yield unreadable(piece.file.path, np.arange(row + span.start, row + span.stop), width, reason)


def unreadable(path: str, rows: NDArray[np.int64], width: int, reason: str) -> Block:
    """Inputs that can't be read."""
    reason = reason.removeprefix(f"{path}: ").removeprefix("z: ")
    return Block(path, rows, np.zeros((len(rows), width), np.float32), dict.fromkeys(range(len(rows)), reason))
