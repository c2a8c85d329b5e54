"""How good the classifier itself is, from logits and labels: accuracy and cross-entropy, in chunks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_labels, as_matrix, chunk_rows, spans
from .interval import Interval, mean_interval, proportion


def accuracy(logits: Any, labels: Any) -> Interval:
    """Share of rows whose largest logit is the label's (of equal logits the first class wins), Wilson's interval."""
    correct = sum(int((chunk.argmax(axis=1) == truth).sum()) for chunk, truth in _chunks(logits, labels))
    return proportion(correct, len(labels))


def cross_entropy(logits: Any, labels: Any) -> Interval:
    """Mean of -log softmax(logits)[label] in nats, with Student's t interval (low is at least 0)."""
    losses = np.concatenate([_losses(chunk, truth) for chunk, truth in _chunks(logits, labels)])
    mean = mean_interval(losses, "losses")
    return Interval(mean.value, max(0.0, mean.low), mean.high)


def _losses(logits: Floats, labels: NDArray[np.int64]) -> Floats:
    # (l_max - l_label) + log1p(sum over the others of exp(l_j - l_max)): no overflow, exact near s_label = 1.
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    below = logits - logits[rows, top, None]
    others = np.exp(below)
    others[rows, top] = 0.0
    losses: Floats = np.log1p(others.sum(axis=1)) - below[rows, labels]
    return losses


def _chunks(logits: Any, labels: Any) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    matrix = as_matrix(logits, "logits")
    truth = as_labels(labels, "labels", rows=len(matrix), classes=matrix.shape[1])
    for span in spans(len(matrix), chunk_rows(matrix.shape[1])):
        yield matrix[span].astype(np.float64), truth[span]
