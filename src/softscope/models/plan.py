"""What will be extracted from which images, decided before the work: head, preprocessing, classes by name, rows.

`make_plan` looks at a few images only; `Plan.lines` says what it understood; `read_set` does the work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError, printable
from ..head import Head
from ..images import SPLITS, Decoder, ImageSource, Preprocessing, balanced_rows, fit_images, match_classes
from ..progress import Progress, silent
from .checking import above_chance, doubts, draw_sample, right_answers
from .opened import Layer, OpenedModel

_PEEK_ROWS = 16


@dataclass(frozen=True)
class SetPlan:
    """One set: its images, the rows to take, their labels numbered as the model's classes (None: unlabelled)."""

    name: str
    source: ImageSource
    rows: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    decoder: Decoder
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The opened model, its head with class names, and the sets; `names_from` says where the names come from."""

    opened: OpenedModel
    head: Head
    sets: dict[str, SetPlan]
    names_from: str
    notes: tuple[str, ...] = field(default=())

    def lines(self) -> list[str]:
        """What was understood, one line each."""
        head = self.head
        lines = [
            f"model: {self.opened.name} ({self.opened.describe()})",
            f"head: {head.n_classes} classes x {head.n_features} features, {self.opened.words.get('classifier', '')}",
            f"preprocessing: {self.opened.preprocessing}",
            f"classes: {_shown(head.classes)} ({self.names_from})",
        ]
        for each in self.sets.values():
            labels = "unlabelled" if each.labels is None else f"{len(np.unique(each.labels))} of the model's classes"
            lines.append(f"{each.name}: {len(each.rows):,} images, {labels}")
            lines += [f"note: {each.name}: {note}" for note in each.notes]
        return [printable(line) for line in (*lines, *(f"note: {note}" for note in self.notes))]


class Read(NamedTuple):
    """Some rows: what goes into the file, the positions among the set's rows, and the images that were bad."""

    features: NDArray
    positions: NDArray[np.int64]
    bad: list[str]


def make_plan(
    opened: OpenedModel,
    sources: Mapping[str, ImageSource],
    *,
    limit: int | None = None,
    layer: Layer = "after",
    declared: bool = False,
) -> Plan:
    """Find the head by a few images of the first set and match the classes of every set by name.

    With `declared` the first labelled set is the model's own training data, so that a model without class names takes
    them from there; otherwise it does so only if its answers fit these labels clearly better than chance.
    """
    first = next(iter(sources.values()))
    opened.preprocessing = fitted_size(opened, first)
    probe = first_images(first, _decoder(opened, first))
    head = opened.prepare(opened.preprocessing.apply(probe[:2]), layer)
    names_from = f"from {opened.names_from}"
    if opened.classes is None:
        head, names_from = _names_from_data(opened, head, sources, declared)
    sets = {name: _set_plan(name, source, opened, head, limit) for name, source in sources.items()}
    if declared and "train" in sets and sets["train"].labels is None and first.labels is not None:
        raise SoftscopeError(
            f"the classes of {first.name} ({_shown(first.class_names)}) are not the model's ({_shown(head.classes)})",
            "Name the model's outputs in their order with --classes (classes=)",
        )
    labelled = next((each for each in sets.values() if each.labels is not None), None)
    notes: list[str] = []
    if labelled is not None and labelled.labels is not None:
        sample = draw_sample(labelled.source, labelled.decoder, labelled.rows, labelled.labels)
        notes = doubts(opened, head, sample)
    return Plan(opened, head, sets, names_from, tuple(notes))


def fitted_size(opened: OpenedModel, source: ImageSource) -> Preprocessing:
    """The model's preprocessing with a size: where it has none, that of the images, if they have one size."""
    chosen = opened.preprocessing
    if chosen.size is not None or chosen.layout == "pixels":
        return chosen
    try:
        sample = first_images(source, chosen.decoder())
    except SoftscopeError as error:
        if "pixels, others are" not in error.what:
            raise
        raise SoftscopeError(
            f"{source.name}: images of different sizes, and {opened.name} doesn't say which size it takes",
            "Give --size (size=), the side it was trained with, such as 224",
        ) from error
    return replace(chosen, size=(int(sample.shape[1]), int(sample.shape[2])))


def read_set(plan: Plan, chosen: SetPlan, rows: slice, batch: int, progress: Progress = silent) -> Read:
    """Features of the set's rows in `rows`, decoded ahead of the model by worker threads, checked block by block."""
    opened, start = plan.opened, rows.start
    taken, positions = [np.empty((0, plan.head.n_features), np.float32)], [np.empty(0, np.int64)]
    bad: list[str] = []
    for block in chosen.decoder.decode_all(chosen.source.blocks(chosen.rows[rows])):
        for first in range(0, len(block.images), batch):
            x = opened.preprocessing.apply(block.images[first : first + batch])
            taken.append(opened.checked_rows(plan.head, x, start + first))
            progress(f"features of {chosen.name}", start + first + len(x), len(chosen.rows))
        positions.append(start + np.asarray(block.positions, dtype=np.int64))
        bad += block.bad
        start += len(block.positions) + len(block.bad)
    return Read(np.concatenate(taken), np.concatenate(positions), bad)


