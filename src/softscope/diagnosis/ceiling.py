"""The ceiling: about how well any score of this layer could tell test from OOD inputs.

Several classifiers learn to tell them apart from the features and from the scores of all estimators. In each outer fold
the best on an inner split is fitted anew on the fold's complement and scores the fold, so that no row is judged by a
classifier, or by a choice of one, that has seen it. Rows compete within their fold only, because scores of two
classifiers do not compare. It is an estimate from a limited number of rows and classifiers: it can be too low. Its
interval is that of judging: what other rows to learn from would change is not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..estimators.base import each_chunk
from ..metrics import Interval, auroc
from .learners import LEARNERS, Reduction, Scorer, best_learners
from .model import Ceiling
from .resampling import Contest, Contests, Rows, value_of
from .scores import Scored

FOLDS = 5
LEARN_ROWS = 5_000  # of each side, over all folds


@dataclass(frozen=True)
class CeilingScores:
    """The ceiling of one OOD set, its contests for the bootstrap, and each row's placement among its fold's test."""

    ceiling: Ceiling
    contests: Contests
    test: Floats
    ood: Floats


def find_ceiling(test: Scored, ood: Scored, low: Rows, high: Rows, seed: int) -> CeilingScores:
    """The ceiling between test and one OOD set, judged on their balanced rows `low` and `high`."""
    rng = np.random.default_rng([seed, 2])
    folds = min(FOLDS, len(low))
    sides = _Side.of(test, low, folds, rng), _Side.of(ood, high, folds, rng)
    z, raw = (np.concatenate(parts) for parts in zip(*(side.columns(side.learn) for side in sides)))
    is_ood = np.repeat([False, True], [len(side.learn) for side in sides])
    fold = np.concatenate([side.fold[side.learn] for side in sides])
    reduction = Reduction.of(z, raw)
    table = reduction(z, raw)
    fitted = best_learners(table, is_ood, fold, seed)
    models = [model for model, _, _ in fitted]
    scores = sides[0].scores(reduction, models), sides[1].scores(reduction, models)
    contests = tuple(
        Contest.of(*scores, low[sides[0].fold[low] == one], high[sides[1].fold[high] == one]) for one in range(folds)
    )
    placed = (
        _placements(sides[0], scores[0], sides[0], scores[0]),
        _placements(sides[1], scores[1], sides[0], scores[0]),
    )
    names = [name for _, name, _ in fitted]
    ceiling = Ceiling(
        auroc=_around(value_of(contests), auroc(placed[0][low], placed[1][high])),
        classifier=max(LEARNERS, key=names.count),
        candidates={name: float(np.mean([found[name] for _, _, found in fitted])) for name in LEARNERS},
        rows=int((fold != 0).sum()) // 2,
        columns=table.white.shape[1],
        raised=False,
    )
    return CeilingScores(ceiling, contests, *placed)


def _around(value: float, other: Interval) -> Interval:
    """`value` with the interval of `other`, whose value differs a little because folds differ in size."""
    return Interval(value, min(value, other.low), max(value, other.high))


@dataclass(frozen=True)
class _Side:
    """A set's rows by fold, and those to learn from."""

    scored: Scored
    fold: NDArray[np.int64]
    learn: Rows

    @classmethod
    def of(cls, scored: Scored, balanced: Rows, folds: int, rng: np.random.Generator) -> "_Side":
        # Balanced rows are dealt first, so that every fold has some of them.
        others = np.setdiff1d(np.arange(len(scored)), balanced, assume_unique=True)
        first = rng.permutation(balanced)
        order = np.concatenate([first, rng.permutation(others)])
        fold = np.empty(len(scored), np.int64)
        fold[order] = np.arange(len(scored)) % folds
        return cls(scored, fold, np.sort(first[:LEARN_ROWS]))

    def columns(self, rows: Rows) -> tuple[NDArray, Floats]:
        return self.scored.seen.features.rows(rows), self._raw(rows)

    def scores(self, reduction: Reduction, models: Sequence[Scorer]) -> Floats:
        """Of every row, by the classifier that has not seen its fold."""
        out = np.empty(len(self.scored))
        for span, z in each_chunk(self.scored.seen.features):
            table, fold, here = reduction(z, self._raw(span)), self.fold[span], np.empty(len(z))
            for number, model in enumerate(models):
                if (fold == number).any():
                    here[fold == number] = model(table.rows(fold == number))
            out[span] = here
        return out

    def _raw(self, rows: Rows | slice) -> Floats:
        return np.column_stack([values[rows] for values in self.scored.values.values()])


def _placements(side: _Side, scores: Floats, test: _Side, test_scores: Floats) -> Floats:
    """Share of the test rows of its fold that score lower than each row, ties by half: comparable between folds."""
    out = np.empty(len(scores))
    for number in range(int(test.fold.max()) + 1):
        ascending, here = np.sort(test_scores[test.fold == number]), side.fold == number
        left, right = (np.searchsorted(ascending, scores[here], which) for which in ("left", "right"))
        out[here] = (left + right) / (2 * len(ascending))
    return out
