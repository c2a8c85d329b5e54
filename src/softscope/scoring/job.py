"""`Job`: what a worker does with a unit, wherever it runs: read, score, write."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..guard import Guard
from .folders import OutputFolder
from .outputs import Counts, write_output
from .plan import Unit
from .reading import feature_blocks
from .rows import Block, Scorer

if TYPE_CHECKING:
    import pyarrow as pa

    from .pictures import Pictures, Pixels


@dataclass(frozen=True)
class Job:
    """What a worker needs to know to score any unit of a run."""

    guards: tuple[Guard, ...]
    folder: OutputFolder
    pictures: "Pictures | None" = None

    @cached_property
    def scorer(self) -> Scorer:
        """Made once in each worker."""
        return Scorer(self.guards)

    def blocks(self, unit: Unit) -> "Iterator[Block | Pixels]":
        """The inputs of a unit: features, or images for the model."""
        if self.pictures is not None:
            yield from self.pictures.blocks(unit)
            return
        for piece in unit.pieces:
            yield from feature_blocks(piece, self.scorer.head.n_features)

    def table(self, blocks: "Iterable[Block | Pixels]") -> "pa.Table":
        """The scores of inputs that were read."""
        import pyarrow as pa

        return pa.concat_tables([self.scorer.table(self._features(block)) for block in blocks])

    def _features(self, block: "Block | Pixels") -> Block:
        if isinstance(block, Block):
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