def _shown(names: tuple[str, ...] | None) -> str:
    if not names:
        return "none known"
    return f"{', '.join(names[:4])}{', ...' if len(names) > 4 else ''}"


def _names_from_data(
    opened: OpenedModel, head: Head, sources: Mapping[str, ImageSource], declared: bool
) -> tuple[Head, str]:
    """Class names for a model without any: those of the first labelled set, if it is declared or shown to fit."""
    labelled = next((each for each in sources.values() if each.labels is not None and each.class_names), None)
    if labelled is None or labelled.class_names is None or labelled.labels is None:
        return head, "the model names none, the data has none"
    names = labelled.class_names
    if len(names) != head.n_classes:
        if declared:
            empty = sorted(set(names) - {names[c] for c in np.unique(labelled.labels)})
            without = f" ({_shown(tuple(empty))}: no images)" if empty else ""
            raise SoftscopeError(
                f"{opened.name} has {head.n_classes} outputs, {labelled.name} has {len(names)} classes{without}",
                f"{'Remove the empty folder, or give' if empty else 'Give'} the names of the outputs in their order "
                "with --classes (classes=)",
            )
        return head, f"the model names none, and {labelled.name} has {len(names)}"
    named = Head(head.weight, head.bias, names, name=head.name)
    if declared:
        return named, f"from {labelled.name}, in its order"
    sample = draw_sample(labelled, _decoder(opened, labelled), np.arange(len(labelled)), labelled.labels)
    right = right_answers(opened, named, sample, opened.preprocessing)
    if above_chance(right, head.n_classes):
        return named, f"from {labelled.name}, in its order: {right.mean():.0%} of {len(sample)} images fit"
    why = f"the model names none, and its answers fit those of {labelled.name} no better than chance"
    return head, f"{why}; name its outputs with --classes to keep labels"


def _set_plan(name: str, source: ImageSource, opened: OpenedModel, head: Head, limit: int | None) -> SetPlan:
    """Rows and labels of a set.

    Labels stay where all classes of the data are the model's; where the model knows some of the classes of its own
    data set, its rows stay; other data is unfamiliar and has no labels. Labels without names stay in a set that is
    declared to be the model's own (`doubts` says if they don't fit).
    """
    rows = np.arange(len(source))
    labels: NDArray[np.int64] | None = None
    notes = list(source.notes)
    role = name.split("/")[0]
    if source.labels is not None and source.class_names and head.classes and role != "ood":
        numbers = match_classes(source.class_names, head.classes)
        known = numbers[source.labels]
        own = opened.dataset in (None, source.name) and (role in SPLITS or set(numbers) >= set(range(head.n_classes)))
        if (numbers >= 0).all():
            labels = known
        elif own and (numbers >= 0).any():
            rows = np.flatnonzero(known >= 0)
            labels = known[rows]
            foreign = [each for each, number in zip(source.class_names, numbers) if number < 0]
            notes.append(
                f"{len(known) - len(rows):,} images of {len(foreign)} classes that the model has not are left out"
            )
        else:
            notes.append("its classes are not the model's, so its labels are left out")
    elif source.labels is not None and not source.class_names and role in SPLITS:
        if source.labels.max() < head.n_classes:
            labels = source.labels
            notes.append("its labels have no class names, so they are taken as the numbers of the model's outputs")
        else:
            notes.append(f"its labels go up to {source.labels.max()}, so they are not the model's and are left out")
    if labels is not None and head.classes and role in SPLITS:
        without = tuple(head.classes[c] for c in np.setdiff1d(np.arange(head.n_classes), labels))
        notes += [f"no images of {len(without)} of the model's classes: {_shown(without)}"] if without else []
    if limit is not None and limit < len(rows):
        drawn = balanced_rows(labels if labels is not None else np.zeros(len(rows), np.int64), limit)
        rows, labels = rows[drawn], None if labels is None else labels[drawn]
    return SetPlan(name, source, rows, labels, _decoder(opened, source), tuple(notes))


def _decoder(opened: OpenedModel, source: ImageSource) -> Decoder:
    """The decoder for a set; a network that takes pixels as they are gets them resized only where they don't fit."""
    chosen = opened.preprocessing
    if chosen.layout != "pixels" or chosen.size is None:
        return chosen.decoder()
    as_it_is = replace(chosen, size=None).decoder()
    first = fit_images(first_images(source, as_it_is, rows=1), (*chosen.size, chosen.channels))
    return as_it_is if first.shape[1:3] == chosen.size else chosen.decoder()


def first_images(source: ImageSource, decoder: Decoder, rows: int = _PEEK_ROWS) -> NDArray[np.uint8]:
    """The first few images that decode."""
    wanted = np.unique(np.linspace(0, len(source) - 1, min(rows, len(source))).astype(np.int64))
    bad: list[str] = []
    for some in (wanted, np.arange(min(len(source), 256))):
        for block in decoder.decode_all(source.blocks(some)):
            bad += block.bad
            if len(block.images):
                return block.images
    raise SoftscopeError(f"{source.name}: no image could be decoded, the first: {bad[0]}", "Check the files")
