"""`extract(model, data)`: head and features of any classifier and any data, in memory or saved to a file.

Data in Python comes as arrays, tensors, dicts, data sets, loaders, iterables of batches: `batches_of` cuts all of them.
"""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_array, as_labels, rows_in, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..images import ImageSource, open_images
from ..progress import Progress, silent
from .opened import OpenedModel
from .opening import open_model
from .plan import Plan, make_plan, read_set

BATCH = 64
_PROBE_ROWS = 2
_LABELS = ("labels", "label", "target", "targets", "y")


class Batch(NamedTuple):
    """Inputs as the model takes them (a tensor, a tuple, a dict, a list of texts) and labels [n], if there are any."""

    inputs: Any
    labels: NDArray[np.int64] | None


def extract(
    model: Any,
    data: Any,
    labels: Any = None,
    *,
    classes: Sequence[str] | None = None,
    batch: int = BATCH,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    name: str = "features",
    progress: Progress = silent,
    **options: Any,
) -> tuple[Head, FeatureSet]:
    """The last linear layer of `model` and what it sees of each input of `data`, checked against the model's logits.

    `model` is whatever `open_model` takes, `options` go there. `data` is a path to images, or inputs as the model takes
    them: arrays, tensors, a dict, a DataLoader, a Dataset, any iterable of batches; `labels` belong to arrays. Images
    keep their labels only where their class names are the model's; `limit` draws so many of them, balanced over the
    classes. With `out` the features are saved there.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import softscope as sx
    >>> x, y = load_iris(return_X_y=True)
    >>> head, features = sx.extract(LogisticRegression(max_iter=500).fit(x, y), (x, y))
    >>> head, features
    (Head(3 classes, 4 features, bias, float64), FeatureSet(features: 150 rows, 4 features, labels, float64))
    """
    given = data if labels is None else labelled(data, labels, name)
    head, sets = extract_sets(
        model, {name: given}, classes=classes, batch=batch, limit=limit, progress=progress, **options
    )
    features = sets[name]
    if out is not None:
        features.save(out)
        features = FeatureSet.open(out)
    return head, features


