"""From a plan to files: the features of each set, kept as they come, so that an interrupted run goes on.

What the commands `extract` and `diagnose` share: sets of images by role, written to feature files beside the head.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import placed, spans
from ..canonical import parse_json
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import (
    read_safetensors,
    read_signed,
    reading,
    safetensors_header,
    stream_safetensors,
    writable_folder,
    write_signed,
)
from ..images import SPLITS, ImageSource, probe_images, write_thumbnails
from ..progress import Progress, silent
from .plan import Plan, SetPlan, read_set

_PART_ROWS = 2048


@dataclass(frozen=True)
class WrittenSet:
    """A feature file: its rows, the images that were bad, and the share the head gets right where there are labels."""

    name: str
    path: str
    rows: int
    skipped: tuple[str, ...]
    accuracy: float | None
    cached: bool


@dataclass(frozen=True)
class Options:
    """How features are taken: images per batch, and whether the images are written beside them for a report.

    `spread` has parts written by others, on many machines for example; without it this process writes them.
    """

    batch: int = 64
    keep_images: bool = False
    progress: Progress = silent
    spread: Callable[[Plan, SetPlan, Sequence["Part"]], Any] | None = None


class Part(NamedTuple):
    """Consecutive rows of a set, and the file that keeps their features until the set is whole."""

    rows: slice
    path: Path


def write_set(plan: Plan, name: str, path: str | os.PathLike[str], options: Options | None = None) -> WrittenSet:
    """Write the features of a set to `path`, unless they are there already.

    Blocks of rows are kept beside the file until it is whole, under the hash of model, preprocessing, images and
    labels: the same work goes on where it was interrupted, other work starts anew.
    """
    options = options or Options()
    chosen, target = plan.sets[name], Path(path)
    key = _key(plan, chosen, options.keep_images)
    cached = _is_whole(target, key)
    if not cached:
        _extract(plan, chosen, target, key, options)
    features = FeatureSet.open(target)
    with reading(target, "feature"):
        skipped, left_out = (parse_json(features.metadata[name]) for name in ("skipped", "skipped_rows"))
    images = target.with_name(f"{target.stem}-images.parquet")
    if options.keep_images and not (cached and images.is_file()):
        kept = np.setdiff1d(np.arange(len(chosen.rows)), left_out)
        write_thumbnails(images, chosen.source, chosen.rows[kept], chosen.decoder)
    accuracy = _accuracy(plan, features) if plan.opened.layer == "after" else None
    return WrittenSet(name, str(target), len(features), tuple(skipped), accuracy, cached)


def place_of(chosen: SetPlan) -> str:
    """A hash of the folder that the images are in: two data sets of one name differ in it."""
    folder = chosen.source.folder
    return "" if folder is None else hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def check_free(chosen: SetPlan, target: Path) -> None:
    """Raise where `target` has the features of another data set of the same name."""
    try:
        kept = safetensors_header(target)[1] if target.is_file() else {}
    except SoftscopeError:
        return  # not ours, or damaged: written anew
    if kept.get("place", place_of(chosen)) != place_of(chosen):
        raise SoftscopeError(
            f"{target}: holds features of other images that are called {chosen.name} too", "Give another --out"
        )


def _extract(plan: Plan, chosen: SetPlan, target: Path, key: str, options: Options) -> None:
    folder = target.parent / f".{target.stem}-{key[:16]}.parts"
    for older in target.parent.glob(f".{target.stem}-*.parts"):
        if older != folder:
            shutil.rmtree(older, ignore_errors=True)
    cut = [Part(span, folder / f"{span.start:09d}.safetensors") for span in spans(len(chosen.rows), _PART_ROWS)]
    missing = [part for part in cut if not _part_is_whole(part.path, plan.head.n_features)]
    if options.spread is not None and missing:
        options.spread(plan, chosen, missing)
    else:
        for part in missing:
            write_part(plan, chosen, part, options)
    parts = [part.path for part in cut]
    numbers, skipped, digest = [], [], hashlib.sha256()
    for path in parts:
        kept, words = read_safetensors(path)
        numbers.append(kept["positions"])
        skipped += parse_json(words["skipped"])
        digest.update(kept["z"].data)
    positions = np.concatenate(numbers)
    if not len(positions):
        raise SoftscopeError(
            f"{chosen.name}: none of {len(chosen.rows)} images could be decoded: {skipped[0]}", "Check the files"
        )
    metadata = {"model": plan.opened.name, "layer": plan.opened.layer, **plan.opened.words}
    metadata |= {"dataset": chosen.source.name, "preprocessing": str(plan.opened.preprocessing), "key": key}
    metadata |= {"skipped": json.dumps(skipped[:1000]), "place": place_of(chosen)}
    metadata["skipped_rows"] = json.dumps(np.setdiff1d(np.arange(len(chosen.rows)), positions).tolist())
    if options.keep_images:
        metadata["images"] = f"{target.stem}-images.parquet"
    shape = (len(positions), plan.head.n_features)
    tensors: dict[str, Any] = {"z": (np.dtype(np.float32), shape, (read_safetensors(part)[0]["z"] for part in parts))}
    if chosen.labels is not None:
        labels = chosen.labels[positions]
        tensors["labels"] = (labels.dtype, labels.shape, iter([labels]))
        digest.update(labels.data)
    metadata["sha256"] = _signed(metadata, digest.hexdigest())
    stream_safetensors(target, tensors, metadata)
    shutil.rmtree(folder, ignore_errors=True)


def write_part(plan: Plan, chosen: SetPlan, part: Part, options: Options) -> None:
    """Read some rows of a set through the model and keep their features, with their sha256."""
    read = read_set(plan, chosen, part.rows, options.batch, options.progress)
    tensors = {"positions": read.positions, "z": read.features}
    write_signed(part.path, tensors, {"skipped": json.dumps(read.bad)})


def _part_is_whole(path: Path, columns: int) -> bool:
    """Whether the part was written whole and is what was written."""
    try:
        return bool(read_signed(path)[0]["z"].shape[1] == columns)
    except (SoftscopeError, KeyError, IndexError):
        return False


def _is_whole(path: Path, key: str) -> bool:
    """Whether the file holds the features of this key, with every byte that was written."""
    try:
        if not path.is_file() or safetensors_header(path)[1].get("key") != key:
            return False
        features, digest = FeatureSet.open(path), hashlib.sha256()
        for rows in features.unchecked_chunks():
            digest.update(np.ascontiguousarray(rows).data)
        if features.labels is not None:
            digest.update(features.labels.data)
        words = {name: text for name, text in features.metadata.items() if name != "sha256"}
        return features.metadata.get("sha256") == _signed(words, digest.hexdigest())
    except SoftscopeError:
        return False


def _signed(metadata: Mapping[str, str], digest: str) -> str:
    """sha256 over the metadata of a feature file and the digest of its rows and labels."""
    return hashlib.sha256(json.dumps([metadata, digest], sort_keys=True).encode()).hexdigest()


def _key(plan: Plan, chosen: SetPlan, keep_images: bool) -> str:
    labels = b"" if chosen.labels is None else chosen.labels.tobytes()
    parts = [
        plan.opened.fingerprint(),
        plan.opened.layer,
        asdict(plan.opened.preprocessing),
        plan.head.classes,
        keep_images,
        chosen.source.fingerprint(),
        hashlib.sha256(chosen.rows.tobytes() + labels).hexdigest(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _accuracy(plan: Plan, features: FeatureSet) -> float | None:
    if features.labels is None:
        return None
    chunks = placed(features.chunks())
    right = sum(int((plan.head.logits(rows).argmax(1) == features.labels[span]).sum()) for span, rows in chunks)
    return right / len(features)


@dataclass(frozen=True)
class DiagnosisFiles:
    """The files of a diagnosis from a model: head, features and images of each set, and the calibration rows."""

    head: Path
    train: WrittenSet
    test: WrittenSet
    ood: dict[str, WrittenSet]
    probes: dict[str, WrittenSet]
    calibration: WrittenSet | None


def roles(splits: Mapping[str, ImageSource], ood: Mapping[str, ImageSource]) -> dict[str, ImageSource]:
    """The sets of a diagnosis by role: `train`, `test`, `val` (calibration, if it isn't the test) and `ood/NAME`.

    Without OOD images there is `probe/NAME` of each kind of probes, made from the test images.
    """
    sets = dict(splits) | {f"ood/{name}": source for name, source in ood.items()}
    tests = [name for name in SPLITS if name != "train" and name in sets]
    if "train" not in sets or not tests:
        there = ", ".join(sets) or "nothing"
        raise SoftscopeError(
            f"a diagnosis needs training and test images; there is {there}",
            "Give a folder with train/<class>/ and test/<class>/, or --train and --test",
        )
    chosen = {"train": sets["train"], "test": sets[tests[0]]}
    if len(tests) > 1:
        chosen["val"] = sets[tests[1]]
    unfamiliar = {name: source for name, source in sets.items() if name.startswith("ood/")}
    if not unfamiliar:
        unfamiliar = {f"probe/{name}": source for name, source in probe_images(chosen["test"]).items()}
    if chosen["train"].labels is None:
        raise SoftscopeError(
            f"{chosen['train'].name}: training images have no labels", "Put them into one subfolder per class"
        )
    return chosen | unfamiliar


def write_features(plan: Plan, out: Path, options: Options) -> DiagnosisFiles:
    """Extract every set of the plan into `out`, with the head."""
    writable_folder(out)
    written = {}
    for name in plan.sets:
        path = out / f"{name.replace('/', '-')}.safetensors"
        written[name] = write_set(plan, name, path, options)
    plan.head.save(out / "head.safetensors")
    ood, probes = (
        {name.removeprefix(role): each for name, each in written.items() if name.startswith(role)}
        for role in ("ood/", "probe/")
    )
    return DiagnosisFiles(out / "head.safetensors", written["train"], written["test"], ood, probes, written.get("val"))


def write_splits(plan: Plan, out: Path, options: Options) -> list[WrittenSet]:
    """Extract every set of the plan into `<data set>-<split>.safetensors` under `out`, with the head."""
    writable_folder(out)
    head = out / "head.safetensors"
    targets = {name: out / f"{_file_name(name, each.source)}.safetensors" for name, each in plan.sets.items()}
    for name, path in targets.items():
        check_free(plan.sets[name], path)
    written = [write_set(plan, name, path, options) for name, path in targets.items()]
    plan.head.save(head)
    return written


def _file_name(split: str, source: ImageSource) -> str:
    plain = split.replace("/", "-")
    return plain if source.name in (split, "") else f"{source.name}-{plain}"
