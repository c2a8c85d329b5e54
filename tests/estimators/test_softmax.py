"""E1-E3, margin, max-logit, energy: against 50-digit arithmetic, scipy, and their own properties."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp
from scipy.stats import entropy as scipy_entropy
from sklearn.metrics import roc_auc_score

from softscope.estimators import softmax as sm


def exact(logits, temperature=1):
    """(1 - s_1, entropy, energy) of one row of logits / temperature, in 50 digits."""
    values = sorted((mpmath.mpf(float(v)) for v in logits), reverse=True)
    depths = [(values[0] - v) / temperature for v in values[1:]]
    powers = [mpmath.exp(-d) for d in depths]
    rest = mpmath.fsum(powers)
    spread = mpmath.log1p(rest) + mpmath.fsum(d * p for d, p in zip(depths, powers)) / (1 + rest)
    return rest / (1 + rest), spread, -(values[0] / temperature + mpmath.log1p(rest))


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def saturated_logits(rows=400, classes=10, seed=0):
    """Float32 logits with margins of 20 to 120; the second half of the rows (OOD) has most of the small margins."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 0.1, (rows, classes)).astype(np.float32)
    margins = np.concatenate([rng.uniform(20, 120, rows // 2), np.minimum(20 + rng.exponential(15, rows // 2), 120)])
    logits[:, 0] = logits[:, 1:].max(axis=1) + margins.astype(np.float32)
    return rng.permuted(logits, axis=1), np.repeat([0, 1], rows // 2)


def orders_alike(scores, values):
    """Whether every pair is ordered by `scores` as by the 50-digit `values`, ties included."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranked = [values[i] for i in order]
    steps = np.diff(scores[order])
    return all((step > 0) if high > low else (step == 0) for step, low, high in zip(steps, ranked, ranked[1:]))


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_pair_of_saturated_rows_is_ordered_as_in_fifty_digits(classes, seed):
    logits, _ = saturated_logits(rows=400 if classes < 100 else 120, classes=classes, seed=seed)
    values = [exact(row) for row in logits]
    assert orders_alike(sm.log_odds(logits), [v[0] for v in values])
    assert orders_alike(sm.log_entropy(logits), [v[1] for v in values])
    assert orders_alike(sm.log_entropy(logits, 10.0), [exact(row, 10)[1] for row in logits])


def test_plain_float32_leaves_a_handful_of_values_where_the_rank_form_keeps_the_order():
    logits, ood = saturated_logits(rows=4000, classes=800)
    plain, rank = sm.plain_max(logits), sm.log_odds(logits)
    assert plain.dtype == np.float32
    assert 2 <= len(np.unique(plain)) <= 12
    assert len(np.unique(rank)) == len(logits)
    assert roc_auc_score(ood, plain) == pytest.approx(0.56, abs=0.02)
    assert roc_auc_score(ood, rank) > 0.8


@pytest.mark.parametrize(("dtype", "margins", "relative"), [
    (np.float32, np.linspace(0, 80, 33), 2e-7),
    (np.float64, np.linspace(0, 680, 69), 2e-13),
])  # fmt: skip
def test_entropy_is_accurate_down_to_the_smallest_normal_number(dtype, margins, relative):
    rng = np.random.default_rng(3)
    logits = np.sort(rng.normal(0, 1, (len(margins), 7)), axis=1).astype(dtype)
    logits[:, -1] = logits[:, -2] + margins.astype(dtype)
    entropies = sm.entropy(logits)
    assert entropies.dtype == dtype
    for row, value in zip(logits, entropies):
        true = exact(row)[1]
        assert abs(mpmath.mpf(float(value)) - true) <= relative * true


@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 300.0, 3000.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 10.0])
def test_rank_forms_equal_the_logarithms_of_the_exact_values(spread, temperature):
    logits = np.random.default_rng(5).normal(0, spread, (40, 6)).astype(np.float32)
    for row, odds, heat, cold, pull in zip(
        logits, sm.log_odds(logits), sm.log_entropy(logits), sm.log_entropy(logits, temperature), sm.energy(logits)
    ):
        rest, spread_, energy = exact(row)
        assert odds == pytest.approx(float(mpmath.log(rest / (1 - rest))), rel=1e-13, abs=1e-13)
        assert heat == pytest.approx(float(mpmath.log(spread_)), rel=1e-13, abs=1e-13)
        assert cold == pytest.approx(float(mpmath.log(exact(row, temperature)[1])), rel=1e-13, abs=1e-13)
        assert pull == pytest.approx(float(energy), rel=1e-13, abs=1e-13)


def test_values_agree_with_scipy_where_nothing_saturates():
    logits = np.random.default_rng(6).normal(0, 2, (200, 12))
    s = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    np.testing.assert_allclose(sm.softmax(logits), s, rtol=1e-13)
    np.testing.assert_allclose(sm.plain_max(logits), -s.max(axis=1), rtol=1e-13)
    np.testing.assert_allclose(sm.entropy(logits), scipy_entropy(s, axis=1), rtol=1e-12)
    np.testing.assert_allclose(sm.plain_entropy(logits), scipy_entropy(s, axis=1), rtol=1e-12)
    np.testing.assert_allclose(sm.energy(logits), -logsumexp(logits, axis=1), rtol=1e-13)
    np.testing.assert_allclose(sm.max_logit(logits), -logits.max(axis=1))
    two = np.sort(logits, axis=1)[:, -2:]
    np.testing.assert_allclose(sm.margin(logits), two[:, 0] - two[:, 1])


def test_cool_divides_every_logit_by_the_temperature():
    logits = np.random.default_rng(7).normal(0, 20, (50, 5))
    np.testing.assert_allclose(np.exp(sm.log_entropy(logits, 10.0)), sm.entropy(logits / 10.0), rtol=1e-12)
    np.testing.assert_allclose(sm.plain_entropy(logits, 10.0), sm.entropy(logits / 10.0), rtol=1e-10)


def test_equal_logits_give_the_largest_entropy_and_even_odds():
    logits = np.zeros((1, 4), np.float32)
    assert sm.entropy(logits)[0] == pytest.approx(np.log(4), rel=1e-7)
    assert sm.log_odds(logits)[0] == pytest.approx(np.log(3), rel=1e-15)


rows = arrays(np.float32, (2, 5), elements=st.floats(-2000, 2000, width=32))


@settings(max_examples=200)
@given(rows)
def test_rank_forms_are_finite_and_never_contradict_the_plain_values(logits):
    for rank, plain in [
        (sm.log_odds(logits), sm.plain_max(logits.astype(np.float64))),
        (sm.log_entropy(logits), sm.entropy(logits.astype(np.float64))),
        (sm.log_entropy(logits, 10.0), sm.entropy(logits.astype(np.float64) / 10.0)),
    ]:
        assert np.isfinite(rank).all()
        if plain[0] < plain[1] - 1e-12 * abs(plain[1]):
            assert rank[0] < rank[1] + 1e-12


@settings(max_examples=100)
@given(rows, st.floats(-1000, 1000, width=32), st.permutations(range(5)))
def test_softmax_scores_ignore_a_common_shift_and_the_order_of_classes(logits, shift, order):
    wide = logits.astype(np.float64)
    for score in (sm.log_odds, sm.log_entropy, sm.margin):
        np.testing.assert_allclose(score(wide[:, order] + shift), score(wide), rtol=1e-9, atol=1e-9)
