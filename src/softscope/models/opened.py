"""What every kind of model is once it is open, the check against its own logits, and where rows go."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import stream_safetensors
from ..head import Head
from ..images import Preprocessing

Layer = Literal["after", "before"]
TOLERANCE = 1e-4


class OpenedModel(ABC):
    """A classifier with a linear last layer.

    `classes` names its outputs, as `names_from` knows them, `dataset` the data set it was trained on, `preprocessing`
    how it takes images; `words` go into the metadata of its features.
    """

    name: str
    preprocessing: Preprocessing
    classes: tuple[str, ...] | None = None
    names_from: str = "the model"
    dataset: str | None = None
    layer: Layer = "after"
    tolerance: float = TOLERANCE
    words: dict[str, str] = {}  # noqa: RUF012  replaced as a whole, never written to

    @abstractmethod
    def describe(self) -> str:
        """Architecture and size, in a line."""

    @abstractmethod
    def prepare(self, probe: Any, layer: Layer = "after") -> Head:
        """The head, found with the help of a few inputs; called before `read`."""

    @abstractmethod
    def read(self, inputs: Any) -> tuple[NDArray, NDArray, NDArray]:
        """Rows for the file, features z and the model's own logits; rows are z but for the layer `before`."""

    @abstractmethod
    def fingerprint(self) -> str:
        """The same for the same model."""

    def checked_rows(self, head: Head, inputs: Any, first_row: int) -> NDArray:
        """Rows for the file, after `check_logits`."""
        rows, z, logits = self.read(inputs)
        check_logits(head, z, logits, first_row, self.tolerance)
        return rows


def check_logits(head: Head, z: NDArray, logits: NDArray, first_row: int, tolerance: float = TOLERANCE) -> None:
    """Raise unless the head applied to `z` gives `logits` to `tolerance` of the largest; `first_row` numbers row 0."""
    if not (np.isfinite(z).all() and np.isfinite(logits).all()):
        raise SoftscopeError(f"the model gives NaN or inf in rows from {first_row}", "Check its weights and its inputs")
    error = float(np.abs(head.logits(z) - logits).max())
    scale = float(np.abs(logits).max())
    if error > tolerance * max(scale, 1e-30):
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
