"""`FeatureSet`: final-layer features z with optional labels, wherever they lie."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_array, as_labels, as_rows, check_finite, chunk_rows, placed
from ..errors import SoftscopeError, printable
from ..files import existing, stream_safetensors
from .sources import ArraySource, Opened, RangeSource, Source, open_npy, open_npz, open_safetensors

_FORMATS = ".safetensors, .npz, .npy, .parquet or a folder of .parquet files"


class FeatureSet:
    """Features `z` [N, H] (float32 or float64) and, where known, labels [N].

    `z` is an array, or a source that `open` made. Rows that are handed out are finite, or a SoftscopeError names the
    first that isn't; they may be views of what was passed, so they are not to be written to.

    >>> features = FeatureSet([[0.5, 2.0], [1.0, 0.0], [0.0, 3.0]], labels=[1, 0, 1], name="train")
    >>> features
    FeatureSet(train: 3 rows, 2 features, labels, float64)
    >>> features.take([2, 0]).labels
    array([1, 1])
    """

    def __init__(
        self, z: Any, labels: Any = None, *, name: str = "features", metadata: Mapping[str, str] | None = None
    ) -> None:
        self._source = z if isinstance(z, Source) else ArraySource(as_rows(z, f"{name}: z"), f"{name}: z")
        self.labels: NDArray[np.int64] | None = (
            None if labels is None else as_labels(labels, f"{name}: labels", rows=len(self))
        )
        self.name = name
        self.metadata: dict[str, str] = _checked_metadata(metadata or {}, name)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, labels: bool = True) -> "FeatureSet":
        """Open a safetensors, npz, npy or parquet file, or a folder of parquet files; rows are read when asked for.

        Labels are read at once unless `labels` is False, for a caller that needs a few rows of a large file.
        """
        source, known, metadata = _open(path, labels)
        return cls(source, known, name=printable(str(path)), metadata=metadata)

    @classmethod
    def of(cls, features: Any, name: str = "z") -> "FeatureSet":
        """Whatever people pass as features: the one way in for every public function.

        A FeatureSet as it is; a path, opened; an array, a torch tensor (detached) or a list of rows; or a pair of
        these and labels. `name` stands in error messages for where it came from.

        >>> FeatureSet.of(([[0.5, 2.0], [1.0, 0.0]], [1, 0]))
        FeatureSet(z: 2 rows, 2 features, labels, float64)
        """
        if isinstance(features, FeatureSet):
            return features
        if isinstance(features, str | os.PathLike):
            return cls.open(features)
        if isinstance(features, tuple) and len(features) == 2 and np.ndim(as_array(features[0], f"{name}: z")) == 2:
            return cls(_numbers_of(features[0], name), features[1], name=name)
        return cls(_numbers_of(features, name), name=name)

    def __len__(self) -> int:
        return self._source.shape[0]

    def __repr__(self) -> str:
        labels = "no labels" if self.labels is None else "labels"
        return f"FeatureSet({self.name}: {len(self)} rows, {self.n_features} features, {labels}, {self.dtype})"

    @property
    def n_features(self) -> int:
        """H."""
        return self._source.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64, of the rows as they are handed out."""
        return self._source.dtype

    def chunks(self, rows: int | None = None) -> Iterator[NDArray]:
        """Finite blocks of consecutive rows, in order, sized for the cache unless `rows` is given."""
        for span, block in placed(self.unchecked_chunks(rows)):
            check_finite(block, self._source.name, first_row=span.start)
            yield block

    def unchecked_chunks(self, rows: int | None = None, *, first: int = 0, holes: bool = False) -> Iterator[NDArray]:
        """`chunks` from row `first` on without looking at the values, for a caller that finds NaN and inf itself.

        With `holes` rows that a file lacks (null) or has too short or long are NaN as well, instead of an error.
        """
        if rows is not None and rows < 1:
            raise SoftscopeError(f"{self.name}: chunks of {rows} rows", "Ask for at least 1 row per chunk")
        if not 0 <= first <= len(self):
            raise SoftscopeError(f"{self.name}: there is no row {first}", f"Give a number in 0..{len(self)}")
        return self._source.blocks(rows or chunk_rows(self.n_features), first, holes=holes)

    def stamp(self) -> list[tuple[str, int, int]]:
        """Path, size and time of change of every file the rows come from, as they were when opened; [] in memory."""
        return [(str(file.path.absolute()), file.size, file.modified) for file in self._source.files]

    def rows(self, indices: Any) -> NDArray:
        """The rows `indices`, in that order: a slice, whole numbers in 0..N-1, or a mask of N booleans."""
        numbers = self._numbers(indices)
        block = self._source.gather(numbers)
        check_finite(block, self._source.name, numbers=numbers)
        return block

    def take(self, indices: Any) -> "FeatureSet":
        """The rows `indices` with their labels, in memory."""
        numbers = self._numbers(indices)
        labels = None if self.labels is None else self.labels[numbers]
        return FeatureSet(self.rows(numbers), labels, name=self.name, metadata=self.metadata)

    def part(self, span: slice) -> "FeatureSet":
        """The consecutive rows `span` with their labels, read when asked for."""
        first, stop, _ = span.indices(len(self))
        labels = None if self.labels is None else self.labels[first:stop]
        return FeatureSet(RangeSource(self._source, first, stop), labels, name=self.name, metadata=self.metadata)

    def over_shards(self, work: Callable[["FeatureSet", Any], Any], values: Any = None) -> list[Any]:
        """`work(shard, its part of values)` for every shard of the rows, in order: here all rows are one shard."""
        return [work(self, values)]

    def array(self) -> NDArray:
        """All rows, in memory."""
        if isinstance(self._source, ArraySource):
            check_finite(self._source.array, self._source.name)
            return self._source.array
        try:
            whole = np.empty(self._source.shape, self.dtype)
        except (MemoryError, ValueError) as error:
            raise SoftscopeError(
                f"{self._source.name}: {self._source.shape} of {self.dtype} is more than memory holds",
                "Go through it with chunks()",
            ) from error
        for span, block in placed(self.chunks()):
            whole[span] = block
        return whole

    def check_labels(self, classes: int) -> None:
        """Raise unless every label, where there are labels, is in 0..classes-1."""
        if self.labels is not None:
            as_labels(self.labels, f"{self.name}: labels", classes=classes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `z`, `labels` and the metadata as safetensors, atomically and chunk by chunk."""
        tensors: dict[str, Any] = {"z": (self.dtype, self._source.shape, self.chunks())}
        if self.labels is not None:
            tensors["labels"] = (self.labels.dtype, self.labels.shape, [self.labels])
        stream_safetensors(path, tensors, self.metadata)

    def _numbers(self, indices: Any) -> NDArray[np.int64]:
        if isinstance(indices, slice):
            return np.arange(*indices.indices(len(self)), dtype=np.int64)
        numbers = as_array(indices, f"{self.name}: row numbers")
        if numbers.dtype == bool and numbers.shape == (len(self),):
            return np.flatnonzero(numbers)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise SoftscopeError(
                f"{self.name}: row numbers of shape {numbers.shape} and type {numbers.dtype}",
                f"Give whole numbers, a slice or a mask of {len(self)} booleans",
            )
        outside = (numbers < 0) | (numbers >= len(self))
        if outside.any():
            raise SoftscopeError(
                f"{self.name}: there is no row {numbers[outside][0]}", f"Give numbers in 0..{len(self) - 1}"
            )
        return numbers.astype(np.int64)


def _numbers_of(features: Any, name: str) -> NDArray:
    """An array of features; whole numbers in a plain list are numbers like others."""
    array = as_array(features, f"{name}: z")
    return array.astype(np.float64) if isinstance(features, list | tuple) and array.dtype.kind in "iu" else array


def _open(path: str | os.PathLike[str], labels: bool) -> Opened:
    there = existing(path)
    suffix = there.suffix.lower()
    if there.is_dir() or suffix == ".parquet":
        from .parquet_files import open_parquet

        return open_parquet(path, labels=labels)
    if suffix == ".safetensors":
        return open_safetensors(path, labels=labels)
    if suffix in (".npz", ".npy"):
        return open_npz(path, labels=labels) if suffix == ".npz" else open_npy(path)
    raise SoftscopeError(f"{path}: features in a {suffix or 'nameless'} file", f"Give {_FORMATS}")


def _checked_metadata(metadata: Mapping[str, str], name: str) -> dict[str, str]:
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise SoftscopeError(f"{name}: metadata {key!r} is {value!r}, expected text", "Use str(value)")
    return dict(metadata)
