"""Classes of bounded confidence: the cap against its dual, closed forms and search; floor and cap on real features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope import Head
from softscope.estimators.softmax import log_odds
from softscope.geometry import auroc_cap, confidence_caps, largest_odds, loss_floor, optimal_structure, sandwich, stack
from softscope.metrics import auroc


def dual_odds(head, c, nonnegative=True):
    """min over shares p, sum_j p_j w_j >= w_c, of b_c - sum_j p_j b_j - H(p): the same number by another road."""
    from scipy.optimize import minimize

    others = np.delete(np.arange(head.n_classes), c)
    weight, bias = head.weight[others], head.bias[c] - head.bias[others]

    def value(p):
        return float(p @ bias + (p * np.log(np.maximum(p, 1e-300))).sum())

    kind = "ineq" if nonnegative else "eq"
    limits = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": kind, "fun": lambda p: p @ weight - head.weight[c]},
    ]
    best = np.inf
    for seed in range(6):
        start = np.random.default_rng(seed).dirichlet(np.ones(len(others)))
        solution = minimize(value, start, bounds=[(0, 1)] * len(others), constraints=limits, method="SLSQP")
        if solution.success:
            best = min(best, solution.fun)
    return best


@pytest.mark.parametrize("norm", [0.3, 1.0, 3.0, 10.0])
def test_the_middle_class_of_a_stack_has_the_cap_in_closed_form(norm):
    caps = confidence_caps(stack(3, 16, norm=norm, seed=4), nonnegative=False)
    assert caps == pytest.approx([1.0, 1 / (1 + 2 * np.exp(-norm / 2)), 1.0])


def test_a_class_that_no_nonnegative_features_favour_is_capped_at_chance():
    head = sandwich(3, 16)
    assert confidence_caps(head) == pytest.approx([1.0, 1.0, 1 / 3])
    assert confidence_caps(head, nonnegative=False) == pytest.approx([1.0, 1.0, 1.0])


def test_the_optimal_structure_bounds_no_class_where_features_have_both_signs():
    assert (confidence_caps(optimal_structure(5, 4), nonnegative=False) == 1.0).all()


@given(st.integers(0, 300))
def test_the_cap_is_the_optimum_of_the_dual_and_no_features_exceed_it(seed):
    rng = np.random.default_rng(seed)
    head = Head(rng.standard_normal((4, 2)) - 0.5, rng.standard_normal(4))
    z = np.exp(rng.uniform(-3, 3, (4000, 1))) * rng.random((4000, 2))
    logits = head.logits(z)
    for c in range(4):
        odds = largest_odds(head, c)
        reached = (logits[:, c] - np.logaddexp.reduce(np.delete(logits, c, axis=1), axis=1)).max()
        assert reached <= odds + 1e-9
        if np.isfinite(odds):
            assert odds == pytest.approx(dual_odds(head, c), abs=2e-3)
        else:
            assert reached > -5


def test_losses_and_aurocs_never_pass_the_floor_and_the_cap():
    rng = np.random.default_rng(0)
    head = stack(3, 4, norm=1.0)
    caps = confidence_caps(head)
    for _ in range(20):
        test, ood = (np.abs(rng.standard_normal((3000, 4))) * rng.uniform(0.2, 4) for _ in range(2))
        labels = rng.integers(0, 3, 3000)
        logits = head.logits(test)
        loss = (np.logaddexp.reduce(logits, axis=1) - logits[np.arange(3000), labels]).mean()
        assert loss >= loss_floor(caps, np.bincount(labels, minlength=3) / 3000)
        predicted = np.bincount(logits.argmax(axis=1), minlength=3) / 3000
        confidence = 1 / (1 + np.exp(log_odds(head.logits(ood))))
        assert (
            auroc(log_odds(logits), log_odds(head.logits(ood))).value <= auroc_cap(caps, predicted, confidence) + 1e-12
        )


def test_floor_and_cap_in_numbers():
    assert loss_floor([1 / 3, 1.0, 1.0], [0.3, 0.4, 0.3]) == pytest.approx(0.3 * np.log(3))
    assert auroc_cap([1 / 3, 1.0, 1.0], [0.3, 0.4, 0.3], [0.9, 0.8, 0.2, 0.34]) == pytest.approx(1 - 0.3 * 0.75)
