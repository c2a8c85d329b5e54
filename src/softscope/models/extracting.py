"""`extract(model, data)`: head and features of any classifier and any data, in memory or saved to a file."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..images import ImageSource, open_images
from ..progress import Progress, silent
from .batches import Batch, batches_of, labelled
from .opened import OpenedModel, check_logits
from .opening import open_model
from .plan import Plan, make_plan, read_set

BATCH = 64
_PROBE_ROWS = 2


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
    if batch < 1:
        raise SoftscopeError(f"batch {batch}: too small", "Give a whole number of at least 1")
    if limit is not None and limit < 1:
        raise SoftscopeError(f"limit {limit}: too small", "Give a whole number of at least 1")
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
        head = head or opened.prepare(_first(first.inputs))
        extracted[name] = _from_batches(opened, head, name, first, stream, progress)
    assert head is not None  # there is at least one set
    return head, extracted


def _from_images(plan: Plan, name: str, batch: int, progress: Progress) -> FeatureSet:
    chosen = plan.sets[name]
    reads = list(read_set(plan, chosen, slice(0, len(chosen.rows)), batch, progress))
    bad = [each for read in reads for each in read.bad]
    positions = np.concatenate([read.positions for read in reads])
    if bad:
        warnings.warn(f"{name}: {len(bad)} images could not be decoded, the first: {bad[0]}", stacklevel=4)
    if not len(positions):
        raise SoftscopeError(f"{name}: none of {len(chosen.rows)} images could be decoded: {bad[0]}", "Check the files")
    labels = None if chosen.labels is None else chosen.labels[positions]
    z = np.concatenate([read.features for read in reads])
    return FeatureSet(z, labels, name=name, metadata=_words(plan.opened))


def _from_batches(
    opened: OpenedModel, head: Head, name: str, first: Batch, rest: Iterator[Batch], progress: Progress
) -> FeatureSet:
    taken: list[NDArray] = []
    labels: list[NDArray[np.int64]] = []
    done, batch = 0, first
    while True:
        rows, z, logits = opened.read(batch.inputs)
        check_logits(head, z, logits, done, opened.tolerance)
        taken.append(rows)
        # Labels of unfamiliar data number classes that the model doesn't have.
        labels += [] if batch.labels is None or name.startswith("ood/") else [batch.labels]
        done += len(rows)
        progress(f"features of {name}", done, 0)
        following = next(rest, None)
        if following is None:
            break
        batch = following
    if labels and sum(map(len, labels)) != done:
        raise SoftscopeError(f"{name}: {sum(map(len, labels))} labels for {done} inputs", "Label every batch or none")
    known = np.concatenate(labels) if labels else None
    features = FeatureSet(np.concatenate(taken), known, name=name, metadata=_words(opened))
    features.check_labels(head.n_classes)
    return features


def _words(opened: OpenedModel) -> dict[str, str]:
    return {"model": opened.name, "layer": opened.layer, **opened.words}


def _first(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return {name: value[:_PROBE_ROWS] for name, value in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(value[:_PROBE_ROWS] for value in inputs)
    return inputs[:_PROBE_ROWS]
