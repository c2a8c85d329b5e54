"""The search: shared work gives what each setting gives alone, likelihoods compare, and nothing is computed twice."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate
from sklearn.mixture import GaussianMixture

from softscope import Density, FeatureSet, Head, SoftscopeError
from softscope.estimators.density import LOG_OFFSET, KernelDensity
from softscope.metrics import auroc, balanced
from softscope.mixture.gaussian import fit_mixture
from softscope.runs import Store
from softscope.tuning import Features, Sets, Setting, fitting, tune
from softscope.tuning.fitting import Bench, try_group
from softscope.tuning.search import _groups
from softscope.tuning.spaces import Space, split_rows

CLASSES, WIDTH = 3, 8
HEAD = Head(np.eye(CLASSES, WIDTH, dtype=np.float32))


def feature_set(rows, seed, shift=0.0, *, relu=True):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % CLASSES
    z = 3 * np.eye(CLASSES, WIDTH)[labels] + shift + rng.normal(size=(rows, WIDTH)) + 0.5
    return FeatureSet((np.maximum(z, 0) if relu else z).astype(np.float32), labels, name=f"rows{seed}")


def layer(*, relu=True, ood=True):
    far = {"far": feature_set(90, 3, 1.0, relu=relu), "near": feature_set(150, 4, 0.3, relu=relu)}
    return Sets(feature_set(400, 1, relu=relu), feature_set(120, 2, relu=relu), far if ood else {})


@pytest.fixture(scope="module")
def features():
    return Features(CLASSES, layer(), layer(relu=False))


@pytest.fixture(scope="module")
def search(features):
    return tune(features, settings=8, iterations=100)


def fit_part(sets, seed=0):
    return sets.train.take(split_rows(len(sets.train), seed)[0])


def test_every_setting_gives_what_density_gives_alone(features, search):
    for one in search.tried[::5]:
        sets = features.layer(one.setting.layer)
        alone = Density(**one.setting.arguments(WIDTH, 0)).fit(HEAD, fit_part(sets))
        known = alone.uncertainty(sets.test)
        for name, z in sets.ood.items():
            low, high = balanced(len(sets.test), len(z))
            expected = 100 * auroc(known[low], alone.uncertainty(z)[high]).value
            assert one.auroc[name] == pytest.approx(expected, abs=1e-9), one.setting
        if one.setting.transform == "none":
            assert one.test == pytest.approx(-known.mean(), rel=1e-9)
        assert one.components == len(alone.mixture_.weights)


def test_fewer_neurons_are_the_columns_that_density_draws(features):
    setting = Setting("em", 5, 1e-3, "after", "full", "none", "K")
    tried = try_group(Bench(features, seed=4, iterations=100), [setting])[0]
    alone = Density(**setting.arguments(WIDTH, 4)).fit(HEAD, fit_part(features.after, 4))
    assert alone.params()["neurons"] == 5
    assert tried.test == pytest.approx(-alone.uncertainty(features.after.test).mean(), rel=1e-9)


@pytest.mark.parametrize(("ours", "theirs"), [("full", "full"), ("diagonal", "diag"), ("spherical", "spherical")])
@pytest.mark.parametrize("ridge", [1e-1, 1e-5])
def test_one_component_agrees_with_scikit_learn_for_every_ridge(features, search, ours, theirs, ridge):
    tried = search.of(Setting("em", WIDTH, ridge, "after", ours, "none", "1"))
    rows = fit_part(features.after).array().astype(np.float64)
    peer = GaussianMixture(1, covariance_type=theirs, reg_covar=ridge).fit(rows)
    held_out = features.after.train.rows(split_rows(400, 0)[1]).astype(np.float64)
    assert tried.held_out == pytest.approx(peer.score(held_out), rel=1e-5)


def test_kernel_density_is_that_of_the_estimator(features, search):
    for one in search.kernels:
        if one.setting.bandwidth == 1.0:
            sets = features.layer(one.setting.layer)
            alone = KernelDensity(transform=one.setting.transform).fit(HEAD, fit_part(sets))
            assert one.bandwidth == pytest.approx(alone.bandwidth_)
            low, high = balanced(len(sets.test), len(sets.ood["far"]))
            expected = auroc(alone.uncertainty(sets.test)[low], alone.uncertainty(sets.ood["far"])[high]).value
            assert one.auroc["far"] == pytest.approx(100 * expected, abs=1e-9)


def test_the_likelihood_of_log_z_is_a_density_of_z():
    """In one dimension the density that log_likelihood reports integrates to 1 over z, and that of log z does not."""
    rng = np.random.default_rng(0)
    z = rng.gamma(3.0, size=(500, 1)).astype(np.float32) + np.float32(0.5)
    one = FeatureSet(z, np.zeros(500, np.int64))
    space = Space(Features(1, Sets(one, one, {})), "after", "log", 1, 0)
    mixture = fit_mixture(space.fit, np.zeros(len(space.fit), np.int64), iterations=0)

    def density(value, *, of_z):
        row = np.log(np.array([[value + LOG_OFFSET]]))
        log_q = mixture.log_density(row)
        return float(np.exp(space.log_likelihood(log_q, row) if of_z else log_q[0]))

    total, _ = integrate.quad(lambda value: density(value, of_z=True), 1e-6, 200, limit=200)
    assert total == pytest.approx(1.0, abs=1e-4)
    assert abs(integrate.quad(lambda value: density(value, of_z=False), 1e-6, 200, limit=200)[0] - 1) > 0.5


def test_log_z_of_features_below_zero_has_no_likelihood():
    search = tune(Features(CLASSES, layer(relu=False)), settings=1)
    assert {one.held_out is None for one in search.tried if one.setting.transform == "log"} == {True}
    assert search.by_likelihood.setting.transform == "none"


def test_choices_are_the_best_of_their_rule(search):
    assert search.by_auroc.mean_auroc == max(one.mean_auroc for one in search.tried)
    best = search.by_likelihood
    assert (best.setting.layer, best.setting.neurons) == ("after", WIDTH)
    own = [one for one in search.tried if one.setting.layer == "after"]
    assert best.held_out == max(one.held_out for one in own)
    assert search.paper.setting == Setting("em", WIDTH, 1e-5, "after", "full", "none", "K")
    assert 0 < search.zeros < 1
    assert (search.fitted, search.held_out) == (360, 40)


def test_a_choice_is_judged_on_the_set_that_it_was_not_made_on(search):
    names = list(search.tried[0].auroc)
    assert set(search.left_out) == (set(names) if len(names) > 1 else set())
    two = [replace(one, auroc={"a": 90.0 + place % 3, "b": 50.0 + place}) for place, one in enumerate(search.tried)]
    judged = replace(search, tried=tuple(two)).left_out
    assert judged["a"].auroc["b"] == max(one.auroc["b"] for one in two)
    assert judged["b"].auroc["a"] == 92.0


def test_plain_values_hold_the_setting_beside_what_came_of_it(search):
    told = search.paper.to_dict()
    assert told["components"] == "K"
    assert told["kept"] == CLASSES
    assert told["auroc"] == search.paper.auroc


def test_without_ood_sets_likelihood_decides():
    search = tune(Features(CLASSES, layer(ood=False)), settings=2)
    assert not search.has_ood
    assert search.by_likelihood.held_out is not None
    assert search.kernel.held_out == max(one.held_out for one in search.kernels)
    with pytest.raises(SoftscopeError, match="OOD"):
        _ = search.by_auroc


def test_a_search_continues_where_it_stopped_and_recomputes_nothing(features, tmp_path, monkeypatch):
    run = Store(tmp_path).run({"files": "these"}, kind="Tune")
    fits = []

    def counted(*given, **options):
        if len(fits) == 7:
            raise KeyboardInterrupt
        fits.append(options["ridge"])
        return original(*given, **options)

    original = fitting.fit_from
    monkeypatch.setattr(fitting, "fit_from", counted)
    with pytest.raises(KeyboardInterrupt):
        tune(features, settings=1, run=run)
    monkeypatch.setattr(fitting, "fit_from", lambda *a, **k: fits.append(k["ridge"]) or original(*a, **k))
    whole = tune(features, settings=1, run=run)
    assert len(fits) == len(whole.tried) == 24
    for name in ("fit_from", "held_out_bandwidth", "start", "Space"):
        monkeypatch.setattr(fitting, name, None)
    assert tune(features, settings=1, run=run) == whole


def test_ridges_and_fits_of_one_space_and_start_share_a_group(search):
    groups = _groups([one.setting for one in search.tried])
    assert len(groups) == 4 + 4 + 4
    ridges = {one.ridge for group in groups for one in group if group[0].space == ("after", "none", WIDTH)}
    assert ridges == {1e-1, 1e-3, 1e-5, 1e-7}


def test_draws_but_the_first_may_try_fewer_numbers_of_components(features):
    search = tune(features, settings=3, iterations=2, elsewhere=("K",))
    first = [one.setting for one in search.tried][:24]
    assert {one.components for one in first} == {"1", "K", "10", "100"}
    assert {one.setting.components for one in search.tried[24:]} == {"K"}


def test_rows_that_judge_are_spread_over_the_set(features):
    space = Space(features, "after", "none", WIDTH, 0, judged=50)
    assert len(space.test) == len(space.ood["far"]) == 50
    whole = features.after.test.array()
    np.testing.assert_array_equal(space.test[[0, -1]], whole[[0, -1]])
    assert len(Space(features, "after", "none", WIDTH, 0, judged=500).test) == len(whole)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"train": FeatureSet(np.ones((50, WIDTH), np.float32))}, "no labels"),
        ({"train": feature_set(12, 1)}, "12 rows"),
        ({"test": FeatureSet(np.ones((50, WIDTH + 1), np.float32))}, "9 columns"),
        ({"train": FeatureSet(np.ones((50, WIDTH), np.float32), np.full(50, 7))}, "label 7"),
    ],
)
def test_sets_that_do_not_belong_together_are_refused(change, expected):
    with pytest.raises(SoftscopeError, match=expected):
        tune(Features(CLASSES, replace(layer(), **change)))


def test_layers_of_different_inputs_are_refused():
    other = replace(layer(relu=False), test=feature_set(77, 2))
    with pytest.raises(SoftscopeError, match="77 rows before the non-linearity, 120 after"):
        tune(Features(CLASSES, layer(), other))
