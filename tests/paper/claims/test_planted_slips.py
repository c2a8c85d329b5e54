"""A check that can't fail is worth nothing: for each claim, slips planted in its formula or its rows turn it red."""

import numpy as np
import pytest

from softscope.geometry import (
    EllipsoidRegion,
    KnownMixture,
    confidence_caps,
    ellipsoid_region,
    entropy_field,
    linear_region,
    max_field,
    random_structure,
    slab_offset,
    valid_threshold,
)
from softscope.geometry.regions import projection
from softscope.paper.claims import (
    CONTRADICTED,
    REGISTER,
    find,
    gradients,
    learning,
    optimum,
    order,
    printed,
    regions,
    stands,
)
from softscope.paper.claims.evidence import rows_of


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


def one_tail_offset(head, mixture, epsilon):
    """T5 without each class's far tail: for most mixtures no offset leaves a share 1 - epsilon outside."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    seen = projection(head, mixture)

    def excess(alpha):
        return float(seen.weights @ norm.sf((alpha * seen.squared_norm - seen.means) / seen.deviations)) - 1 + epsilon

    return brentq(excess, 0.0, 100.0)


def t13_with(factor=np.pi / 8, second=1.0):
    """T13 with another factor for pi/8, or with `second` times the term w_j'S w_j."""

    def formula(weight, mu, covariance, i):
        spread = np.einsum("kh,hg,kg->k", weight, covariance, weight)
        exponents = -(weight[i] @ mu - weight @ mu) / np.sqrt(1 + factor * (spread[i] + second * spread))
        return float(1 / (1 + np.exp(np.delete(exponents, i)).sum()))

    return formula


def changed(claim_id, **columns):
    """The claim's own rows of trained networks, with some columns replaced."""
    return [{**row, **columns} for row in rows_of(claim_id)]


def scaled(claim_id, column, factor):
    return [{**row, column: factor * row[column]} for row in rows_of(claim_id)]


MISPRINTED = {**printed.STANDARD, "svhn": (90.7, 90.9, 90.9, 93.2, 0.0, 3.2, 6.8)}
FALLING = [{"network": "a", "ood": "b", "networks": 5, "rises": [-0.2, -0.1, -0.3, -0.2, -0.1]}]
ALIGNED = [{"network": str(n), "epochs": 100, "largest_cosine": 0.5 + 0.01 * n} for n in range(5)]
SPOILED = [
    {"ambiguous": 0.0, "density": [97.0, 96.5, 97.2, 96.8, 97.1], "entropy": [96.0, 95.5, 96.1, 95.9, 96.2]},
    {"ambiguous": 0.5, "density": [96.9, 96.6, 97.1, 96.9, 97.0], "entropy": [80.0, 81.0, 79.5, 80.5, 80.2]},
]
SPOILED = [{**row, "spreads": [0.02, 0.03, 0.02, 0.01, 0.02]} for row in SPOILED]
UNEXPLAINED = [line for line in printed.reported() if "pre-train" not in str(line["scores"])]

