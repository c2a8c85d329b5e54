"""Classifiers that learn to tell test from OOD rows, from features and scores: the candidates for the ceiling."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..metrics import auroc

COLUMNS = 512
QUADRATIC_COLUMNS = 48
BOOSTING_COLUMNS = 24
INNER_SHARE = 0.7
# Principal components with less than this share of the largest variance are rounding.
_VARIANCE_TOLERANCE = 1e-10

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Table:
    """What the learners see of some rows: whitened principal components, and scores raw and as normal ranks."""

    white: Floats
    ranks: Floats
    raw: Floats

    def rows(self, chosen: NDArray) -> "Table":
        """Some of its rows."""
        return Table(self.white[chosen], self.ranks[chosen], self.raw[chosen])

    def columns(self, components: int) -> Floats:
        """The first principal components beside the ranks."""
        return np.hstack([self.white[:, :components], self.ranks])


@dataclass(frozen=True)
class Reduction:
    """From features and scores to a `Table`, learned without knowing which rows are OOD."""

    origin: Floats
    matrix: Floats  # [H, P], whitens
    ascending: Floats  # each score's values, sorted, [N, S]

    @classmethod
    def of(cls, z: NDArray, raw: Floats) -> "Reduction":
        """Principal components of `z`, at most COLUMNS, and the ranks of the scores `raw` [N, S]."""
        wide = z.astype(np.float64)
        origin = wide.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(wide, rowvar=False, ddof=0).reshape(len(origin), len(origin)))
        kept = np.flatnonzero(values > _VARIANCE_TOLERANCE * values[-1])[::-1][:COLUMNS]
        return cls(origin, vectors[:, kept] / np.sqrt(values[kept]), np.sort(raw, axis=0))

    def __call__(self, z: NDArray, raw: Floats) -> Table:
        """The table of some rows, seen or not."""
        from scipy.special import ndtri

        size = len(self.ascending)
        places = np.empty_like(raw)
        for column, ascending in enumerate(self.ascending.T):
            left, right = (np.searchsorted(ascending, raw[:, column], side) for side in ("left", "right"))
            places[:, column] = left + right
        return Table((z - self.origin) @ self.matrix, ndtri((places + 1.0) / (2.0 * size + 2.0)), raw)


Scorer = Callable[[Table], Floats]


def linear(table: Table, is_ood: Mask, seed: int) -> Scorer:
    """Logistic regression on all columns."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.05, max_iter=200, tol=1e-3)
    model.fit(table.columns(COLUMNS), is_ood)
    return lambda other: np.asarray(model.decision_function(other.columns(COLUMNS)))


def quadratic(table: Table, is_ood: Mask, seed: int) -> Scorer:
    """Log ratio of two Gaussians; each covariance is drawn towards the identity, the more so the fewer rows it has."""
    sides = [_Gaussian.of(table.columns(QUADRATIC_COLUMNS)[side]) for side in (~is_ood, is_ood)]

    def score(other: Table) -> Floats:
        test, ood = (side.log_density(other.columns(QUADRATIC_COLUMNS)) for side in sides)
        return ood - test

    return score


@dataclass(frozen=True)
class _Gaussian:
    mean: Floats
    root: Floats  # lower Cholesky factor of the covariance

    @classmethod
    def of(cls, rows: Floats) -> "_Gaussian":
        count, columns = rows.shape
        mean = rows.mean(axis=0)
        own = (rows - mean).T @ (rows - mean) / count
        shrinkage = columns / (columns + count)
        return cls(mean, np.linalg.cholesky((1.0 - shrinkage) * own + shrinkage * np.eye(columns)))

    def log_density(self, rows: Floats) -> Floats:
        """But for a constant that all Gaussians share."""
        from scipy.linalg import solve_triangular

        steps = solve_triangular(self.root, (rows - self.mean).T, lower=True)
        found: Floats = -0.5 * np.einsum("hn,hn->n", steps, steps) - np.log(np.diag(self.root)).sum()
        return found


def boosting(table: Table, is_ood: Mask, seed: int) -> Scorer:
    """Gradient-boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=80, max_leaf_nodes=15, l2_regularization=1.0, early_stopping=False, random_state=seed
    )
    model.fit(table.columns(BOOSTING_COLUMNS), is_ood)
    return lambda other: np.asarray(model.decision_function(other.columns(BOOSTING_COLUMNS)))


def best_score(table: Table, is_ood: Mask, seed: int) -> Scorer:
    """The estimator with the largest AUROC, as it is."""
    best = int(np.argmax([auroc(column[~is_ood], column[is_ood]).value for column in table.raw.T]))
    return lambda other: other.raw[:, best]


LEARNERS: dict[str, Callable[[Table, Mask, int], Scorer]] = {
    "linear": linear,
    "quadratic": quadratic,
    "boosting": boosting,
    "best estimator": best_score,
}


def best_learners(
    table: Table, is_ood: Mask, fold: NDArray[np.int64], seed: int
) -> list[tuple[Scorer, str, dict[str, float]]]:
    """For each fold what `best_learner` finds on the rows of all others."""
    from sklearn.exceptions import ConvergenceWarning

    fitted = []
    with warnings.catch_warnings():
        # Stopped early is good enough for a candidate that is judged on other rows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for number in range(int(fold.max()) + 1):
            seen, rng = fold != number, np.random.default_rng([seed, 2, number])
            fitted.append(best_learner(table.rows(seen), is_ood[seen], rng, seed))
    return fitted


def best_learner(
    table: Table, is_ood: Mask, rng: np.random.Generator, seed: int
) -> tuple[Scorer, str, dict[str, float]]:
    """The learner that does best on an inner split, fitted to all rows, its name, and each one's AUROC there."""
    fitting = np.zeros(len(is_ood), bool)
    for side in (np.flatnonzero(~is_ood), np.flatnonzero(is_ood)):
        fitting[rng.permutation(side)[: max(1, round(INNER_SHARE * len(side)))]] = True
    if not (is_ood[~fitting].any() and (~is_ood[~fitting]).any()):  # a handful of rows: nothing to judge a choice by
        return best_score(table, is_ood, seed), "best estimator", dict.fromkeys(LEARNERS, 0.5)
    found = {}
    for name, learn in LEARNERS.items():
        scores = learn(table.rows(fitting), is_ood[fitting], seed)(table.rows(~fitting))
        found[name] = auroc(scores[~is_ood[~fitting]], scores[is_ood[~fitting]]).value
    name = max(found, key=lambda name: found[name])
    return LEARNERS[name](table, is_ood, seed), name, found
