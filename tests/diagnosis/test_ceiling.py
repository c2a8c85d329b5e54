"""The ceiling where the best possible AUROC is known, where there is nothing to find, and with hardly any rows."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm

from softscope.diagnosis import ceiling as ceiling_module
from softscope.diagnosis.ceiling import CeilingScores, Columns, best_learner, find_ceiling
from softscope.diagnosis.sets import Pair
from softscope.metrics import auroc

from .made import made_scored


def _between(test: np.ndarray, ood: np.ndarray, seed: int = 0, score=None) -> CeilingScores:
    """The ceiling between rows of features, with one useless score unless one is given."""
    useless = score or (lambda z: np.zeros(len(z)))
    sides = [made_scored({"density": useless(z)}, z=z) for z in (test, ood)]
    rows = np.arange(min(len(test), len(ood)))
    return find_ceiling(Pair(*sides, rows, rows), seed)


def test_shifted_gaussians_reach_the_bayes_auroc() -> None:
    """N(0, I) against N(d, I): the best score is linear, its AUROC Phi(norm(d) / sqrt 2)."""
    rng = np.random.default_rng(0)
    shift = np.zeros(10)
    shift[:2] = 0.9, 0.7
    ceiling = _between(rng.normal(size=(3000, 10)), rng.normal(size=(3000, 10)) + shift).ceiling
    best = norm.cdf(np.linalg.norm(shift) / np.sqrt(2))
    assert ceiling.auroc.contains(best)
    assert ceiling.auroc.value == pytest.approx(best, abs=0.015)
    assert ceiling.auroc.high == 1.0
    assert ceiling.fewer_rows < ceiling.rows
    assert ceiling.fewer_auroc == pytest.approx(best, abs=0.03)


@pytest.mark.parametrize(
    ("rows", "features", "off"), [(200, 100, 0.08), (200, 512, 0.2), (1000, 512, 0.06)], ids=lambda value: str(value)
)
def test_with_few_rows_and_many_features_it_is_a_bound_that_holds(rows, features, off) -> None:
    """N(0, I) against N(d, I) with an optimum of .90: the lower end is below it, and the value not far below."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        shift = rng.normal(size=features)
        shift *= norm.ppf(0.9) * np.sqrt(2) / np.linalg.norm(shift)
        ceiling = _between(rng.normal(size=(rows, features)), rng.normal(size=(rows, features)) + shift, seed).ceiling
        assert ceiling.auroc.low <= 0.9
        assert ceiling.auroc.value > 0.9 - off


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "draws"), [(200, 40), (1000, 20)])
def test_the_lower_end_covers_the_optimum_with_512_features(rows, draws) -> None:
    """As above, with the share of draws counted: 93 % or more."""
    held = 0
    for seed in range(draws):
        rng = np.random.default_rng([rows, seed])
        shift = rng.normal(size=512)
        shift *= norm.ppf(0.9) * np.sqrt(2) / np.linalg.norm(shift)
        ceiling = _between(rng.normal(size=(rows, 512)), rng.normal(size=(rows, 512)) + shift, seed).ceiling
        held += ceiling.auroc.low <= 0.9
    assert held >= 0.93 * draws


def test_gaussians_of_unequal_spread_reach_the_bayes_auroc() -> None:
    """N(0, I) against N(0, s^2 I): the best score is norm(z)^2, chi-squared on both sides."""
    rng, size, spread = np.random.default_rng(1), 6, 1.5
    best, _ = quad(lambda x: chi2.pdf(x, size) * chi2.sf(x / spread**2, size), 0, np.inf)
    ceiling = _between(rng.normal(size=(3000, size)), spread * rng.normal(size=(3000, size))).ceiling
    assert ceiling.auroc.value == pytest.approx(best, abs=0.015)
    assert ceiling.candidates["light ridge"] < 0.6
    assert ceiling.classifier in ("quadratic", "boosting")


@pytest.mark.parametrize(("rows", "columns"), [(600, 5), (60, 200)])
def test_identical_distributions_have_a_ceiling_of_one_half(rows, columns) -> None:
    """Also with more columns than rows, where a classifier judged on rows it has seen would tell them all apart."""
    ceilings = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        ceilings.append(
            _between(rng.normal(size=(rows, columns)), rng.normal(size=(rows, columns)), seed).ceiling.auroc
        )
    # A cross-fitted AUROC varies half as much again as that of a fixed score, sqrt(1 / (6 rows)).
    error = 1.5 / np.sqrt(6 * rows)
    values = np.array([one.value for one in ceilings])
    assert np.abs(values - 0.5).max() < 4 * error
    assert abs(values.mean() - 0.5) < 4 * error / np.sqrt(len(values))


