"""`FeatureSet`: final-layer features z with optional labels, in memory or in files larger than memory."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import as_labels, as_rows, check_finite, chunk_rows, spans


class FeatureSet:
    """Features `z` [N, H] (float32 or float64) and, where known, labels [N]."""

    def __init__(self, z: Any, labels: Any = None, *, name: str = "features") -> None:
        self._z = as_rows(z, f"{name}: z")
        self.labels: NDArray[np.int64] | None = (
            None if labels is None else as_labels(labels, f"{name}: labels", rows=len(self._z))
        )
        self.name = name

    def __len__(self) -> int:
        return len(self._z)

    @property
    def n_features(self) -> int:
        """H."""
        return int(self._z.shape[1])

    def chunks(self, rows: int | None = None) -> Iterator[NDArray]:
        """Finite blocks of consecutive rows, in order, sized for the cache unless `rows` is given."""
        size = rows or chunk_rows(self.n_features)
        for span in spans(len(self), size):
            block = self._z[span]
            check_finite(block, f"{self.name}: z", first_row=span.start)
            yield block

    def check_labels(self, classes: int) -> None:
        """Raise unless every label, where there are labels, is in 0..classes-1."""
        if self.labels is not None:
            as_labels(self.labels, f"{self.name}: labels", classes=classes)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "FeatureSet":
        """Open a feature file."""
        raise AssertionError