def extract_sets(
    model: Any,
    sets: Mapping[str, Any],
    *,
    classes: Sequence[str] | None = None,
    batch: int = BATCH,
    limit: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> tuple[Head, dict[str, FeatureSet]]:
    """One head and the features of several sets, each as in `extract`.

    Paths to images are matched by class names, the first labelled one being the model's own training data if it is
    called `train`; other data is taken as it is.
    """
    if not sets:
        raise SoftscopeError("no set to extract", "Give at least one")
    for option, number in (("batch", batch), ("limit", limit)):
        if number is not None and number < 1:
            raise SoftscopeError(f"{option} {number}: too small", "Give a whole number of at least 1")
    opened = open_model(model, classes=classes, **options)
    paths = {name: data for name, data in sets.items() if isinstance(data, str | os.PathLike | ImageSource)}
    sources = {name: data if isinstance(data, ImageSource) else open_images(data, name) for name, data in paths.items()}
    plan = make_plan(opened, sources, limit=limit, declared="train" in sources) if sources else None
    for line in plan.lines() if plan else ():
        if line.startswith("note: "):
            warnings.warn(line.removeprefix("note: "), stacklevel=3)
    if 0 < len(paths) < len(sets) and opened.preprocessing.source == "default":
        warnings.warn(
            f"images of {', '.join(paths)} are read with {opened.preprocessing}: if the other sets were made in "
            "another way, give size=, mean= and std=",
            stacklevel=3,
        )
    head = plan.head if plan else None
    extracted = {}
    for name, data in sets.items():
        if plan is not None and name in plan.sets:
            extracted[name] = _from_images(plan, name, batch, progress)
            continue
        stream = batches_of(data, batch, name)
        first = next(stream, None)
        if first is None:
            raise SoftscopeError(f"{name}: holds no inputs", "Give at least one")
        head = head or opened.prepare(_cut(first.inputs, slice(_PROBE_ROWS)))
        extracted[name] = _from_batches(opened, head, name, first, stream, progress)
    assert head is not None  # there is at least one set
    return head, extracted


def _from_images(plan: Plan, name: str, batch: int, progress: Progress) -> FeatureSet:
    chosen = plan.sets[name]
    z, positions, bad = read_set(plan, chosen, slice(0, len(chosen.rows)), batch, progress)
    if bad:
        warnings.warn(f"{name}: {len(bad)} images could not be decoded, the first: {bad[0]}", stacklevel=4)
    if not len(positions):
        raise SoftscopeError(f"{name}: none of {len(chosen.rows)} images could be decoded: {bad[0]}", "Check the files")
    labels = None if chosen.labels is None else chosen.labels[positions]
    return FeatureSet(z, labels, name=name, metadata=_words(plan.opened))


def _from_batches(
    opened: OpenedModel, head: Head, name: str, first: Batch, rest: Iterator[Batch], progress: Progress
) -> FeatureSet:
    taken: list[NDArray] = []
    labels: list[NDArray[np.int64]] = []
    done = 0
    for batch in chain([first], rest):
        taken.append(opened.checked_rows(head, batch.inputs, done))
        # Labels of unfamiliar data number classes that the model doesn't have.
        labels += [] if batch.labels is None or name.startswith("ood/") else [batch.labels]
        done += len(taken[-1])
        progress(f"features of {name}", done, 0)
    if labels and sum(map(len, labels)) != done:
        raise SoftscopeError(f"{name}: {sum(map(len, labels))} labels for {done} inputs", "Label every batch or none")
    known = np.concatenate(labels) if labels else None
    features = FeatureSet(np.concatenate(taken), known, name=name, metadata=_words(opened))
    features.check_labels(head.n_classes)
    return features


def _words(opened: OpenedModel) -> dict[str, str]:
    return {"model": opened.name, "layer": opened.layer, **opened.words}


def labelled(data: Any, labels: Any, name: str) -> tuple[Any, NDArray[np.int64]]:
    """All inputs at once with the label of each, checked."""
    if not _is_whole(data):
        kind = type(data).__name__
        raise SoftscopeError(f"{name}: labels beside {kind}", "Give labels with arrays; batches bring their own")
    return data, as_labels(labels, f"{name}: labels", rows=rows_in(data))


def batches_of(data: Any, batch: int, name: str) -> Iterator[Batch]:
    """`data` in batches.

    Arrays, tensors, lists of texts, dicts of these, and pairs (inputs, labels) are cut into batches; a torch Dataset,
    or a list of examples, goes through a DataLoader; whatever else can be iterated over gives batches itself: inputs,
    (inputs, labels), or a dict, as a DataLoader does.
    """
    whole, labels = _parted(data) if isinstance(data, tuple | Mapping) else (data, None)
    if _is_whole(whole):
        rows = rows_in(whole)
        known = None if labels is None else as_labels(labels, f"{name}: labels", rows=rows)
        for span in spans(rows, batch):
            yield Batch(_cut(whole, span), None if known is None else known[span])
        return
    start = 0
    for item in _iterated(data, batch, name):
        inputs, some = _parted(item)
        known = None if some is None else as_labels(some, f"{name}: labels of rows from {start}")
        yield Batch(inputs, known)
        start += rows_in(inputs)


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
        rows = rows_in(item[others[0]]) if others else 0
        label = next((key for key in _LABELS if key in item and _is_labels(item[key], rows)), None)
        return {key: value for key, value in item.items() if key != label}, None if label is None else item[label]
    if isinstance(item, tuple) or (isinstance(item, list) and not _is_texts(item)):
        if len(item) == 1:
            return item[0], None
        *inputs, last = item
        if len(inputs) and _is_labels(last, rows_in(inputs[0])):
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


def _cut(data: Any, span: slice) -> Any:
    if isinstance(data, Mapping):
        return {key: value[span] for key, value in data.items()}
    return tuple(value[span] for value in data) if isinstance(data, tuple) else data[span]
