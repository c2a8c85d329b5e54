"""Training features in shards: what a fit sums over rows is summed where the shards are read, then merged.

    with sharded_features("train.safetensors", Engine("ray", address="auto")) as train:
        Guard.fit(head, train, calibration)

Class moments and the statistics of EM are mergeable. They are merged in a tree whose order depends on the number of
shards alone, so that a fit can be repeated to the last bit, and differs from that of one process by rounding only.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ..arrays import chunk_rows, spans
from ..engine import Engine, joined
from ..features import FeatureSet

_SHARD_BYTES = 1 << 28


class ShardedFeatures(FeatureSet):
    """Features in files, whose shards of `shard_rows` rows are worked on by the tasks of `engine`."""

    def __init__(self, opened: FeatureSet, engine: Engine, shard_rows: int) -> None:
        super().__init__(opened.part(slice(None))._source, opened.labels, name=opened.name, metadata=opened.metadata)
        self._whole, self._engine, self._shard_rows = opened, engine, shard_rows

    def over_shards(self, work: Callable[[FeatureSet, Any], Any], values: Any = None) -> list[Any]:
        """`work(shard, its part of values)` for every shard, in order; shards come without labels."""
        shards = [(span, None if values is None else values[span]) for span in spans(len(self), self._shard_rows)]
        return self._engine.map(_Task(os.path.abspath(self.name), work), shards, label="shards")


@dataclass(frozen=True)
class _Task:
    path: str
    work: Callable[[FeatureSet, Any], Any]

    def __call__(self, shard: tuple[slice, Any]) -> Any:
        span, values = shard
        # A copy, because work adds to what it carries, and one process may do several shards.
        return deepcopy(self.work)(FeatureSet.open(self.path, labels=False).part(span), values)


@contextmanager
def sharded_features(
    path: str | os.PathLike[str], engine: Engine, *, shard_rows: int | None = None
) -> Iterator[FeatureSet]:
    """The features in `path`: for the local engine as they are, for Ray in shards, connected as long as this lasts.

    Every machine must see the file under this path. `shard_rows` cuts shards for the local engine too.
    """
    opened = FeatureSet.open(path)
    if engine.name == "local" and shard_rows is None:
        yield opened
        return
    size = shard_rows or chunk_rows(opened.n_features, opened.dtype.itemsize, _SHARD_BYTES)
    with joined(engine.address, engine.workers) if engine.name == "ray" else nullcontext():
        yield ShardedFeatures(opened, engine, size)