# What makes a claim's check quick; then every slip it has to turn red: the claim, what is wrong, how it is planted.
QUICK = {
    "T1": {"trials": 3},
    "T2": {"trials": 3},
    "T3": {"trials": 40},
    "T4": {"trials": 50},
    "T5": {"trials": 10},
    "T6": {"trials": 80},
    "T7": {"trials": 2},
    "T8": {"trials": 20},
    "T9": {"trials": 20},
    "T10": {"trials": 60},
    "T11": {"points": 200_000},
    "T12": {"starts": 1, "sizes": (2, 3, 4)},
    "T14": {"trials": 20},
    "T15": {"pairs": 20_000},
    "T16": {"pairs": 20_000},
    "T17": {"structures": 100},
    "T18": {"pairs": 1000},
    "T21": {"trials": 4},
    "T22": {"trials": 20},
    "T27": {"trials": 20},
    "S1": {"pairs": 5000},
    "S2": {"points": 2000},
}
SLIPS = [
    ("T1", "sign of the gradient", {"formula": lambda head, z: -max_field(head, z)}),
    ("T1", "gradient of another score", {"formula": entropy_field}),
    ("T2", "gradient of another score", {"formula": max_field}),
    ("T3", "no normaliser, as printed", {"formula": unnormalised_density_field}),
    ("T4", "an interpolated quantile", {"formula": lambda u, epsilon: float(np.quantile(u, 1 - epsilon))}),
    ("T4", "epsilon off by 0.01", {"formula": lambda u, epsilon: valid_threshold(u, min(1.0, epsilon + 0.01))}),
    ("T5", "half width 10 % too large", {"formula": lambda h, mixture, e: 1.1 * slab_offset(h, mixture, e)}),
    ("T5", "one tail only, which has no solution", {"formula": one_tail_offset}),
    ("T6", "class 1 in both terms, as printed", {"formula": regions.PRINTED_COVERAGES[0]}),
    ("T6", "class 2 in both terms, as printed", {"formula": regions.PRINTED_COVERAGES[1]}),
    ("T7", "each ellipsoid at its own level", {"formula": equal_chi_square_sizes}),
    ("T7", "Sigma for its inverse, as printed", {"formula": regions.printed_ellipsoids}),
    ("T7", "twice epsilon", {"formula": lambda mixture, epsilon: ellipsoid_region(mixture, 2 * epsilon)}),
    ("T8", "region 1 % too wide", {"formula": lambda head, t: linear_region(head, 1.01 * t)}),
    ("T8", "norm for its square", {"offset": lambda wi, wj, t: t / np.linalg.norm(wi - wj)}),
    ("T8", "twice the offset", {"offset": lambda wi, wj, t: 2 * t / ((wi - wj) @ (wi - wj))}),
    ("T9", "threshold off by 0.001", {"formula": lambda head, t: linear_region(head, t + 1e-3)}),
    ("T10", "rate of the farthest class", {"rate": lambda leads: float(leads.max())}),
    ("T10", "half the rate", {"rate": lambda leads: 0.5 * float(leads.min())}),
    ("T11", "bound too low by 0.1 %", {"bound": lambda gap: 1 / (1 + 1.001 * np.exp(-gap))}),
    ("T11", "a bound nobody reaches", {"bound": lambda gap: 0.5 + 0 * gap}),
    ("T12", "cosine -1/K", {"cosine": lambda k: -1.0 / k}),
    ("T12", "bound too high by 0.01", {"bound": lambda *args: optimum.least_cross_entropy(*args) + 0.01}),
    ("T13", "sign of the exponent, as printed", {"formula": optimum.printed_mean_softmax}),
    ("T13", "pi/4 for pi/8", {"formula": t13_with(factor=np.pi / 4)}),
    ("T13", "without w_j'S w_j", {"formula": t13_with(second=0.0)}),
    ("T14", "the largest logit for U_max", {"score": lambda logits: logits.max(axis=1)}),
    ("T15", "another order", {"statistic": lambda cosines: -cosines.min(axis=1)}),
    ("T15", "sign of the derivative, as printed", {"derivative": lambda theta, c: -order.slope_in_plane(theta, c)}),
    ("T16", "another order", {"statistic": lambda cosines: -cosines.min(axis=1)}),
    ("T17", "a random structure for the optimal one", {"optimal": random_weights}),
    ("T18", "the largest logit for s_max", {"score": lambda logits: -logits.max(axis=1)}),
    ("T19", "familiarity alone", {"exponent": lambda familiarity, k: familiarity}),
    ("T19", "networks that disagree with it", {"rows": changed("T19", spearman=-0.5)}),
    ("T20", "cause 2 from B", {"rule": lambda b, c, d: (c - b, d - b, 100 - d)}),
    ("T20", "a second misprint", {"standard": MISPRINTED}),
    ("T21", "the sign of the density", {"density": lambda mixture, z: mixture.log_density(z)}),
    ("T21", "thresholds at 20 %", {"threshold": lambda u, epsilon: valid_threshold(u, 0.2)}),
    ("T22", "a network that is not homogeneous", {"activation": np.tanh}),
    ("T22", "LeNets that lose confidence", {"rows": changed("T22", gaining=40.0)}),
    ("T23", "networks for which entropy is worse", {"rows": changed("T23", difference=-0.01, low=-0.02, high=-0.001)}),
    ("T24", "shares below both limits", {"rows": changed("T24", equal_share=0.0001)}),
    ("T25", "a skew to the negative", {"rows": scaled("T25", "skewness", -1.0)}),
    ("T26", "entropy that falls", {"rows": FALLING}),
    ("T27", "sign of one gradient", {"max_gradient": lambda head, z: -max_field(head, z)}),
    ("T27", "sign of the other", {"entropy_gradient": lambda head, z: -entropy_field(head, z)}),
    ("T28", "the mean left out", {"cosine": lambda mean, norms: learning.predicted_cosine(0.0, norms)}),
    ("T28", "decay without momentum", {"kept": lambda recipe, steps: (1 - recipe.rate * recipe.decay) ** steps}),
    ("T29", "caps 10 % too low", {"caps": lambda head: 0.9 * confidence_caps(head)}),
    ("T29", "features of both signs", {"caps": lambda head: confidence_caps(head, nonnegative=False)}),
    ("T30", "cosines of one half after 100 epochs", {"rows": ALIGNED}),
    ("T31", "norms that rise", {"rows": changed("T31", norm=40.0)}),
    ("T31", "familiarity by chance", {"rows": changed("T31", familiarity=50.0)}),
    ("T32", "a line left out", {"lines": UNEXPLAINED}),
    ("T32", "an exception above 7 points", {"high": 7.0}),
    ("T33", "no noise above the median digit", {"rows": changed("T33", above_digit=1e-4)}),
    ("T33", "finds that look like any class", {"rows": changed("T33", p_value=0.4)}),
    ("T34", "softmax spoiled for density", {"rows": SPOILED}),
    ("S1", "the sum alone", {"precedes": lambda a, b: a.sum(axis=1) <= b.sum(axis=1)}),
    ("S1", "the smallest gap alone", {"precedes": lambda a, b: a[:, 0] <= b[:, 0]}),
    ("S2", "familiarity alone", {"exponent": lambda familiarity, k: familiarity}),
    ("S2", "the mental model for the bound", {"exponent": order.mental_exponent}),
]


@pytest.mark.parametrize("claim_id", [claim.id for claim in REGISTER])
def test_the_right_formula_stands(claim_id):
    claim = find(claim_id)
    outcome = claim.check(**QUICK.get(claim_id, {}))
    assert stands(claim, outcome), outcome.summary


@pytest.mark.parametrize(("claim_id", "wrong", "planted"), SLIPS, ids=[f"{slip[0]}-{slip[1]}" for slip in SLIPS])
def test_every_planted_slip_turns_its_claim_red(claim_id, wrong, planted):
    claim = find(claim_id)
    outcome = claim.check(**QUICK.get(claim_id, {}), **planted)
    assert not stands(claim, outcome)
    if not {"rows"} & planted.keys():
        assert outcome.verdict == CONTRADICTED
        assert outcome.numbers["failed"]


def test_every_claim_has_a_planted_slip():
    assert {slip[0] for slip in SLIPS} == {claim.id for claim in REGISTER}
    assert len(SLIPS) >= 20


def test_the_printed_gradients_of_softmax_uncertainties_hold_word_for_word():
    assert gradients.check_max(formula=literal_max_field, trials=5).verdict == "holds"
    assert gradients.check_entropy(formula=literal_entropy_field, trials=5).verdict == "holds"
