"""The contract every estimator keeps: what it is called, what it needs, how it is fitted, how it scores.

Larger always means more uncertain. Scores are finite float64, computed in chunks of rows, and do not depend on how
the rows were cut: scores of the logits not at all, others not beyond the rounding of their products.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns, chunk_rows, placed, square_norms
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .softmax import Tail, energy, log_generalised_entropy


@dataclass(frozen=True)
class Info:
    """What the docs say of an estimator; `needs`, with its default arguments, is any of 'head', 'train', 'labels'.

    `assumes` is what the formula takes for granted beyond them; what can be checked on training data is checked by
    `fit`, which refuses rather than score what makes no sense.
    """

    id: str
    name: str
    symbol: str
    formula: str
    needs: tuple[str, ...]
    source: str = "Pearce, Brintrup, Zhu 2021"
    assumes: str = ""


#: Every score by its name: the paper's (E), baselines (B), references (R), each by number.
ESTIMATORS: dict[str, type["Estimator"]] = {}

E = TypeVar("E", bound="Estimator")


def register(cls: type[E]) -> type[E]:
    """Class decorator: from now on `estimator(cls.info.name)` makes one, the docs list it and guards can save it."""
    if cls.info.name in ESTIMATORS:
        raise ValueError(f"two estimators are called {cls.info.name!r}")
    known: list[type[Estimator]] = [*ESTIMATORS.values(), cls]
    listed = sorted(known, key=lambda one: ("EBR".index(one.info.id[0]), int(one.info.id[1:])))
    ESTIMATORS.clear()
    ESTIMATORS.update({one.info.name: one for one in listed})
    return cls


class Estimator(ABC):
    """An uncertainty of final-layer features. Constructors take keywords only and store them verbatim."""

    info: ClassVar[Info]
    #: What `state` keeps beyond the head: arrays `name` in `_name`, numbers `name` in `name_`.
    fitted_arrays: ClassVar[tuple[str, ...]] = ()
    fitted_numbers: ClassVar[tuple[str, ...]] = ()
    head_: Head
    n_features_: int

    @property
    def needs(self) -> tuple[str, ...]:
        """What `fit` takes: `info.needs`, unless the arguments ask for less."""
        return self.info.needs

    def fit(self, head: Head, train: Any = None, *, moments: ClassMoments | None = None) -> Self:
        """Take what the estimator needs from the head and the training features; returns itself.

        `train` is whatever `FeatureSet.of` takes: a FeatureSet, an array, a path, or a pair (features, labels). Where
        the class `moments` of `train` are at hand, passing them spares some estimators a pass over it.
        """
        self._check(head)
        self.head_ = head
        self.n_features_ = head.n_features
        if "train" in self.needs:
            if train is None:
                raise SoftscopeError(f"{self.info.name} needs training features", "Pass fit(head, train)")
            features = FeatureSet.of(train, "train")
            check_columns(features.n_features, f"{features.name}: z", columns=head.n_features)
            if "labels" in self.needs and features.labels is None:
                raise SoftscopeError(
                    f"{self.info.name} needs labels, {features.name} has none",
                    "Save them with the features, or pass fit(head, (z, labels))",
                )
            features.check_labels(head.n_classes)
            self._fit(head, features, moments)
        return self

    def clone(self) -> Self:
        """A new, unfitted estimator with the same arguments."""
        return type(self)(**self.params())

    def __sklearn_clone__(self) -> Self:
        return self.clone()

    def uncertainty(self, z: Any) -> Floats:
        """One finite float64 per row, larger = more uncertain, in an order that can't saturate."""
        return self._rows(z, self._uncertainty, np.float64)

    def plain(self, z: Any) -> NDArray[np.float32]:
        """The value as the paper defines it, in plain float32 as the paper computed it: ties and all."""
        return self._rows(z, self._plain, np.float32)

    def state(self) -> dict[str, NDArray]:
        """The fitted arrays beyond the head, enough for `restore` on another machine; a number is an array of one."""
        arrays = {name: getattr(self, f"_{name}") for name in self.fitted_arrays}
        return arrays | {name: np.array([getattr(self, f"{name}_")]) for name in self.fitted_numbers}

    def restore(self, head: Head, state: Mapping[str, NDArray]) -> Self:
        """The inverse of `state`: a fitted estimator without the training features."""
        self.head_ = head
        self.n_features_ = head.n_features
        self._restore(state)
        return self

    def params(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.params().items())})"

    def _check(self, head: Head) -> None:
        """Raise a SoftscopeError where an argument makes no sense."""

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        """Fit on `train`, whose columns and labels have been checked against the head."""

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        for name in self.fitted_arrays:
            setattr(self, f"_{name}", state[name])
        for name in self.fitted_numbers:
            setattr(self, f"{name}_", float(state[name][0]))

    @abstractmethod
    def _uncertainty(self, rows: NDArray) -> NDArray:
        """Scores of one chunk of finite rows."""

    def _plain(self, rows: NDArray) -> NDArray:
        return self._uncertainty(rows)

    def _rows(self, z: Any, score: Any, dtype: type) -> NDArray:
        features = self._features(z)
        out: NDArray = np.empty(len(features), dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named below
            for span, rows in each_chunk(features, self._chunk()):
                out[span] = score(rows)
                if not np.isfinite(out[span]).all():
                    row = int((~np.isfinite(out[span])).argmax())
                    raise SoftscopeError(
                        f"{features.name}: row {span.start + row} is too large for {self.info.name} to score, it "
                        f"holds {np.abs(rows[row]).max():.1e}",
                        "Drop the row, or fix its source",
                    )
        return out

    def _chunk(self) -> int:
        """Rows at a time: a chunk may become a chunk of logits or cosines, so the wider of the two sets its height."""
        return chunk_rows(max(self.n_features_, self.head_.n_classes))

    def _features(self, z: Any) -> FeatureSet:
        if not hasattr(self, "head_"):
            raise SoftscopeError(f"{self.info.name} is not fitted", "Call fit(head, train) first")
        features = FeatureSet.of(z)
        check_columns(features.n_features, f"{features.name}: z", columns=self.n_features_)
        return features


class LogitReader(Estimator):
    """An estimator that reads a row and its logits, so that many of them can share one product with the head."""

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return self._from_block(Block(rows, self.head_.logits(rows)))

    @abstractmethod
    def _from_block(self, block: "Block") -> NDArray:
        """Scores of one chunk of finite rows, whose logits are at hand."""


@dataclass(frozen=True)
class Block:
    """Rows [N, H] with their logits [N, K], and what several scores read off them, each made once."""

    rows: NDArray
    logits: NDArray
    temperature: float = 10.0  # of U_cool

    @cached_property
    def warm(self) -> Tail:
        return Tail.of(self.logits)

    @cached_property
    def cool(self) -> Tail:
        """The tail at U_cool's temperature."""
        return Tail.of(self.logits, self.temperature)

    @cached_property
    def predicted(self) -> NDArray[np.int64]:
        return np.asarray(self.logits.argmax(axis=1))

    @cached_property
    def sizes(self) -> Floats:
        """norm1(z)."""
        return np.asarray(np.abs(self.rows).sum(axis=1, dtype=np.float64))

    @cached_property
    def below(self) -> Floats:
        """Logits less the largest of their row."""
        return np.asarray(self.logits - self.logits.max(axis=1, keepdims=True).astype(np.float64))

    @cached_property
    def softmax(self) -> Floats:
        """s_i = exp(l_i) / sum_j exp(l_j)."""
        powers = np.exp(np.maximum(self.below, -700.0))
        powers /= powers.sum(axis=1, keepdims=True)
        return powers

    @cached_property
    def first(self) -> Floats:
        return np.asarray(self.logits.max(axis=1).astype(np.float64))

    @cached_property
    def minus_entropy(self) -> Floats:
        """sum_i s_i log s_i."""
        return np.asarray(np.einsum("ij,ij->i", self.softmax, self.below) + np.log(self.softmax.max(axis=1)))

    @cached_property
    def off_uniform(self) -> Floats:
        """norm1(K s - 1)."""
        return np.asarray(np.abs(self.softmax * self.logits.shape[1] - 1.0).sum(axis=1))

    def distances(self, mean: Floats) -> Floats:
        """norm(z - mean)."""
        return np.sqrt(square_norms(self.rows - mean))

    def inner(self, patterns: Floats) -> Floats:
        """Inner product of z with the row of `patterns` [K, H] of its predicted class."""
        return np.asarray(np.einsum("ij,ij->i", self.rows, patterns[self.predicted]))

    def room(self, weights: Floats) -> Floats:
        """sum_k weights_ck (l_k - l_c), c the predicted class."""
        return np.asarray(np.einsum("ij,ij->i", self.below, weights[self.predicted]))

    def log_generalised_entropy(self, gamma: float, top: int) -> Floats:
        """log sum_j (s_j (1 - s_j))^gamma over the `top` largest s_j."""
        return log_generalised_entropy(self.logits, gamma, top)

    def sum_ratio(self, count: int) -> Floats:
        """Sum of z over that of its `count` largest entries, those below 0 counted as 0; 0 for a row without others."""
        return sum_ratio(self.rows, largest_entries(self.rows, count))

    def scaled_energy(self, factors: Floats, bias: Floats) -> Floats:
        """Energy of the logits whose part without bias is multiplied by `factors`."""
        return energy((self.logits - bias) * factors[:, None] + bias)


def largest_entries(rows: NDArray, count: int) -> NDArray:
    """The `count` largest entries of each row, in no order."""
    return np.partition(rows, rows.shape[1] - count, axis=1)[:, rows.shape[1] - count :]


def sum_ratio(rows: NDArray, largest: NDArray) -> Floats:
    """Sum of the row / sum of its largest entries, values below 0 counted as 0; 0 for a row without any above."""
    whole, top = (np.maximum(part, 0).sum(axis=1, dtype=np.float64) for part in (rows, largest))
    return np.asarray(np.divide(whole, top, out=np.zeros(len(rows)), where=top > 0))


def unit_rows(rows: NDArray) -> NDArray:
    """Rows scaled to norm 1, in their own dtype; rows of zeros stay zeros.

    Squares that under- or overflow are rare: those rows are divided by their largest entry first.
    """
    norms2 = np.einsum("ij,ij->i", rows, rows)
    limits = np.finfo(rows.dtype)
    unsafe = np.flatnonzero(~((norms2 > limits.tiny / limits.eps**2) & (norms2 < limits.max)))
    out: NDArray = rows / np.sqrt(np.where(norms2 > 0, norms2, 1))[:, None]
    if len(unsafe):
        wide = rows[unsafe].astype(np.float64)
        wide /= _nonzero(np.abs(wide).max(axis=1, keepdims=True))
        out[unsafe] = wide / _nonzero(np.linalg.norm(wide, axis=1, keepdims=True))
    return out


def _nonzero(sizes: Floats) -> Floats:
    return np.where(sizes > 0, sizes, 1.0)


def each_chunk(features: FeatureSet, rows: int | None = None) -> Iterator[tuple[slice, NDArray]]:
    """The chunks of `features` with the slice of rows each covers."""
    return placed(features.chunks(rows))
