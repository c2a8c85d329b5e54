"""One pass over each feature set: what the head makes of every row, its strength and angles, and a hash of it; scores.

Everything that can be read off a row's logits, norm or cosines is made here, once, and handed on. Estimators that need
more score the set chunk by chunk.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, chunk_rows
from ..estimators import (
    DEFAULT,
    GEN,
    Estimator,
    LogitEstimator,
    each_chunk,
    estimator,
    log_generalised_entropy,
    logit_score,
    mental_log_odds,
)
from ..estimators.softmax import Tail
from ..features import FeatureSet
from ..files import sha256
from ..head import Head
from ..metrics import balanced, proportion
from ..mixture import ClassMoments
from .model import EstimatorLabel, SetSummary
from .resampling import RowNumbers

#: The four that the causes are defined by, always scored.
REQUIRED = ("max", "entropy", "cool", "density")
#: What is scored unless others are asked for; the default of a guard is among them.
COMPARED = (
    *REQUIRED, "mental", "norm", "familiarity", "margin", "max-logit", "energy",
    "mahalanobis", DEFAULT, "relative-mahalanobis", "knn", "vim", "gen",
)  # fmt: skip
COSINE_EDGES = np.linspace(-1.0, 1.0, 81)
#: Name of a score in plain float32, as networks print it -> the estimator whose `plain` it is.
PRINTED = {"plain-max": "max", "plain-entropy": "entropy"}
#: So much of training, and so much of all other sets together, is read into memory; what is larger, in every pass.
_AT_HAND_BYTES = 1 << 29


@dataclass(frozen=True)
class Observed:
    """A set as the head sees it; `labels` are those of the head's classes, None where there are none."""

    features: FeatureSet
    file: str | None  # where the features were opened, None for features from memory
    labels: NDArray[np.int64] | None
    predicted: NDArray[np.int64]
    odds: Floats  # log((1 - s_1) / s_1), the rank form of U_max
    true_probability: Floats | None  # s of the labelled class
    norms: Floats
    familiarity: Floats  # max_i cos(w_i, z)
    other_cosines: NDArray[np.int64]  # how many of the others lie in each bin of COSINE_EDGES
    hashes: NDArray[np.uint64]  # equal rows, equal hashes
    digest: str  # sha256 of the file, or of the rows where there is no single one
    lowest: float  # of all entries
    sum_error: float  # largest distance of a row's sum from 1
    values: dict[str, Floats] = field(default_factory=dict)  # scores that need nothing but logits, norm and cosines
    moments: ClassMoments | None = None  # of labelled rows, where they were asked for

    def __len__(self) -> int:
        return len(self.features)

    @property
    def correct(self) -> NDArray[np.bool_] | None:
        """Which predictions are right; None without labels."""
        return None if self.labels is None else self.predicted == self.labels

    @property
    def ambiguous(self) -> NDArray[np.bool_] | None:
        """Rows that the head gets wrong or whose true class it gives less than half; None without labels."""
        correct, probability = self.correct, self.true_probability
        return None if correct is None or probability is None else ~correct | (probability < 0.5)

    def summary(self, name: str, role: Literal["train", "test", "ood"], stand_in: str = "") -> SetSummary:
        """What the report says of the set."""
        correct = self.correct
        accuracy = None if correct is None else proportion(int(correct.sum()), len(correct))
        sure = float(confidence(self.odds).mean())
        return SetSummary(name, role, len(self), self.file, self.digest, accuracy, sure, stand_in)


def confidence(odds: Floats) -> Floats:
    """max_i s_i from log((1 - s_1) / s_1), which is at most log(K - 1)."""
    return 1.0 / (1.0 + np.exp(odds))


def row_scores(
    head: Head, estimators: Mapping[str, Estimator], logits: NDArray, norms: Floats, familiarity: Floats
) -> dict[str, Floats]:
    """Scores by name from the logits, norms and cosines of some rows: those of `estimators` that need no more.

    Each product z W' of a set is made once, however many scores read it.
    """
    narrow = logits.astype(np.float32, copy=False)
    out = {name: logit_score(of).printed(narrow, 1.0).astype(np.float64) for name, of in PRINTED.items()}
    ranked = [name for name, item in estimators.items() if isinstance(item, LogitEstimator)]
    warm = cool = Tail.of(logits)
    if "cool" in ranked:
        cool = Tail.of(logits, float(estimators["cool"].params()["temperature"]))
    out |= {name: logit_score(name).rank(warm, cool) for name in dict.fromkeys(("max", *ranked))}
    geometric = {
        "norm": lambda: -norms,
        "familiarity": lambda: -familiarity,
        "mental": lambda: mental_log_odds(norms, familiarity, head.n_classes),
    }
    out |= {name: geometric[name]() for name in estimators if name in geometric}
    gen = estimators.get("gen")
    if isinstance(gen, GEN):
        out["gen"] = log_generalised_entropy(logits, **gen.params())
    return out


def at_hand(features: FeatureSet, sharing: int) -> FeatureSet:
    """The features in memory where they are not too large for one of `sharing` sets: many passes, one reading."""
    if len(features) * features.n_features * features.dtype.itemsize > _AT_HAND_BYTES // sharing:
        return features
    return FeatureSet(features.array(), features.labels, name=features.name, metadata=features.metadata)


