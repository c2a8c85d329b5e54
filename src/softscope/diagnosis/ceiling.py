"""What is reachable: how well some score of this layer is known to tell test from OOD inputs, at least.

Several classifiers learn to tell them apart from the features and from the scores of all estimators. In each outer fold
the best on an inner split is fitted anew on the fold's complement and scores the fold, so that no row is judged by a
classifier, or by a choice of one, that has seen it. Rows compete within their fold only, because scores of two
classifiers do not compare. A trained classifier shows what is possible and never what is not: the result is a lower
bound, which grows with the number of rows to learn from; `Ceiling` keeps two points of that curve.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..estimators import each_chunk
from ..metrics import Interval, auroc
from .model import Ceiling
from .resampling import Contest, Contests, RowNumbers, value_of
from .sets import Pair, Scored

FOLDS = 5
INNER_SHARE = 0.7
#: Rows of each side to learn from, over all folds, and to choose a learner by; fewer where rows are wide.
LEARN_ROWS, CHOICE_ROWS, LEARN_CELLS = 5_000, 2_000, 1 << 24
#: Columns up to which a linear learner sees all features; beyond it sees this many principal components.
ALL_COLUMNS, COMPONENTS = 1_024, 256
QUADRATIC_COLUMNS, BOOSTING_COLUMNS = 48, 24
#: A cross-fitted AUROC varies about half as much again as that of a fixed score, whose interval it is given.
_CROSS_FITTED = 1.5

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ChosenLearner:
    """The classifier chosen and fitted, its name, each one's AUROC on the inner split, and it fitted there."""

    model: "Seeing"
    name: str
    reached: dict[str, float]
    with_fewer: "Seeing"


@dataclass(frozen=True)
class CeilingScores:
    """The ceiling of one OOD set, its contests for the bootstrap, and each row's placement among its fold's test."""

    ceiling: Ceiling
    contests: Contests
    test: Floats
    ood: Floats


def find_ceiling(pair: Pair, seed: int) -> CeilingScores:
    """The ceiling between test and one OOD set, judged on their balanced rows."""
    rng, low, high = np.random.default_rng([seed, 2]), pair.low, pair.high
    folds = min(FOLDS, len(low))
    sides = _Side.of(pair.test, low, folds, rng, pair.ood.against), _Side.of(pair.ood, high, folds, rng)
    z, raw = (np.concatenate(parts) for parts in zip(*(side.columns(side.learn) for side in sides)))
    is_ood = np.repeat([False, True], [len(side.learn) for side in sides])
    fold = np.concatenate([side.fold[side.learn] for side in sides])
    columns = Columns(z, raw, seed)
    table = columns(z, raw)
    del z
    choices, fewer_auroc = best_learners(columns, table, is_ood, fold, seed)
    models = [choice.model for choice in choices]
    scores = sides[0].scores(columns, models), sides[1].scores(columns, models)
    contests = tuple(
        Contest.of(*scores, low[sides[0].fold[low] == one], high[sides[1].fold[high] == one]) for one in range(folds)
    )
    placed = [_placements(side, own, sides[0], scores[0]) for side, own in zip(sides, scores)]
    names = [choice.name for choice in choices]
    learned = int((fold != 0).sum()) // 2
    ceiling = Ceiling(
        auroc=_at_least(value_of(contests), auroc(placed[0][low], placed[1][high])),
        classifier=max(names, key=names.count),
        candidates={name: float(np.mean([one.reached[name] for one in choices])) for name in columns.learners()},
        rows=learned,
        columns=columns.width,
        raised=False,
        fewer_rows=min(CHOICE_ROWS, round(INNER_SHARE * learned)),
        fewer_auroc=fewer_auroc,
    )
    return CeilingScores(ceiling, contests, *placed)


def _at_least(value: float, other: Interval) -> Interval:
    """`value` with a lower end as far below as that of `other`, times _CROSS_FITTED; nothing is known of the upper."""
    return Interval(value, max(0.0, value - _CROSS_FITTED * (other.value - other.low)), 1.0)


class Seeing:
    """A classifier that sees some of the columns."""

    def __init__(self, columns: NDArray[np.int64], classifier: Any) -> None:
        self._columns, self._classifier = columns, classifier

    def fit(self, table: NDArray, is_ood: Mask) -> "Seeing":
        """Learn to tell rows that are OOD from the others."""
        self._classifier.fit(table[:, self._columns], is_ood)
        return self

    def decision_function(self, table: NDArray) -> Floats:
        """Larger = more like the OOD side."""
        return np.asarray(self._classifier.decision_function(table[:, self._columns]), np.float64)


