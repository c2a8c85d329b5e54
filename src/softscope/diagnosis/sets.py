"""One pass over each feature set: what the head makes of every row, its strength and angles, and a hash of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..estimators.base import each_chunk
from ..estimators.softmax import log_odds
from ..features import FeatureSet
from ..files import sha256
from ..head import Head
from ..metrics import proportion
from .model import SetSummary

COSINE_EDGES = np.linspace(-1.0, 1.0, 81)
#: So much of training, and so much of all other sets together, is read into memory; what is larger, in every pass.
_AT_HAND_BYTES = 1 << 29
_SUFFIXES = (".safetensors", ".npz", ".npy", ".parquet")


@dataclass(frozen=True)
class Observed:
    """A set as the head sees it; `labels` are those of the head's classes, None where there are none."""

    features: FeatureSet
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

    def __len__(self) -> int:
        return len(self.features)

    @property
    def correct(self) -> NDArray[np.bool_] | None:
        """Which predictions are right; None without labels."""
        return None if self.labels is None else self.predicted == self.labels

    def summary(self, name: str, role: Literal["train", "test", "ood"]) -> SetSummary:
        """What the report says of the set."""
        correct = self.correct
        accuracy = None if correct is None else proportion(int(correct.sum()), len(correct))
        mean = float(confidence(self.odds).mean())
        path = _path(self.features)
        return SetSummary(name, role, len(self), None if path is None else str(path), self.digest, accuracy, mean)


def confidence(odds: Floats) -> Floats:
    """max_i s_i from log((1 - s_1) / s_1), which is at most log(K - 1)."""
    return 1.0 / (1.0 + np.exp(odds))


def at_hand(features: FeatureSet, sharing: int) -> FeatureSet:
    """The features in memory where they are not too large for one of `sharing` sets: many passes, one reading."""
    if len(features) * features.n_features * features.dtype.itemsize > _AT_HAND_BYTES // sharing:
        return features
    return FeatureSet(features.array(), features.labels, name=features.name, metadata=features.metadata)


def observe(head: Head, features: FeatureSet, *, labelled: bool) -> Observed:
    """The pass; `labelled` says that the set's labels are of the head's classes (an OOD set's are its own)."""
    rows = len(features)
    labels = features.labels if labelled else None
    predicted, hashes = np.empty(rows, np.int64), np.empty(rows, np.uint64)
    odds, true, norms, familiarity = (np.empty(rows) for _ in range(4))
    others = np.zeros(len(COSINE_EDGES) - 1, np.int64)
    content, lowest, sum_error = hashlib.sha256(), np.inf, 0.0
    for span, block in each_chunk(features):
        logits, cosines = head.logits(block), head.cosines(block)
        predicted[span], odds[span], norms[span] = logits.argmax(axis=1), log_odds(logits), head.norms(block)
        if labels is not None:
            gaps = logits[np.arange(len(logits)), labels[span]].astype(np.float64) - logits.max(axis=1)
            true[span] = np.exp(gaps) * confidence(odds[span])
        familiarity[span] = cosines.max(axis=1)
        others += _binned(cosines) - _binned(familiarity[span])
        hashes[span] = row_hashes(block)
        content.update(np.ascontiguousarray(block).data)
        lowest = min(lowest, float(block.min()))
        sum_error = max(sum_error, float(np.abs(block.sum(axis=1, dtype=np.float64) - 1.0).max()))
    path = _path(features)
    digest = sha256(path) if path is not None and path.is_file() else content.hexdigest()
    return Observed(
        features, labels, predicted, odds, None if labels is None else true, norms, familiarity, others, hashes,
        digest, lowest, sum_error,
    )  # fmt: skip


def _binned(cosines: Floats) -> NDArray[np.int64]:
    return np.histogram(cosines, COSINE_EDGES)[0]


def row_hashes(rows: NDArray) -> NDArray[np.uint64]:
    """64 bits of BLAKE2 of each row's float64 values: rows of equal numbers, in whatever precision, hash alike."""
    wide = rows.astype(np.float64) + 0.0  # turns -0.0 into 0.0
    digests = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in wide)
    return np.frombuffer(digests, np.uint64)


def _path(features: FeatureSet) -> Path | None:
    """Where `FeatureSet.open` read them: it names them by their path, and no set from memory is called like that."""
    path = Path(features.name)
    try:
        from_file = path.suffix.lower() in _SUFFIXES and path.is_file()
        return path if from_file or any(path.glob("*.parquet")) else None
    except (OSError, ValueError):  # a name that no file system takes
        return None
