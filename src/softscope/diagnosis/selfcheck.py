"""Is what was given what it is said to be? Checked before any figure is believed, and said in plain words.

What makes every figure meaningless is an error; what makes some doubtful is a warning; the rest is a note. The texts
stand in `findings.toml`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .model import Finding, Level
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
_TEXTS = tomllib.loads(files(__package__).joinpath("findings.toml").read_text("utf-8"))


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


def _finding(key: str, level: Level | None = None, **values: Any) -> Finding:
    """The finding that `findings.toml` has under `key`, with these values in its text."""
    text = _TEXTS[key]
    return Finding(level or text["level"], text["what"].format(**values), text["hint"])


def _layer(head: Head, train: Observed) -> Iterator[Finding]:
    name = train.features.name
    if train.features.metadata.get("layer", "after") != "after":
        yield _finding("before_layer", name=name)
    elif train.lowest < 0:
        yield from _before_relu(head, train)
    if train.lowest >= -_SUM_TOLERANCE and train.sum_error < _SUM_TOLERANCE:
        yield _finding("probabilities", name=name)
    elif head.n_features == head.n_classes and train.labels is not None:
        largest = np.concatenate([block.argmax(axis=1) for block in train.features.chunks()])
        share = float((largest == train.labels).mean())
        if share > 0.5 + 0.5 / head.n_classes:
            yield _finding("logits", name=name, share=share)


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
        yield _finding("before_relu", name=train.features.name, cut=cut, as_given=as_given)


def _losses(head: Head, z: NDArray, labels: NDArray[np.int64]) -> Floats:
    from scipy.special import log_softmax

    losses: Floats = -log_softmax(head.logits(z).astype(np.float64), axis=1)[np.arange(len(z)), labels]
    return losses


def _accuracy(
    head: Head, train: Observed, test: Observed, moments: ClassMoments, nearest: NDArray[np.int64]
) -> Iterator[Finding]:
    assert train.labels is not None
    correct = _share_correct(train)
    known: dict[str, Any] = {"name": train.features.name, "correct": correct}
    chance = float(moments.counts.max() / moments.counts.sum())
    by_mean = float((nearest == train.labels).mean())
    renumbered = _renumbered_accuracy(head, train)
    if renumbered > 0.5 and renumbered > 1.5 * correct:
        yield _finding("renumbered", **known, renumbered=renumbered)
    elif correct < 1.2 * chance:
        yield _finding("guessing", **known, chance=chance)
    elif by_mean - correct > 0.1:
        yield _finding("worse_than_means", **known, by_mean=by_mean)
    if test.labels is not None and correct - _share_correct(test) > 0.2:
        yield _finding("worse_on_test", **known, on_test=_share_correct(test))


def _stated_accuracy(seen: Observed) -> Iterator[Finding]:
    """Against metadata `accuracy`, where whoever wrote the features put it."""
    try:
        stated = float(seen.features.metadata["accuracy"])
    except (KeyError, ValueError):
        return
    if seen.labels is not None and abs(stated - _share_correct(seen)) > STATED_TOLERANCE:
        yield _finding("stated_accuracy", name=seen.features.name, stated=stated, correct=_share_correct(seen))


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
        yield _finding("scale", test=ours, train=theirs)


def _duplicates(train: Observed, test: Observed, ood: Mapping[str, Observed]) -> Iterator[Finding]:
    for name, seen in ood.items():
        for other, what in ((test, "test"), (train, "training")):
            shared = float(np.isin(seen.hashes, other.hashes).mean())
            if shared == 1.0 and len(np.unique(seen.hashes)) > 1:
                raise SoftscopeError(f"OOD set {name}: every row is a row of the {what} set", "Give another set")
            if shared > 0:
                yield _finding("shared_with_ood", _level(shared), name=name, rows=_share(shared, seen), other=what)
    shared = float(np.isin(test.hashes, train.hashes).mean())
    if shared > 0:
        yield _finding("shared_with_test", _level(shared), rows=_share(shared, test))
    for name, seen in {"test": test, **{f"OOD set {name}": seen for name, seen in ood.items()}}.items():
        repeated = 1.0 - len(np.unique(seen.hashes)) / len(seen)
        if repeated > NOTABLE:
            yield _finding("repeated", name=name, rows=_share(repeated, seen))


def _ties(test: Observed, ood: Mapping[str, Observed]) -> Iterator[Finding]:
    """Confidences that are exactly 1 in float32, so that U_max can't order them."""
    limit = np.log(np.finfo(np.float32).epsneg)  # 1 + x rounds to 1 up to here
    for name, seen in {"test": test, **ood}.items():
        share = float((seen.odds <= limit).mean())
        if share > NOTABLE:
            yield _finding("ties", name=name, rows=_share(share, seen))


def _classes(head: Head, train: Observed, test: Observed) -> Iterator[Finding]:
    assert train.labels is not None
    counts = np.bincount(train.labels, minlength=head.n_classes)
    few = (counts > 0) & (counts < FEW_CLASS_ROWS)
    for key, rows in {"empty_classes": counts == 0, "small_classes": few}.items():
        if rows.any():
            yield _finding(key, classes=_named(head, rows), least=FEW_CLASS_ROWS)
    narrow = (counts >= FEW_CLASS_ROWS) & (counts <= head.n_features)
    if narrow.any():
        yield _finding("narrow_classes", narrow=int(narrow.sum()), classes=head.n_classes)
    if test.labels is not None:
        missing = (np.bincount(test.labels, minlength=head.n_classes) == 0) & (counts > 0)
        if missing.any():
            yield _finding("untested_classes", classes=_named(head, missing))


def _rank(train: Observed, moments: ClassMoments) -> Iterator[Finding]:
    rank, columns = moments.total_rank, len(moments.mean)
    dead = int((np.diag(moments.within) + ((moments.means - moments.mean) ** 2).T @ moments.counts == 0).sum())
    if rank < columns:
        units = f", {dead} units never change" if dead else ""
        yield _finding("rank", name=train.features.name, rank=rank, columns=columns, units=units)


def _sizes(test: Observed, ood: Mapping[str, Observed]) -> Iterator[Finding]:
    for name, seen in {"test": test, **ood}.items():
        if len(seen) < FEW_ROWS:
            yield _finding("few_rows", name=name, rows=len(seen))


def _share_correct(seen: Observed) -> float:
    correct = seen.correct
    assert correct is not None
    return float(correct.mean())


def _level(share: float) -> Level:
    return "warning" if share > NOTABLE else "note"


def _share(share: float, seen: Observed) -> str:
    count = round(share * len(seen))
    return f"{count:,} of {len(seen):,} rows ({share:.1%}) {'is' if count == 1 else 'are'}"


def _named(head: Head, mask: np.ndarray) -> str:
    numbers = np.flatnonzero(mask)
    names = ", ".join(head.class_name(int(number)) for number in numbers[:5])
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"{'class' if len(numbers) == 1 else 'classes'} {names}{more}"
