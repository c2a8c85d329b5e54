"""Stand-ins for OOD data: classes that a head fitted again without them has not learned.

In each of SPLITS splits a third of the classes is left out. A new linear head and all estimators are fitted on training
rows of the other classes; the test rows of the classes left out are OOD for it. The network's features were learned
with them, so that they are told apart more easily than inputs of truly new classes: the figures are optimistic.

Every split has scores on a scale of its own. So that all sets compare with one test set, a score is placed among those
that the split gives to the test rows of the classes it kept, and replaced by what the whole head gives at that place:
AUROCs against these rows stay as they are, but for the ties of either.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..estimators import Estimator
from ..features import FeatureSet
from ..head import Head
from .sets import Observed, Scored, observe, score_set

SPLITS = 3
HELD_OUT = "held-out classes"
LEAST_CLASSES = 3
#: Training rows of a split, and of its head; fewer where rows are wide.
_ROWS, _HEAD_ROWS, _CELLS = 20_000, 8_000, 1 << 26


def held_out_sets(
    head: Head,
    train: Observed,
    test: Scored,
    estimators: Mapping[str, Estimator],
    seed: int,
    step: Callable[[str], None],
) -> Iterator[tuple[str, str, Scored]]:
    """(name, the classes left out in words, their test rows scored) of each split; none where there are few classes."""
    labels, train_labels = test.seen.labels, train.labels
    assert train_labels is not None
    if labels is None:
        return
    classes = np.intersect1d(np.unique(train_labels), np.unique(labels))
    if len(classes) < LEAST_CLASSES:
        return
    rng = np.random.default_rng([seed, 6])
    for number, left_out in enumerate(np.array_split(rng.permutation(classes), SPLITS), 1):
        name = f"{HELD_OUT} {number}"
        step(f"fitting without a third, {number}")
        kept = np.setdiff1d(np.unique(train_labels), left_out)
        unfamiliar, familiar = (np.flatnonzero(np.isin(labels, some)) for some in (left_out, kept))
        if len(kept) < 2 or min(len(unfamiliar), len(familiar)) < 2:
            continue
        scored = _scored(head, train, test, estimators, (kept, familiar, unfamiliar), rng)
        yield name, _words([head.class_name(int(one)) for one in np.sort(left_out)]), scored


def _scored(
    head: Head,
    train: Observed,
    test: Scored,
    estimators: Mapping[str, Estimator],
    split: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    rng: np.random.Generator,
) -> Scored:
    kept, familiar, unfamiliar = split
    own = _training_rows(train, kept, rng)
    refitted = refit(own, [head.class_name(int(one)) for one in kept])
    copies = {name: item.clone() for name, item in estimators.items()}
    seen_own = observe(refitted, own, labelled=True, estimators={"entropy": copies["entropy"]}, moments=True)
    for item in copies.values():
        item.fit(refitted, own, moments=seen_own.moments)
    sides = [
        score_set(observe(refitted, test.seen.features.take(rows), labelled=False, estimators=copies), copies)
        for rows in (familiar, unfamiliar)
    ]
    values = {
        name: placed_on(test.values[name][familiar], sides[0].values[name], scores)
        for name, scores in sides[1].values.items()
    }
    seen = sides[1].seen
    return Scored(replace(seen, predicted=kept[seen.predicted]), values, against=familiar)


def _training_rows(train: Observed, kept: NDArray[np.int64], rng: np.random.Generator) -> FeatureSet:
    """Rows of the classes `kept`, numbered through; a drawn part of them where there are many."""
    assert train.labels is not None
    rows = np.flatnonzero(np.isin(train.labels, kept))
    most = min(_ROWS, _CELLS // train.features.n_features)
    rows = np.sort(rng.choice(rows, most, replace=False)) if len(rows) > most else rows
    return FeatureSet(train.features.rows(rows), np.searchsorted(kept, train.labels[rows]), name="train")


def refit(train: FeatureSet, classes: list[str]) -> Head:
    """Logistic regression on the features, as they are but for one common scale."""
    from sklearn.linear_model import LogisticRegression

    assert train.labels is not None
    rows = np.arange(len(train))[:: max(1, len(train) // min(_HEAD_ROWS, _CELLS // (4 * train.n_features)))]
    z, labels = train.rows(rows).astype(np.float64), train.labels[rows]
    present = np.unique(labels)
    scale = float(np.sqrt(np.square(z).mean() * z.shape[1])) or 1.0
    model = LogisticRegression(C=100.0, max_iter=100).fit(z / scale, labels)
    weight, bias = np.zeros((len(classes), z.shape[1])), np.full(len(classes), -np.inf)
    if len(present) == 2:  # one row of weights, for the second class
        weight[present[1]], bias[present] = model.coef_[0] / scale, [0.0, model.intercept_[0]]
    else:
        weight[present], bias[present] = model.coef_ / scale, model.intercept_
    bias[np.isinf(bias)] = bias[np.isfinite(bias)].min() - 30.0  # a class without rows among those drawn
    return Head(weight.astype(np.float32), bias, classes)


def placed_on(scale: Floats, familiar: Floats, scores: Floats) -> Floats:
    """`scores` moved to where they lie among `familiar`, as values between those of `scale`, which has as many."""
    ascending, wanted = np.sort(familiar), np.sort(scale)
    place = 0.5 * (np.searchsorted(ascending, scores, "left") + np.searchsorted(ascending, scores, "right"))
    out = np.interp(place, np.arange(len(wanted)) + 0.5, wanted)
    out[place == 0] = np.nextafter(wanted[0], -np.inf)
    out[place == len(wanted)] = np.nextafter(wanted[-1], np.inf)
    return np.asarray(out, np.float64)


def _words(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