class MeanDifference:
    """Score by the direction from the mean of one side to that of the other: the best with very few rows."""

    def fit(self, x: NDArray, is_ood: Mask) -> "MeanDifference":
        self.direction_ = x[is_ood].mean(axis=0) - x[~is_ood].mean(axis=0)
        return self

    def decision_function(self, x: NDArray) -> Floats:
        """Larger = more like the OOD side."""
        return np.asarray(x @ self.direction_, np.float64)


class BestScore:
    """The column with the largest AUROC, as it is."""

    def fit(self, x: NDArray, is_ood: Mask) -> "BestScore":
        self.best_ = int(np.argmax([auroc(column[~is_ood], column[is_ood]).value for column in x.T]))
        return self

    def decision_function(self, x: NDArray) -> Floats:
        """Larger = more like the OOD side."""
        return np.asarray(x[:, self.best_], np.float64)


class Columns:
    """From features and scores to the columns that learners see, fitted without knowing which rows are OOD.

    They are, side by side and in float32: standardised features (of wide layers principal components of them), the
    first principal components whitened, and the scores as normal ranks.
    """

    def __init__(self, z: NDArray, raw: Floats, seed: int) -> None:
        from sklearn.decomposition import PCA
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import QuantileTransformer, StandardScaler

        rows, features = z.shape
        wide = features > ALL_COLUMNS
        kept = min(COMPONENTS if wide else QUADRATIC_COLUMNS, rows - 1, features)
        self._scaler = StandardScaler().fit(z)
        how = {"svd_solver": "randomized", "iterated_power": 1} if wide else {"svd_solver": "covariance_eigh"}
        self._turned = make_pipeline(self._scaler, PCA(max(1, kept), whiten=False, random_state=seed, **how)).fit(z)
        variances = self._turned[-1].explained_variance_
        self._spread = np.sqrt(np.where(variances > 1e-10 * max(variances[0], 1e-300), variances, np.inf))
        self._ranks = QuantileTransformer(
            n_quantiles=min(1000, rows), output_distribution="normal", subsample=None
        ).fit(raw)
        self._wide = wide
        self.width = int(np.isfinite(self._spread).sum()) if wide else int((self._scaler.var_ > 0).sum())
        first = len(variances) if wide else features
        white = min(QUADRATIC_COLUMNS, len(variances))
        sizes = [first, white, raw.shape[1]]
        self._linear, self._white, self._ranked = (
            np.arange(end - size, end) for end, size in zip(np.cumsum(sizes), sizes)
        )

    def __call__(self, z: NDArray, raw: Floats) -> NDArray:
        """The columns of some rows, seen or not."""
        turned = self._turned.transform(z)
        first = turned if self._wide else self._scaler.transform(z)
        white = (turned / self._spread)[:, : len(self._white)]
        return np.hstack([part.astype(np.float32) for part in (first, white, self._ranks.transform(raw))])

    def learners(self) -> dict[str, Callable[[int, int], Seeing]]:
        """Name -> (rows of each side, seed) -> an unfitted classifier with `decision_function`."""
        from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import RidgeClassifier

        linear = np.concatenate([self._linear, self._ranked])
        quadratic = np.concatenate([self._white, self._ranked])
        trees = np.concatenate([self._white[:BOOSTING_COLUMNS], self._ranked])
        return {
            "mean difference": lambda rows, seed: Seeing(self._linear, MeanDifference()),
            # Penalties in units of a column's sum of squares, 2 x rows: a light one and a strong one.
            "light ridge": lambda rows, seed: Seeing(linear, RidgeClassifier(alpha=0.02 * rows, copy_X=False)),
            "strong ridge": lambda rows, seed: Seeing(linear, RidgeClassifier(alpha=2.0 * rows, copy_X=False)),
            # Each side's covariance is drawn towards the identity, the more so the fewer rows it has.
            "quadratic": lambda rows, seed: Seeing(
                quadratic,
                QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=len(quadratic) / (len(quadratic) + rows)),
            ),
            "boosting": lambda rows, seed: Seeing(
                trees,
                HistGradientBoostingClassifier(
                    max_iter=60, max_leaf_nodes=15, l2_regularization=1.0, early_stopping=False, random_state=seed
                ),
            ),
            "best estimator": lambda rows, seed: Seeing(self._ranked, BestScore()),
        }


