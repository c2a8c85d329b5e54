"""A check that can't fail is worth nothing: for each claim, a deliberately wrong formula is found out."""

import numpy as np
import pytest

from softscope.geometry import KnownMixture, ellipsoid_region, linear_region, slab_offset
from softscope.geometry.fields import entropy_field, max_field
from softscope.geometry.regions import EllipsoidRegion, valid_threshold
from softscope.geometry.structures import random_structure
from softscope.paper.claims import (
    CONTRADICTED,
    REGISTER,
    find,
    flags,
    gradients,
    integral,
    optimum,
    order,
    sharper,
    slabs,
    stands,
    table,
)


def literal_max_field(head, z):
    """T1 exactly as printed: s_i sum_j s_j (w_j - w_i)."""
    s = np.exp(head.logits(z))
    s = s / s.sum(axis=1, keepdims=True)
    lead = s.argmax(axis=1)
    return np.stack(
        [p[i] * sum(p[j] * (head.weight[j] - head.weight[i]) for j in range(len(p))) for p, i in zip(s, lead)]
    )


def literal_entropy_field(head, z):
    """T2 exactly as printed: sum_i (log s_i + 1) s_i sum_j s_j (w_j - w_i)."""
    s = np.exp(head.logits(z))
    s = s / s.sum(axis=1, keepdims=True)
    w = head.weight
    return np.stack([sum((np.log(p[i]) + 1) * p[i] * (p @ w - w[i]) for i in range(len(p))) for p in s])


def unnormalised_density_field(weights, means, covariances, z):
    """T3 as printed, scaled by its own density."""
    mixture = KnownMixture(weights, means, covariances)
    return gradients.printed_density_field(mixture, z)


def equal_chi_square_sizes(mixture, epsilon):
    """Each ellipsoid holds 1 - epsilon of its own component: levels differ between components."""
    from scipy.stats import chi2

    return EllipsoidRegion(mixture, np.full(len(mixture.weights), chi2.isf(epsilon, mixture.n_features)))


def random_weights(classes, features):
    return random_structure(classes, features, seed=5).weight


MISPRINTED = {**table.STANDARD, "svhn": (90.7, 90.9, 90.9, 93.2, 0.0, 3.2, 6.8)}
WORSE = [{"difference": -0.01, "low": -0.02, "high": -0.001}] * 3

# For each claim: sizes that make its check quick, then every wrong formula it has to find out.
WRONG = {
    "T1": ({"trials": 3}, [{"formula": lambda head, z: -max_field(head, z)}, {"formula": entropy_field}]),
    "T2": ({"trials": 3}, [{"formula": max_field}]),
    "T3": ({"trials": 40}, [{"formula": unnormalised_density_field}]),
    "T4": (
        {"trials": 50},
        [
            {"formula": lambda u, epsilon: float(np.quantile(u, 1 - epsilon))},
            {"formula": lambda u, epsilon: valid_threshold(u, min(1.0, epsilon + 0.01))},
        ],
    ),
    "T5": ({"trials": 10}, [{"formula": lambda head, mixture, epsilon: 1.1 * slab_offset(head, mixture, epsilon)}]),
    "T6": ({"trials": 80}, [{"formula": printed} for printed in slabs.PRINTED_COVERAGES]),
    "T7": (
        {"trials": 2},
        [
            {"formula": equal_chi_square_sizes},
            {"formula": flags.printed_ellipsoids},
            {"formula": lambda mixture, epsilon: ellipsoid_region(mixture, 2 * epsilon)},
        ],
    ),
    "T8": (
        {"trials": 20},
        [
            {"formula": lambda head, t: linear_region(head, 1.01 * t)},
            {"offset": lambda wi, wj, t: t / np.linalg.norm(wi - wj)},
            {"offset": lambda wi, wj, t: 2 * t / ((wi - wj) @ (wi - wj))},
        ],
    ),
    "T9": ({"trials": 20}, [{"formula": lambda head, t: linear_region(head, t + 1e-3)}]),
    "T10": (
        {"trials": 60},
        [{"rate": lambda leads: float(leads.max())}, {"rate": lambda leads: 0.5 * float(leads.min())}],
    ),
    "T11": (
        {"points": 200_000},
        [{"bound": lambda gap: 1 / (1 + 1.001 * np.exp(-gap))}, {"bound": lambda gap: 0.5 + 0 * gap}],
    ),
    "T12": (
        {"starts": 1, "sizes": (2, 3, 4)},
        [{"cosine": lambda k: -1.0 / k}, {"bound": lambda *args: optimum.least_cross_entropy(*args) + 0.01}],
    ),
    "T13": ({}, [{"formula": integral.printed_mean_softmax}]),
    "T14": ({"trials": 20}, [{"score": lambda logits: logits.max(axis=1)}]),
    "T15": (
        {"pairs": 20_000},
        [
            {"statistic": lambda cosines: -cosines.min(axis=1)},
            {"derivative": lambda theta, c: -order.slope_in_plane(theta, c)},
        ],
    ),
    "T16": ({"pairs": 20_000}, [{"statistic": lambda cosines: -cosines.min(axis=1)}]),
    "T17": ({"structures": 100}, [{"optimal": random_weights}]),
    "T18": ({"pairs": 1000}, [{"score": lambda logits: -logits.max(axis=1)}]),
    "T19": ({}, [{"exponent": lambda familiarity, k: familiarity}, {"rows": [{"spearman": -0.5}]}]),
    "T20": ({}, [{"rule": lambda b, c, d: (c - b, d - b, 100 - d)}, {"standard": MISPRINTED}]),
    "T21": ({"trials": 4}, [{"density": lambda mixture, z: mixture.log_density(z)}]),
    "T22": ({"trials": 20}, [{"activation": np.tanh}]),
    "T23": ({}, [{"rows": WORSE}]),
    "T24": ({}, [{"rows": [{"network": "ResNet18", "equal_share": 0.7}]}]),
    "T25": ({}, [{"rows": [{"classes": 100, "skewness": -0.4}]}]),
    "T26": ({}, [{"rows": [{"entropy_in": 0.4, "entropy_out": 0.1}]}]),
    "T27": (
        {"trials": 20},
        [
            {"max_gradient": lambda head, z: -max_field(head, z)},
            {"entropy_gradient": lambda head, z: -entropy_field(head, z)},
        ],
    ),
    "S1": (
        {"pairs": 5000},
        [{"precedes": lambda a, b: a.sum(axis=1) <= b.sum(axis=1)}, {"precedes": lambda a, b: a[:, 0] <= b[:, 0]}],
    ),
    "S2": (
        {"points": 2000},
        [{"exponent": lambda familiarity, k: familiarity}, {"exponent": sharper.mental_exponent}],
    ),
}


@pytest.mark.parametrize("claim_id", [claim.id for claim in REGISTER])
def test_the_right_formula_stands_and_a_wrong_one_is_found_out(claim_id):
    claim, (sizes, wrong) = find(claim_id), WRONG[claim_id]
    assert stands(claim, claim.check(**sizes))
    for formula in wrong:
        found = claim.check(**sizes, **formula)
        assert found.verdict == CONTRADICTED
        assert found.numbers["failed"]
        assert not stands(claim, found)


def test_the_printed_gradients_of_softmax_uncertainties_hold_word_for_word():
    assert gradients.check_max(formula=literal_max_field, trials=5).verdict == "holds"
    assert gradients.check_entropy(formula=literal_entropy_field, trials=5).verdict == "holds"
