"""From a model and a data set to a folder of files: the head, and the features of each split."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..data import ImageSet, as_rgb, binarise9, find, greyscale, load, load_files, to_rgb32
from ..data.conversion import RawSplit, write_split
from ..data.folders import split_state
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from .collecting import Layer
from .models import OpenedModel

_RGB = 3


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
class Data:
    """A catalogued data set (`name`), or parquet `files` of each split."""

    name: str
    files: dict[str, list[Path]]

    def load(self, split: str, size: int | None, limit: int | None, classes: Sequence[str] | None) -> ImageSet:
        """The images of a split."""
        if self.files:
            return load_files(self.files[split], size=size, limit=limit, classes=classes)
        return load(self.name, split, size=size, limit=limit, classes=classes)


@dataclass(frozen=True)
class Options:
    """How features are taken; `size` resizes the images, `limit` rows a split, `keep_images` writes them beside."""

    layer: Layer = "after"
    size: int | None = None
    limit: int | None = None
    batch: int = 256
    keep_images: bool = False
    progress: bool = False


def extract_to_folder(
    model: OpenedModel,
    data: str,
    out: str | os.PathLike[str],
    *,
    splits: Sequence[str] = (),
    options: Options | None = None,
) -> Written:
    """Write `<split>.safetensors` for each split of `data`, a catalogued name or a parquet path, and the head.

    Labels go into a feature file only where they number the model's own classes; other data is out of distribution.
    """
    options = options or Options()
    source, available = find_data(data)
    chosen = list(splits) or available
    for split in chosen:
        if split not in available:
            raise SoftscopeError(f"{data}: no split {split!r} here", f"There is {', '.join(available)}")
    head = _head(model, source, chosen[0], options)
    folder = Path(out)
    written = tuple(_extract_split(model, head, source, split, folder, options) for split in chosen)
    head.save(folder / "head.safetensors")
    return Written(str(folder / "head.safetensors"), head.n_classes, head.n_features, written)


def _head(model: OpenedModel, source: Data, split: str, options: Options) -> Head:
    """The head with its class names: those of the model's file, else those of the data where their number agrees."""
    one = _load_for(model, source, split, options.size, 1)
    probe = fit_images(one.images, model.input_shape)
    names = model.classes
    if names is None and model.head(probe=probe).n_classes == len(one.class_names):
        names = one.class_names
    return model.head(names, probe)


def _extract_split(
    model: OpenedModel, head: Head, source: Data, split: str, folder: Path, options: Options
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


def find_data(data: str) -> tuple[Data, list[str]]:
    """A parquet file, a folder of `<split>-*.parquet` or a catalogued data set, and its splits here."""
    path = Path(data)
    if path.suffix.lower() == ".parquet" or path.is_dir():
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        groups: dict[str, list[Path]] = {}
        for file in files:
            groups.setdefault(file.stem.split("-")[0], []).append(file)
        if not groups:
            raise SoftscopeError(f"{data}: a folder without a .parquet file", "Name a data set, a file or its folder")
        return Data(path.name, groups), list(groups)
    entry = find(data)
    here = [split for split in entry.splits if entry.name == "digits" or split_state(entry, split).files]
    if not here:
        raise SoftscopeError(f"{entry.name}: isn't here", f"Run `softscope data get {entry.name}`")
    return Data(entry.name, {}), here


def fit_images(images: NDArray[np.uint8], shape: tuple[int | None, ...]) -> NDArray[np.uint8]:
    """Images in the channels a network takes: grey, RGB (28 x 28 padded to 32 x 32, X9) or 9x9 bits (X6)."""
    if shape == (9, 9, 1):
        return binarise9(images)
    if shape[-1] != _RGB:
        return greyscale(images)
    if images.shape[1:3] == (28, 28) and shape[0] in (None, 32):
        return to_rgb32(images)
    return as_rgb(images)


def _load_for(model: OpenedModel, data: Data, split: str, size: int | None, limit: int | None) -> ImageSet:
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


def write_images(path: Path, images: ImageSet) -> None:
    """The images as PNG in the hub's parquet layout, for a report to show."""
    raw = RawSplit(images.labels, _pngs(images.images), images.class_names, {"source": f"{images.name} {images.split}"})
    write_split(path, raw, rows=len(images))


def _pngs(images: NDArray[np.uint8]) -> Iterator[bytes]:
    from PIL import Image

    for image in images:
        stream = BytesIO()
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(stream, "png")
        yield stream.getvalue()


def _accuracy(head: Head, features: FeatureSet) -> float | None:
    if features.labels is None:
        return None
    right, start = 0, 0
    for rows in features.chunks():
        right += int((head.logits(rows).argmax(1) == features.labels[start : start + len(rows)]).sum())
        start += len(rows)
    return right / len(features)
