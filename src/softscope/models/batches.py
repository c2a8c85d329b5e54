"""What people pass as data in Python, as batches: arrays, tensors, dicts, data sets, loaders, iterables of batches."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_array, as_labels, spans
from ..errors import SoftscopeError

_LABELS = ("labels", "label", "target", "targets", "y")


class Batch(NamedTuple):
    """Inputs as the model takes them (a tensor, a tuple, a dict, a list of texts) and labels [n], if there are any."""

    inputs: Any
    labels: NDArray[np.int64] | None

    def __len__(self) -> int:
        return _rows(self.inputs)


def labelled(data: Any, labels: Any, name: str) -> tuple[Any, NDArray[np.int64]]:
    """All inputs at once with the label of each, checked."""
    if not _is_whole(data):
        kind = type(data).__name__
        raise SoftscopeError(f"{name}: labels beside {kind}", "Give labels with arrays; batches bring their own")
    return data, as_labels(labels, f"{name}: labels", rows=_rows(data))


def batches_of(data: Any, batch: int, name: str) -> Iterator[Batch]:
    """`data` in batches.

    Arrays, tensors, lists of texts, dicts of these, and pairs (inputs, labels) are cut into batches; a torch Dataset,
    or a list of examples, goes through a DataLoader; whatever else can be iterated over gives batches itself: inputs,
    (inputs, labels), or a dict, as a DataLoader does.
    """
    if batch < 1:
        raise SoftscopeError(f"batch {batch}: too small", "Give a whole number of at least 1")
    whole, labels = _parted(data) if isinstance(data, tuple | Mapping) else (data, None)
    if _is_whole(whole):
        rows = _rows(whole)
        known = None if labels is None else as_labels(labels, f"{name}: labels", rows=rows)
        for span in spans(rows, batch):
            yield Batch(_cut(whole, span), None if known is None else known[span])
        return
    start = 0
    for item in _iterated(data, batch, name):
        inputs, some = _parted(item)
        known = None if some is None else as_labels(some, f"{name}: labels of rows from {start}")
        yield Batch(inputs, known)
        start += _rows(inputs)


def _iterated(data: Any, batch: int, name: str) -> Iterable[Any]:
    if _is_dataset(data):
        from ..torch_door import torch

        return torch.utils.data.DataLoader(data, batch_size=batch)
    if isinstance(data, Iterable):
        return data
    raise SoftscopeError(
        f"{name}: {type(data).__name__} is not data", "Give arrays, a DataLoader, a Dataset, or a path to images"
    )


def _is_dataset(data: Any) -> bool:
    """Whether `data` holds examples, not batches."""
    if isinstance(data, list):
        return bool(data) and isinstance(data[0], tuple) and isinstance(data[0][-1], int)
    iterable = any(base.__name__ == "IterableDataset" for base in type(data).__mro__)
    return iterable or (hasattr(data, "__getitem__") and hasattr(data, "__len__"))


def _parted(item: Any) -> tuple[Any, Any]:
    """Inputs and labels of a batch (or of everything): labels come last in a tuple, or under their name in a dict."""
    if isinstance(item, Mapping):
        others = [key for key in item if key not in _LABELS]
        rows = _rows(item[others[0]]) if others else 0
        label = next((key for key in _LABELS if key in item and _is_labels(item[key], rows)), None)
        return {key: value for key, value in item.items() if key != label}, None if label is None else item[label]
    if isinstance(item, tuple) or (isinstance(item, list) and not _is_texts(item)):
        if len(item) == 1:
            return item[0], None
        *inputs, last = item
        if len(inputs) and _is_labels(last, _rows(inputs[0])):
            return inputs[0] if len(inputs) == 1 else tuple(inputs), last
        return tuple(item), None
    return item, None


def _is_labels(values: Any, rows: int) -> bool:
    if isinstance(values, str) or not hasattr(values, "__len__") or len(values) != rows:
        return False
    array = as_array(values, "labels")
    return array.ndim == 1 and array.dtype.kind in "iu"


def _is_whole(data: Any) -> bool:
    """Whether `data` is all rows at once, to be cut."""
    if isinstance(data, Mapping):
        return all(_is_whole(value) for value in data.values())
    if isinstance(data, tuple):
        return all(_is_whole(value) for value in data)
    return _is_texts(data) or (hasattr(data, "shape") and hasattr(data, "dtype"))


def _is_texts(data: Any) -> bool:
    return isinstance(data, list) and len(data) > 0 and all(isinstance(text, str) for text in data)


def _rows(inputs: Any) -> int:
    if isinstance(inputs, Mapping):
        return _rows(next(iter(inputs.values())))
    if isinstance(inputs, tuple):
        return _rows(inputs[0])
    return int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)  # sparse matrices have no len


def _cut(data: Any, span: slice) -> Any:
    if isinstance(data, Mapping):
        return {key: value[span] for key, value in data.items()}
    return tuple(value[span] for value in data) if isinstance(data, tuple) else data[span]