def test_a_good_score_is_never_lost_beside_useless_features() -> None:
    rng = np.random.default_rng(3)
    test, ood = rng.normal(size=(300, 40)), rng.normal(size=(300, 40))
    test[:, 0], ood[:, 0] = rng.normal(0, 0.001, 300), rng.normal(0.003, 0.001, 300)
    alone = auroc(test[:, 0], ood[:, 0]).value
    ceiling = _between(test, ood, score=lambda z: z[:, 0]).ceiling
    assert ceiling.auroc.value > alone - 0.02
    assert ceiling.candidates["best estimator"] == pytest.approx(alone, abs=0.03)


def test_rows_are_scored_by_classifiers_that_have_not_seen_them(monkeypatch) -> None:
    """A learner that remembers its rows and gives 0 to all others: no row may be remembered when it is scored."""
    remembered: list[set[bytes]] = []

    class Memory:
        def fit(self, table, is_ood):
            self.known = {row.tobytes() for row in table}
            remembered.append(self.known)
            return self

        def decision_function(self, table):
            return np.array([float(row.tobytes() in self.known) for row in table])

    monkeypatch.setattr(Columns, "learners", lambda self: {"memory": lambda rows, seed: Memory()})
    monkeypatch.setattr(ceiling_module, "LEARN_ROWS", 40)
    rng = np.random.default_rng(0)
    judged = _between(rng.normal(size=(90, 3)), rng.normal(size=(70, 3)), score=lambda z: z[:, 0])
    assert remembered
    assert judged.ceiling.auroc.value == 0.5
    assert set(judged.test) | set(judged.ood) == {0.5}


def test_every_row_gets_a_placement_and_folds_hold_all_balanced_rows() -> None:
    rng = np.random.default_rng(0)
    judged = _between(rng.normal(size=(90, 3)), rng.normal(2, 1, size=(70, 3)))
    assert len(judged.test) == 90
    assert len(judged.ood) == 70
    assert ((judged.ood >= 0) & (judged.ood <= 1)).all()
    for rows in ("low", "high"):
        dealt = np.concatenate([getattr(contest, rows) for contest in judged.contests])
        assert sorted(dealt) == list(range(70))


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_a_handful_of_rows_is_enough_to_run(rows) -> None:
    rng = np.random.default_rng(0)
    ceiling = _between(rng.normal(size=(rows, 4)), rng.normal(size=(rows, 4))).ceiling
    assert 0 <= ceiling.auroc.low <= ceiling.auroc.value <= ceiling.auroc.high <= 1


def test_constant_and_duplicated_columns_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(100, 1)), rng.normal(3, 1, size=(100, 1))
    test, ood = (np.hstack([z, z, np.ones((100, 3))]) for z in (one, other))
    ceiling = _between(test, ood).ceiling
    assert ceiling.columns == 2
    assert ceiling.auroc.value > 0.95


def test_the_same_seed_gives_the_same_ceiling() -> None:
    rng = np.random.default_rng(0)
    test, ood = rng.normal(size=(80, 4)), rng.normal(0.5, 1, size=(80, 4))
    first, again, other = (_between(test, ood, seed) for seed in (1, 1, 2))
    assert first.ceiling == again.ceiling
    assert np.array_equal(first.ood, again.ood)
    assert not np.array_equal(first.ood, other.ood)


def test_columns_are_standardised_whitened_and_ranked(rng) -> None:
    z = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)) + 5
    columns = Columns(z, z[:, :2], seed=0)
    table = columns(z, z[:, :2])
    assert table.shape == (500, 6 + 6 + 2)
    assert table[:, :6].std(axis=0) == pytest.approx(np.ones(6), abs=1e-5)
    assert np.cov(table[:, 6:12], rowvar=False) == pytest.approx(np.eye(6), abs=1e-4)
    assert np.array_equal(np.argsort(table[:, 12]), np.argsort(z[:, 0]))
    assert np.isfinite(columns(z * 100, z[:, :2] * 100)).all()


def test_wide_features_are_reduced_to_principal_components(rng, monkeypatch) -> None:
    monkeypatch.setattr(ceiling_module, "ALL_COLUMNS", 8)
    monkeypatch.setattr(ceiling_module, "COMPONENTS", 4)
    z = rng.normal(size=(200, 10)) * np.linspace(5, 0.1, 10)
    assert Columns(z, z[:, :1], seed=0)(z, z[:, :1]).shape == (200, 4 + 4 + 1)


def test_the_best_learner_on_the_inner_split_is_chosen(rng) -> None:
    z = np.concatenate([rng.normal(size=(400, 3)), rng.normal(size=(400, 3)) + np.array([3, 0, 0])])
    is_ood = np.repeat([False, True], 400)
    columns = Columns(z, z[:, 1:2], seed=0)
    choice = best_learner(columns.learners(), columns(z, z[:, 1:2]), is_ood, rng, 0)
    model, name, reached = choice.model, choice.name, choice.reached
    assert reached[name] == max(reached.values()) > 0.95
    assert reached["best estimator"] < 0.6
    scores = model.decision_function(columns(z, z[:, 1:2]))
    assert auroc(scores[~is_ood], scores[is_ood]).value > 0.95
