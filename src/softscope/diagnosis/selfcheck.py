"""Is what was given what it is said to be? Checked before any figure is believed, and said in plain words.

What makes every figure meaningless is an error; what makes some doubtful is a warning; the rest is a note.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .model import Finding
from .sets import Observed

#: Rows below which a side's intervals are wide, and below which a class says little about its spread.
FEW_ROWS, FEW_CLASS_ROWS = 100, 10
#: Ratio of the median norms of test and train beyond which they can't come from the same pipeline.
SCALE_RATIO = 1.25
#: Share of equal rows or equal scores worth a word.
NOTABLE = 0.01
STATED_TOLERANCE = 0.005
_SUM_TOLERANCE = 1e-3
_SAMPLE_ROWS = 5_000


def check_inputs(head: Head, train: FeatureSet, test: FeatureSet, ood: Mapping[str, FeatureSet]) -> None:
    """Raise a SoftscopeError where nothing can be diagnosed: columns, labels, sizes and names."""
    for name in ood:
        if not isinstance(name, str) or not name.strip() or name in ("train", "test"):
            raise SoftscopeError(f"an OOD set can't be called {name!r}", "Choose a name other than train and test")
    for features in (train, test, *ood.values()):
        check_columns(features.n_features, features.name, columns=head.n_features, owner=f"the head ({head.name})")
        if len(features) < 2:
            raise SoftscopeError(f"{features.name}: has {len(features)} row", "Give at least 2, better a few hundred")
    if train.labels is None:
        raise SoftscopeError(f"{train.name}: the training features have no labels", "Save them with the features")
    train.check_labels(head.n_classes)
    test.check_labels(head.n_classes)
    if len(np.unique(train.labels)) < 2:
        raise SoftscopeError(
            f"{train.name}: all labels are {train.labels[0]}, a diagnosis needs at least 2 classes",
            "Give training features of all classes",
        )


def self_check(
    head: Head,
    train: Observed,
    test: Observed,
    ood: Mapping[str, Observed],
    moments: ClassMoments,
    nearest: NDArray[np.int64],
) -> tuple[Finding, ...]:
    """Everything worth a word, warnings first; an OOD set that is the test or training set itself is an error.

    `nearest` is the class whose mean is nearest to each training row.
    """
    findings = [
        *_layer(head, train),
        *_accuracy(head, train, test, moments, nearest),
        *_stated_accuracy(train),
        *_stated_accuracy(test),
        *_scale(train, test),
        *_duplicates(train, test, ood),
        *_ties(test, ood),
        *_classes(head, train, test),
        *_rank(train, moments),
        *_sizes(test, ood),
    ]
    return tuple(sorted(findings, key=lambda finding: finding.level != "warning"))


def _layer(head: Head, train: Observed) -> Iterator[Finding]:
    name = train.features.name
    if train.features.metadata.get("layer", "after") != "after":
        yield Finding(
            "warning",
            f"{name}: taken before the last non-linearity, but the head applies to what comes after it",
            "Extract the features after it, as `softscope extract` does unless told otherwise",
        )
    elif train.lowest < 0:
        yield from _before_relu(head, train)
    if train.lowest >= -_SUM_TOLERANCE and train.sum_error < _SUM_TOLERANCE:
        yield Finding(
            "warning",
            f"{name}: every row is non-negative and sums to 1, as probabilities do",
            "Give the features that go into the last layer, not what comes out of softmax",
        )
    elif head.n_features == head.n_classes and train.labels is not None:
        largest = np.concatenate([block.argmax(axis=1) for block in train.features.chunks()])
        share = float((largest == train.labels).mean())
        if share > 0.5 + 0.5 / head.n_classes:
            yield Finding(
                "warning",
                f"{name}: as many columns as classes, and for {share:.1%} of rows the largest is the label's: logits",
                "Give the features that go into the last layer, not the logits",
            )


def _before_relu(head: Head, train: Observed) -> Iterator[Finding]:
    """Where the head's cross-entropy is lower on max(z, 0), it was trained on that: signed features lose by cutting."""
    assert train.labels is not None
    rows = np.random.default_rng(0).permutation(len(train))[:_SAMPLE_ROWS]
    z, labels = train.features.rows(np.sort(rows)), train.labels[np.sort(rows)]
    after = _losses(head, np.maximum(z, 0), labels)
    gain = _losses(head, z, labels) - after
    as_given, cut = (float((head.logits(x).argmax(axis=1) == labels).mean()) for x in (z, np.maximum(z, 0)))
    # A head that fits neither way has another fault, which is said elsewhere.
    fits = after.mean() < 0.7 * np.log(head.n_classes) and cut >= as_given
    if fits and gain.mean() > 4 * gain.std() / np.sqrt(len(gain)):
        yield Finding(
            "warning",
            f"{train.features.name}: has negative values, and the head fits better without them (right for {cut:.1%} "
            f"of rows after max(z, 0), for {as_given:.1%} as given): taken before the last non-linearity",
            "Extract the features after the ReLU, as `softscope extract` does unless told otherwise",
        )


