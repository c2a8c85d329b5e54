"""Many estimators in one pass give what each gives alone."""

import numpy as np
import pytest

from softscope import FeatureSet, Head, SoftscopeError
from softscope.estimators import ESTIMATORS, NearestNeighbours, NNGuide, estimator, logits, uncertainties


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    head = Head(rng.normal(size=(5, 12)), rng.normal(size=5))
    labels = rng.integers(0, 5, 300)
    z = np.maximum(2 * head.weight[labels] + rng.normal(size=(300, 12)), 0).astype(np.float32)
    names = [name for name in ESTIMATORS if name not in ("density", "kde")]
    return head, {name: estimator(name).fit(head, (z, labels)) for name in names}, z


@pytest.mark.parametrize("compiled", [False, True])
def test_every_score_is_what_it_is_alone(world, monkeypatch, compiled):
    _, fitted, z = world
    monkeypatch.setattr(logits, "COMPILE_ROWS", 0 if compiled else 10**9)
    joint = uncertainties(fitted, z)
    assert list(joint) == list(fitted)
    for name, item in fitted.items():
        # Neighbours are found by float32 products, which round otherwise on one BLAS thread.
        digits = 1e-6 if isinstance(item, NearestNeighbours | NNGuide) else 1e-9
        np.testing.assert_allclose(joint[name], item.uncertainty(z), rtol=digits, atol=digits, err_msg=name)


def test_entropies_at_several_temperatures_keep_their_own(world):
    head, _, z = world
    fitted = {str(t): estimator("cool", temperature=t).fit(head) for t in (3.0, 10.0)} | {
        "max": estimator("max").fit(head)
    }
    joint = uncertainties(fitted, z)
    for name, item in fitted.items():
        np.testing.assert_allclose(joint[name], item.uncertainty(z), rtol=1e-12, err_msg=name)


def test_a_row_that_cannot_be_scored_is_named(world):
    _, fitted, z = world
    bad = z.copy()
    bad[7, 3] = np.nan
    with pytest.raises(SoftscopeError, match="row 7"):
        uncertainties(fitted, FeatureSet(bad))
    bad[7, 3] = 3e38
    with pytest.raises(SoftscopeError, match="row 7 is too large"):
        uncertainties(fitted, FeatureSet(bad))


def test_estimators_of_two_heads_are_refused(world):
    head, fitted, z = world
    other = Head(head.weight + 1, head.bias)
    with pytest.raises(SoftscopeError, match="different heads"):
        uncertainties({"max": fitted["max"], "energy": estimator("energy").fit(other)}, z)


def test_no_estimators_no_scores(world):
    assert uncertainties({}, world[2]) == {}
