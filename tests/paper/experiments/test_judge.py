"""What is measured of a judged network, on heads and scores where the answer is known."""

import numpy as np
import pytest

from softscope.features import FeatureSet
from softscope.geometry import optimal_structure
from softscope.head import Head
from softscope.paper.experiments.judge import assumptions, flagged, source


def test_both_assumptions_hold_for_features_on_the_weights_of_an_optimal_structure() -> None:
    head = optimal_structure(5, 16, norm=3.0, seed=1)
    measured = assumptions(head, {"test": FeatureSet(np.repeat(head.weight, 3, axis=0) * 2)})
    for name in ("norm_spread", "bias_share", "cosine_deviation", "distance", "centred_distance"):
        assert measured["head"][name] == pytest.approx(0, abs=1e-6)
    assert measured["sets"]["test"] == pytest.approx({"largest": 1.0, "others_deviation": 0.0}, abs=1e-6)


def test_the_deviations_are_root_mean_squares(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(4, 6)), rng.normal(size=4))
    z = rng.normal(size=(30, 6))
    measured = assumptions(head, {"test": FeatureSet(z)})
    unit = head.weight / np.linalg.norm(head.weight, axis=1, keepdims=True)
    cosines = np.sort(z @ unit.T / np.linalg.norm(z, axis=1, keepdims=True), axis=1)
    pairs = (unit @ unit.T)[np.triu_indices(4, 1)]
    assert measured["sets"]["test"]["largest"] == pytest.approx(cosines[:, -1].mean())
    assert measured["sets"]["test"]["others_deviation"] == pytest.approx(
        np.sqrt(np.mean((cosines[:, :-1] + 1 / 3) ** 2))
    )
    assert measured["head"]["cosine_deviation"] == pytest.approx(np.sqrt(np.mean((pairs + 1 / 3) ** 2)))


def test_what_is_flagged_exceeds_t4s_threshold_and_no_interpolated_quantile() -> None:
    low = {"entropy": np.arange(20.0), "density": np.arange(20.0)}
    # 19.0 is the threshold: 19 of 20 test inputs lie below it. An interpolated 95 % quantile would be 18.05.
    high = {"entropy": np.array([18.5, 19.5, 18.5, 19.5]), "density": np.array([18.5, 18.5, 19.5, 19.5])}
    shares = {"both": 0.25, "softmax_only": 0.25, "density_only": 0.25, "neither": 0.25}
    assert flagged(low, high) == shares | {"thresholds": "held out"}


def test_a_step_is_named_by_the_source_of_its_functions() -> None:
    assert source(flagged) == source(flagged)
    assert source(flagged) != source(assumptions)