def _losses(head: Head, z: NDArray, labels: NDArray[np.int64]) -> Floats:
    from scipy.special import log_softmax

    losses: Floats = -log_softmax(head.logits(z).astype(np.float64), axis=1)[np.arange(len(z)), labels]
    return losses


def _accuracy(
    head: Head, train: Observed, test: Observed, moments: ClassMoments, nearest: NDArray[np.int64]
) -> Iterator[Finding]:
    assert train.labels is not None
    name, correct = train.features.name, _share_correct(train)
    chance = float(moments.counts.max() / moments.counts.sum())
    by_mean = float((nearest == train.labels).mean())
    renumbered = _renumbered_accuracy(head, train)
    another = "Take features and head from the same network, at the layer that feeds the head, after its non-linearity"
    if renumbered > 0.5 and renumbered > 1.5 * correct:
        yield Finding(
            "warning",
            f"{name}: the head is right for {correct:.1%} of rows, but for {renumbered:.1%} if classes are renumbered",
            "Number the labels as the rows of the head's weight",
        )
    elif correct < 1.2 * chance:
        yield Finding(
            "warning", f"{name}: the head is right for {correct:.1%} of rows, guessing for {chance:.1%}", another
        )
    elif by_mean - correct > 0.1:
        yield Finding(
            "warning",
            f"{name}: the head is right for {correct:.1%} of rows, the nearest class mean for {by_mean:.1%}",
            another,
        )
    if test.labels is not None and correct - _share_correct(test) > 0.2:
        yield Finding(
            "warning",
            f"the head is right for {correct:.1%} of training rows and {_share_correct(test):.1%} of test rows",
            "Check that test is processed as train was; if it is, the network has overfitted",
        )


def _stated_accuracy(seen: Observed) -> Iterator[Finding]:
    """Against metadata `accuracy`, where whoever wrote the features put it."""
    try:
        stated = float(seen.features.metadata["accuracy"])
    except (KeyError, ValueError):
        return
    if seen.labels is not None and abs(stated - _share_correct(seen)) > STATED_TOLERANCE:
        yield Finding(
            "warning",
            f"{seen.features.name}: states an accuracy of {stated:.1%}, the head reaches {_share_correct(seen):.1%}",
            "Take features, labels and head from the same network and the same run",
        )


def _renumbered_accuracy(head: Head, train: Observed) -> float:
    """Accuracy under the best one-to-one renumbering of the labels."""
    from scipy.optimize import linear_sum_assignment

    assert train.labels is not None
    table = np.zeros((head.n_classes, head.n_classes), np.int64)
    np.add.at(table, (train.labels, train.predicted), 1)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(train))


def _scale(train: Observed, test: Observed) -> Iterator[Finding]:
    ours, theirs = float(np.median(test.norms)), float(np.median(train.norms))
    if max(ours, theirs) > SCALE_RATIO * min(ours, theirs):
        yield Finding(
            "warning",
            f"the median norm of test features is {ours:.3g}, of training features {theirs:.3g}",
            "Extract both with the same network, layer and preprocessing, in evaluation mode",
        )


