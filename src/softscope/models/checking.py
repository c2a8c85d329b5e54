"""Preprocessing and class order checked by their effect: the accuracy on a few labelled images, and under the usual
other ways to scale pixels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..head import Head
from ..images import Decoder, Images, ImageSource, Preprocessing, alternatives, balanced_rows
from .opened import OpenedModel

SAMPLE_ROWS = 200
_BATCH = 32
_GOOD_ENOUGH = 0.98  # no other way can be clearly better on 200 images
_P_VALUE = 1e-3


@dataclass(frozen=True)
class Sample:
    """A few decoded images, balanced over classes, with labels numbered as the model's classes."""

    images: Images
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def draw_sample(source: ImageSource, decoder: Decoder, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> Sample:
    """Up to 200 images of these rows, which have these labels."""
    if not len(rows):
        return Sample(np.empty((0, 1, 1, 1), np.uint8), labels)
    drawn = balanced_rows(labels, min(SAMPLE_ROWS, len(rows)))
    images, kept, start = [], [], 0
    for block in decoder.decode_all(source.blocks(rows[drawn])):
        images.append(block.images)
        kept.append(drawn[start + np.asarray(block.positions, dtype=np.int64)])
        start += len(block.positions) + len(block.bad)
    return Sample(np.concatenate(images), labels[np.concatenate(kept)])


def right_answers(opened: OpenedModel, head: Head, sample: Sample, way: Preprocessing) -> NDArray[np.bool_]:
    """Which images of the sample the model gets right, if it sees them this way."""
    right = [np.empty(0, bool)]
    for first in range(0, len(sample), _BATCH):
        part = slice(first, first + _BATCH)
        z = opened.read(way.apply(sample.images[part]))[1]
        logits = head.logits(z) if np.isfinite(z).all() else np.zeros((len(z), head.n_classes))
        right.append(logits.argmax(1) == sample.labels[part])
    return np.concatenate(right)


def above_chance(right: NDArray[np.bool_], classes: int) -> bool:
    """Whether so many right answers would be rarer than 1 in 1,000 by guessing among `classes`."""
    from scipy.stats import binomtest

    if not len(right):
        return False
    return bool(binomtest(int(right.sum()), len(right), 1 / classes, alternative="greater").pvalue < _P_VALUE)


def doubts(opened: OpenedModel, head: Head, sample: Sample) -> list[str]:
    """What is wrong with the preprocessing or the classes, by the sample: nothing, or one sentence.

    Another way is clearly better where, of the images that one of the two gets right and the other doesn't, so many
    speak for it that guessing would do so in less than 1 of 1,000 samples.
    """
    from scipy.stats import binomtest

    if not len(sample) or opened.layer != "after":
        return []
    chosen = right_answers(opened, head, sample, opened.preprocessing)
    if chosen.mean() < _GOOD_ENOUGH and opened.preprocessing.layout != "pixels":
        others = {
            name: (way, right_answers(opened, head, sample, way))
            for name, way in alternatives(opened.preprocessing).items()
        }
        name, (way, right) = max(others.items(), key=lambda item: item[1][1].sum())
        gained, lost = int((right & ~chosen).sum()), int((chosen & ~right).sum())
        better = gained + lost > 0 and above_chance(right, head.n_classes)
        if better and binomtest(gained, gained + lost, alternative="greater").pvalue < _P_VALUE:
            return [
                f"with {name} the model gets {right.mean():.0%} of {len(sample)} labelled images right, with this "
                f"preprocessing {chosen.mean():.0%}: use {way.flags()}"
            ]
    if above_chance(chosen, head.n_classes) or not above_chance(np.ones(len(sample), bool), head.n_classes):
        return []  # of very few images even all right would show nothing
    return [
        f"only {chosen.mean():.0%} of {len(sample)} labelled images are classified right, which is near chance: are "
        "the weights loaded, is the preprocessing right, is this the order of the classes?"
    ]
