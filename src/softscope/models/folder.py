"""From a model and a data set to a folder of files: the head, and the features of each split."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..images import ImageSet, ImageSplits, fit_images, write_images
from ..progress import Progress, silent
from .collecting import Layer
from .opening import OpenedModel


@dataclass(frozen=True)
class WrittenSplit:
    """A feature file: its rows, and, where the labels are classes of the model, the share the head gets right."""

    split: str
    path: str
    rows: int
    accuracy: float | None
    subset: str | None


@dataclass(frozen=True)
class Written:
    """What `extract_to_folder` wrote."""

    head: str
    classes: int
    features: int
    splits: tuple[WrittenSplit, ...]


@dataclass(frozen=True)
class Options:
    """How features are taken; `size` resizes the images, `limit` rows a split, `keep_images` writes them beside."""

    layer: Layer = "after"
    size: int | None = None
    limit: int | None = None
    batch: int = 256
    keep_images: bool = False
    progress: Progress = silent

    def __post_init__(self) -> None:
        """Every number is checked before anything is opened."""
        for name, value in (("batch", self.batch), ("limit", self.limit), ("size", self.size)):
            if value is not None and value < 1:
                raise SoftscopeError(f"{name} {value}: too small", "Give a whole number of at least 1")
        if self.size is not None and self.size > 4096:
            raise SoftscopeError(f"size {self.size}: too large", "Give at most 4096 pixels")


def extract_to_folder(
    model: OpenedModel,
    source: ImageSplits,
    out: str | os.PathLike[str],
    *,
    splits: Sequence[str] = (),
    options: Options | None = None,
) -> Written:
    """Write `<split>.safetensors` for each split of `source`, and the head.

    Labels go into a feature file only where they number the model's own classes; other data is out of distribution.
    """
    options = options or Options()
    chosen = list(splits) or list(source.splits)
    for split in chosen:
        if split not in source.splits:
            raise SoftscopeError(f"{source.name}: no split {split!r} here", f"There is {', '.join(source.splits)}")
    head = _head(model, source, chosen[0], options)
    folder = Path(out)
    written = tuple(_extract_split(model, head, source, split, folder, options) for split in chosen)
    head.save(folder / "head.safetensors")
    return Written(str(folder / "head.safetensors"), head.n_classes, head.n_features, written)


def _head(model: OpenedModel, source: ImageSplits, split: str, options: Options) -> Head:
    """The head with its class names: those of the model's file, else those of the data where their number agrees."""
    one = _load_for(model, source, split, options.size, 1)
    probe = fit_images(one.images, model.input_shape)
    names = model.classes
    if names is None and model.head(probe=probe).n_classes == len(one.class_names):
        names = one.class_names
    return model.head(names, probe)


def _extract_split(
    model: OpenedModel, head: Head, source: ImageSplits, split: str, folder: Path, options: Options
) -> WrittenSplit:
    images = _load_for(model, source, split, options.size, options.limit)
    words = {"model": model.name, "dataset": images.name, "split": split}
    words |= {"subset": images.subset} if images.subset else {}
    if options.keep_images:
        kept = folder / f"{split}-images.parquet"
        write_images(kept, images)
        words["images"] = kept.name
    path = folder / f"{split}.safetensors"
    features = model.features(
        fit_images(images.images, model.input_shape),
        images.labels if images.class_names == head.classes else None,
        layer=options.layer,
        batch=options.batch,
        out=path,
        progress=options.progress,
        name=split,
        metadata=words,
    )
    accuracy = _accuracy(head, features) if options.layer == "after" else None
    return WrittenSplit(split, str(path), len(features), accuracy, images.subset)


def _load_for(model: OpenedModel, data: ImageSplits, split: str, size: int | None, limit: int | None) -> ImageSet:
    """The split in the size the network takes; only the model's own classes where it learned some of this data set."""
    first = data.load(split, size, 1, None)
    classes = None
    names = model.classes
    if names is not None and set(names) < set(first.class_names) and model.dataset in (None, first.name):
        classes = names
    wanted = model.input_shape[0]
    fitted = fit_images(first.images, model.input_shape).shape[1]
    if size is None and wanted is not None and fitted != wanted:
        size = wanted
    return data.load(split, size, limit, classes)


def _accuracy(head: Head, features: FeatureSet) -> float | None:
    if features.labels is None:
        return None
    right, start = 0, 0
    for rows in features.chunks():
        right += int((head.logits(rows).argmax(1) == features.labels[start : start + len(rows)]).sum())
        start += len(rows)
    return right / len(features)
