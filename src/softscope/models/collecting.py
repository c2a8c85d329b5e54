"""What every kind of model shares in extraction: the check against the model's own logits, and where rows go."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import stream_safetensors
from ..head import Head

Layer = Literal["after", "before"]
TOLERANCE = 1e-4


def check_logits(head: Head, z: NDArray, logits: NDArray, first_row: int) -> None:
    """Raise unless the head applied to `z` gives `logits` to 1e-4 of the largest; `first_row` numbers row 0."""
    if not (np.isfinite(z).all() and np.isfinite(logits).all()):
        raise SoftscopeError(f"the model gives NaN or inf in rows from {first_row}", "Check its weights and its inputs")
    error = float(np.abs(head.logits(z) - logits).max())
    scale = float(np.abs(logits).max())
    if error > TOLERANCE * max(scale, 1e-30):
        raise SoftscopeError(
            f"the head applied to the features misses the model's logits by {error:.2g} (largest {scale:.2g}), "
            f"rows from {first_row}",
            "Is something done to the logits after the last layer, a scale or a dropout that is on in evaluation? "
            "Is the model in half precision (use model.float())?",
        )


def collected(
    blocks: Iterable[NDArray],
    shape: tuple[int, int],
    labels: NDArray[np.int64] | None,
    *,
    out: str | os.PathLike[str] | None,
    name: str,
    metadata: Mapping[str, str],
) -> FeatureSet:
    """Blocks of rows as a FeatureSet: in memory, or with `out` written as they come and opened from there."""
    if out is None:
        return FeatureSet(np.concatenate(list(blocks)), labels, name=name, metadata=metadata)
    tensors: dict[str, Any] = {"z": (np.dtype(np.float32), shape, _all(blocks, shape[0]))}
    if labels is not None:
        tensors["labels"] = (labels.dtype, labels.shape, [labels])
    stream_safetensors(out, tensors, metadata)
    return FeatureSet.open(out)


def _all(blocks: Iterable[NDArray], rows: int) -> Iterator[NDArray]:
    """The blocks, or an error that keeps a file from being replaced by one with too few rows."""
    done = 0
    for block in blocks:
        yield block
        done += len(block)
    if done != rows:
        raise SoftscopeError(f"{done:,} rows where there should be {rows:,}", "Extract again")