def best_learners(
    columns: Columns, table: NDArray, is_ood: Mask, fold: NDArray[np.int64], seed: int
) -> tuple[list[ChosenLearner], float]:
    """For each fold what `best_learner` finds on the rows of all others, and what it reaches with fewer rows."""
    choices, with_fewer = [], []
    with warnings.catch_warnings():
        # Columns that hardly vary, and fits that stop early, are good enough for a candidate judged on other rows.
        warnings.simplefilter("ignore")
        for number in range(int(fold.max()) + 1):
            seen, rng = np.flatnonzero(fold != number), np.random.default_rng([seed, 2, number])
            choices.append(best_learner(columns.learners(), table[seen], is_ood[seen], rng, seed))
            scores, unfamiliar = choices[-1].with_fewer.decision_function(table[fold == number]), is_ood[fold == number]
            with_fewer.append(auroc(scores[~unfamiliar], scores[unfamiliar]).value)
    return choices, float(np.mean(with_fewer))


def best_learner(
    learners: dict[str, Callable[[int, int], Seeing]], table: NDArray, is_ood: Mask, rng: np.random.Generator, seed: int
) -> ChosenLearner:
    """The learner that does best on an inner split, fitted to all rows, its name, and each one's AUROC there."""
    fitting, judging = [], []
    for side in (np.flatnonzero(~is_ood), np.flatnonzero(is_ood)):
        size = max(1, round(INNER_SHARE * len(side)))
        order = rng.permutation(side)
        fitting.append(order[: min(size, CHOICE_ROWS)])
        judging.append(order[size:])
    if min(map(len, judging)) == 0 or min(map(len, fitting)) < 3:  # nothing to judge a choice by
        model = learners["best estimator"](1, seed).fit(table, is_ood)
        return ChosenLearner(model, "best estimator", dict.fromkeys(learners, 0.5), model)
    inner = np.concatenate(fitting)
    reached, models = {}, {}
    for name, learner in learners.items():
        models[name] = learner(len(fitting[0]), seed).fit(table[inner], is_ood[inner])
        of_test, of_ood = (models[name].decision_function(table[rows]) for rows in judging)
        reached[name] = auroc(of_test, of_ood).value
    best = max(reached, key=lambda name: reached[name])
    return ChosenLearner(learners[best](int(is_ood.sum()), seed).fit(table, is_ood), best, reached, models[best])


@dataclass(frozen=True)
class _Side:
    """A set's rows by fold, and those to learn from."""

    scored: Scored
    fold: NDArray[np.int64]
    learn: RowNumbers

    @classmethod
    def of(
        cls, scored: Scored, balanced: RowNumbers, folds: int, rng: np.random.Generator, rows: RowNumbers | None = None
    ) -> "_Side":
        # Balanced rows are dealt first, so that every fold has some of them; what is not among `rows` is in none.
        others = np.setdiff1d(np.arange(len(scored)) if rows is None else rows, balanced, assume_unique=True)
        first = rng.permutation(balanced)
        order = np.concatenate([first, rng.permutation(others)])
        fold = np.full(len(scored), -1, np.int64)
        fold[order] = np.arange(len(order)) % folds
        most = min(LEARN_ROWS, max(10 * folds, LEARN_CELLS // scored.seen.features.n_features))
        return cls(scored, fold, np.sort(first[:most]))

    def columns(self, rows: RowNumbers) -> tuple[NDArray, Floats]:
        return self.scored.seen.features.rows(rows), self._raw(rows)

    def scores(self, columns: Columns, models: Sequence[Seeing]) -> Floats:
        """Of every row, by the classifier that has not seen its fold."""
        out = np.empty(len(self.scored))
        for span, z in each_chunk(self.scored.seen.features, 4096):
            table, fold, here = columns(z, self._raw(span)), self.fold[span], np.zeros(len(z))
            for number, model in enumerate(models):
                if (fold == number).any():
                    here[fold == number] = model.decision_function(table[fold == number])
            out[span] = here
        return out

    def _raw(self, rows: RowNumbers | slice) -> Floats:
        return np.column_stack([values[rows] for values in self.scored.values.values()])


def _placements(side: _Side, scores: Floats, test: _Side, test_scores: Floats) -> Floats:
    """Share of the test rows of its fold that score lower than each row, ties by half: comparable between folds."""
    out = np.zeros(len(scores))
    for number in range(int(test.fold.max()) + 1):
        ascending, here = np.sort(test_scores[test.fold == number]), side.fold == number
        left, right = (np.searchsorted(ascending, scores[here], which) for which in ("left", "right"))
        out[here] = (left + right) / (2 * len(ascending))
    return out