def _duplicates(train: Observed, test: Observed, ood: Mapping[str, Observed]) -> Iterator[Finding]:
    for name, seen in ood.items():
        for other, what in ((test, "test"), (train, "training")):
            shared = float(np.isin(seen.hashes, other.hashes).mean())
            if shared == 1.0 and len(np.unique(seen.hashes)) > 1:
                raise SoftscopeError(f"OOD set {name}: every row is a row of the {what} set", "Give another set")
            if shared > 0:
                yield Finding(
                    "warning" if shared > NOTABLE else "note",
                    f"OOD set {name}: {_share(shared, len(seen))} also in the {what} set",
                    "Remove them: no score can tell an input from itself",
                )
    shared = float(np.isin(test.hashes, train.hashes).mean())
    if shared > 0:
        yield Finding(
            "warning" if shared > NOTABLE else "note",
            f"test: {_share(shared, len(test))} also in the training set",
            "Test on inputs the network was not trained on: accuracy and density look better than they are",
        )
    for name, seen in {"test": test, **{f"OOD set {name}": seen for name, seen in ood.items()}}.items():
        repeated = 1.0 - len(np.unique(seen.hashes)) / len(seen)
        if repeated > NOTABLE:
            yield Finding(
                "note",
                f"{name}: {_share(repeated, len(seen))} repeats of others",
                "Intervals take rows for independent and are too narrow here",
            )


def _ties(test: Observed, ood: Mapping[str, Observed]) -> Iterator[Finding]:
    """Confidences that are exactly 1 in float32, so that U_max can't order them."""
    limit = np.log(np.finfo(np.float32).epsneg)  # 1 + x rounds to 1 up to here
    for name, seen in {"test": test, **ood}.items():
        share = float((seen.odds <= limit).mean())
        if share > NOTABLE:
            yield Finding(
                "note",
                f"{name}: {_share(share, len(seen))} so confident that float32 prints 1 for all of them",
                "Rank by logits or by softscope's exact forms; the part `rounding` of cause 1 measures what it costs",
            )


def _classes(head: Head, train: Observed, test: Observed) -> Iterator[Finding]:
    assert train.labels is not None
    counts = np.bincount(train.labels, minlength=head.n_classes)
    for rows, what, hint in (
        (counts == 0, "no training rows", "Give rows of every class: the density knows nothing of these"),
        (
            (counts > 0) & (counts < FEW_CLASS_ROWS),
            f"fewer than {FEW_CLASS_ROWS} training rows",
            "Give more rows: their means and spread are guesses",
        ),
    ):
        if rows.any():
            yield Finding("warning", f"{_named(head, rows)}: {what}", hint)
    narrow = (counts >= FEW_CLASS_ROWS) & (counts <= head.n_features)
    if narrow.any():
        yield Finding(
            "note",
            f"{int(narrow.sum())} of {head.n_classes} classes have no more training rows than features",
            "Their covariances are singular and held up by the ridge; more rows would sharpen the density",
        )
    if test.labels is not None:
        missing = (np.bincount(test.labels, minlength=head.n_classes) == 0) & (counts > 0)
        if missing.any():
            yield Finding("note", f"{_named(head, missing)}: not in the test labels", "Test on all classes if you can")


def _rank(train: Observed, moments: ClassMoments) -> Iterator[Finding]:
    rank, columns = moments.total_rank, len(moments.mean)
    dead = int((np.diag(moments.within) + ((moments.means - moments.mean) ** 2).T @ moments.counts == 0).sum())
    if rank < columns:
        units = f", {dead} units never change" if dead else ""
        yield Finding(
            "note",
            f"{train.features.name}: features span {rank} of {columns} directions{units}",
            "Harmless; densities and distances work on the directions that vary, held up by a ridge",
        )


def _sizes(test: Observed, ood: Mapping[str, Observed]) -> Iterator[Finding]:
    for name, seen in {"test": test, **ood}.items():
        if len(seen) < FEW_ROWS:
            yield Finding("note", f"{name}: {len(seen)} rows", "Intervals are wide; give a few hundred rows or more")


def _share_correct(seen: Observed) -> float:
    correct = seen.correct
    assert correct is not None
    return float(correct.mean())


def _share(share: float, rows: int) -> str:
    count = round(share * rows)
    return f"{count:,} of {rows:,} rows ({share:.1%}) {'is' if count == 1 else 'are'}"


def _named(head: Head, mask: np.ndarray) -> str:
    numbers = np.flatnonzero(mask)
    names = ", ".join(head.class_name(int(number)) for number in numbers[:5])
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"{'class' if len(numbers) == 1 else 'classes'} {names}{more}"
