"""`Interval`: a value with its 95 % interval, and the two ways most of them arise (a share, a mean)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_labels, as_matrix, as_vector, chunk_rows, spans
from ..errors import SoftscopeError

Z95 = 1.959963984540054  # the normal quantile at 97.5 %


@dataclass(frozen=True, order=True)
class Interval:
    """A value and the 95 % interval around it, low <= value <= high; `f"{interval:.1%}"` formats all three.

    >>> accuracy = Interval(0.934, 0.921, 0.945)
    >>> f"{accuracy:.1%}"
    '93.4% [92.1%, 94.5%]'
    >>> accuracy.contains(0.9)
    False
    """

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not (self.low <= self.value <= self.high and math.isfinite(self.value)):
            raise SoftscopeError(
                f"an interval needs low <= value <= high, found {self.low}, {self.value}, {self.high}",
                "Check what the interval was computed from",
            )

    def contains(self, number: float) -> bool:
        """Whether `number` lies in the closed interval."""
        return self.low <= number <= self.high

    def to_dict(self) -> dict[str, float | None]:
        """Plain values for JSON; an unbounded end is None, since JSON knows no infinity."""
        low, high = (end if math.isfinite(end) else None for end in (self.low, self.high))
        return {"value": self.value, "low": low, "high": high}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Interval":
        """The interval that `to_dict` wrote."""
        try:
            value, low, high = (values[name] for name in ("value", "low", "high"))
            return cls(
                float(value), -math.inf if low is None else float(low), math.inf if high is None else float(high)
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SoftscopeError(
                f"{values!r} is not an interval", "It needs the numbers value, low and high"
            ) from error

    def __format__(self, spec: str) -> str:
        spec = spec or ".4g"
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __str__(self) -> str:
        return format(self)


def proportion(successes: int, rows: int) -> Interval:
    """The share successes / rows with Wilson's score interval, which stays in [0, 1] and works at 0 and 1.

    >>> f"{proportion(47, 50):.1%}"
    '94.0% [83.8%, 97.9%]'
    """
    if not 0 <= successes <= rows or rows == 0:
        raise SoftscopeError(f"{successes} of {rows} rows is not a share", "Count successes among at least one row")
    return wilson(successes / rows, rows)


def wilson(share: float, rows: float, z: float = Z95) -> Interval:
    """Wilson's score interval of `share` among `rows` rows, which may be an effective, fractional number.

    All p with (share - p)^2 <= z^2 p (1 - p) / rows; `z` is the normal quantile, of a 95 % interval unless given.
    """
    spread = z * z / rows
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * share * (1 - share) + spread * spread / 4) / (1 + spread)
    # At a share of 0 or 1 the bound is exact; rounding must not push it past the value.
    return Interval(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def mean_interval(values: Any, name: str = "values") -> Interval:
    """The mean of independent values with Student's t interval; unbounded where a single value tells no spread.

    >>> print(mean_interval([0.91, 0.93, 0.92]))
    0.92 [0.8952, 0.9448]
    """
    from scipy.special import stdtrit

    numbers = as_vector(values, name).astype(np.float64, copy=False)
    mean = float(numbers.mean())
    if numbers.size == 1:
        return Interval(mean, -math.inf, math.inf)
    half = float(stdtrit(numbers.size - 1, 0.975)) * float(numbers.std(ddof=1)) / math.sqrt(numbers.size)
    return Interval(mean, mean - half, mean + half)


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