def observe(
    head: Head,
    features: FeatureSet,
    *,
    labelled: bool,
    estimators: Mapping[str, Estimator] | None = None,
    moments: bool = False,
    sharing: int = 1,
) -> Observed:
    """The pass; `labelled` says that the set's labels are of the head's classes (an OOD set's are its own).

    It makes the scores of those `estimators` that need no other pass, and the class `moments` where they are asked
    for. Features that fit into memory beside those of `sharing` sets are kept there.
    """
    origin, features = features, at_hand(features, sharing)
    labels = features.labels if labelled else None
    rows = len(features)
    predicted, hashes = np.empty(rows, np.int64), np.empty(rows, np.uint64)
    true, norms, familiarity = (np.empty(rows) for _ in range(3))
    values: dict[str, Floats] = {}
    others = np.zeros(len(COSINE_EDGES) - 1, np.int64)
    content, lowest, sum_error = hashlib.sha256(), np.inf, 0.0
    total: ClassMoments | None = None
    # Moments of wide rows are merged seldom: a merge reads H^2 numbers, as many as H rows have.
    height = max(chunk_rows(features.n_features), features.n_features // 2) if moments else None
    for span, block in each_chunk(features, height):
        logits, cosines = head.logits(block), head.cosines(block)
        predicted[span], norms[span], familiarity[span] = logits.argmax(axis=1), head.norms(block), cosines.max(axis=1)
        for name, scores in row_scores(head, estimators or {}, logits, norms[span], familiarity[span]).items():
            values.setdefault(name, np.empty(rows))[span] = scores
        if labels is not None:
            gaps = logits[np.arange(len(logits)), labels[span]].astype(np.float64) - logits.max(axis=1)
            true[span] = np.exp(gaps) * confidence(values["max"][span])
            if moments:
                here = ClassMoments.of(block, labels[span], head.n_classes)
                total = here if total is None else total.merge(here)
        others += _binned(cosines) - _binned(familiarity[span])
        hashes[span] = row_hashes(block)
        content.update(np.ascontiguousarray(block).data)
        lowest = min(lowest, float(block.min()))
        sum_error = max(sum_error, float(np.abs(block.sum(axis=1, dtype=np.float64) - 1.0).max()))
    files = origin.stamp()
    digest = sha256(Path(files[0][0])) if len(files) == 1 else content.hexdigest()
    return Observed(
        features, origin.name if files else None, labels, predicted, values["max"], None if labels is None else true,
        norms, familiarity, others, hashes, digest, lowest, sum_error, values, total,
    )  # fmt: skip


def _binned(cosines: Floats) -> NDArray[np.int64]:
    return np.histogram(cosines, COSINE_EDGES)[0]


def row_hashes(rows: NDArray) -> NDArray[np.uint64]:
    """64 bits of BLAKE2 of each row's float64 values: rows of equal numbers, in whatever precision, hash alike."""
    wide = rows.astype(np.float64) + 0.0  # turns -0.0 into 0.0
    digests = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in wide)
    return np.frombuffer(digests, np.uint64)


@dataclass(frozen=True)
class Scored:
    """One set, and every estimator's score of each of its rows; `against`: the test rows it compares with, else all."""

    seen: Observed
    values: dict[str, Floats]
    against: RowNumbers | None = None

    def __len__(self) -> int:
        return len(self.seen)


@dataclass(frozen=True)
class Pair:
    """Test and one OOD set, and the rows on which they are compared: `low` of test, as many `high` of the OOD set."""

    test: Scored
    ood: Scored
    low: RowNumbers
    high: RowNumbers

    @classmethod
    def balanced(cls, test: Scored, ood: Scored, seed: int) -> "Pair":
        """All rows of the smaller side, as many of the other."""
        allowed = np.arange(len(test)) if ood.against is None else ood.against
        low, high = balanced(len(allowed), len(ood), seed)
        return cls(test, ood, allowed[low], high)

    def sides(self, name: str) -> tuple[Floats, Floats]:
        """The scores of an estimator on these rows of test and of the OOD set."""
        return self.test.values[name][self.low], self.ood.values[name][self.high]

    @property
    def clear(self) -> "Pair | None":
        """The same without ambiguous test inputs; None without labels."""
        unclear = self.test.seen.ambiguous
        return None if unclear is None else replace(self, low=self.low[~unclear[self.low]])


def chosen_estimators(wanted: Sequence[str | Estimator], features: int) -> dict[str, Estimator]:
    """Unfitted estimators by name, the required ones first; of several of one name the last in `wanted` is taken.

    The default reads directions: of a single feature there is none to read, and it is left out.
    """
    made = [estimator(item) if isinstance(item, str) else item.clone() for item in (*REQUIRED, *wanted)]
    return {item.info.name: item for item in made if features > 1 or item.info.name != DEFAULT}


def labels_of(estimators: Mapping[str, Estimator]) -> dict[str, EstimatorLabel]:
    """What the report says of each, the printed ones first."""
    infos = {name: item.info for name, item in estimators.items()}
    printed = {name: replace(infos[of], symbol=f"{infos[of].symbol} in float32") for name, of in PRINTED.items()}
    return {
        name: EstimatorLabel(info.symbol, info.formula, info.needs, info.source)
        for name, info in {**printed, **infos}.items()
    }


def score_set(seen: Observed, estimators: Mapping[str, Estimator]) -> Scored:
    """Scores of all fitted `estimators` and of the printed ones: what the pass left, the others chunk by chunk."""
    values = {name: seen.values[name] for name in PRINTED}
    for name, item in estimators.items():
        values[name] = seen.values[name] if name in seen.values else item.uncertainty(seen.features)
    return Scored(seen, values)
