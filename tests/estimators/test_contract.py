"""The contract that every registered estimator keeps."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from softscope.errors import SoftscopeError
from softscope.estimators import (
    DEFAULT,
    ESTIMATORS,
    UNLABELLED_DEFAULT,
    Estimator,
    Info,
    default_estimator,
    estimator,
    estimator_class,
    register,
)
from softscope.features import FeatureSet
from softscope.head import Head

ROWS = 300
# Scores made by float32 products move by their rounding when BLAS gets another shape; those of the logits never do.
EXACT = ("max", "entropy", "cool", "margin", "max-logit", "energy")
# Densities, and distances from training rows, their classes or their subspace.
OF_DIRECTIONS = {
    *("density", "kde", "knn", "residual", "mahalanobis", "relative-mahalanobis", "mahalanobis++"),
    "relative-mahalanobis++",
}


@pytest.fixture(params=ESTIMATORS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def world():
    """A head, training features that lie along its weights, cut off below 0 as by a ReLU, and test rows of that law."""
    rng = np.random.default_rng(4)
    weight = rng.normal(size=(4, 12)).astype(np.float32)
    head = Head(weight, 0.1 * rng.normal(size=4))
    labels = rng.integers(0, 4, 900)
    z = np.maximum(1.5 * weight[labels] + 0.5 * rng.normal(size=(900, 12)), 0).astype(np.float32)
    return head, FeatureSet(z[ROWS:], labels[ROWS:], name="train"), z[:ROWS]


@pytest.fixture
def fitted(name, world):
    head, train, _ = world
    return estimator(name).fit(head, train)


@pytest.fixture
def z(world):
    return world[2]


def assert_same(name, ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=0, atol=0 if name in EXACT else 1e-5 * np.abs(expected).max())


def test_scores_are_finite_float64_one_a_row(fitted, z):
    scores = fitted.uncertainty(z)
    assert scores.dtype == np.float64
    assert scores.shape == (ROWS,)
    assert np.isfinite(scores).all()


def test_plain_scores_are_finite_float32_and_never_contradict_the_rank(fitted, z):
    plain = fitted.plain(z)
    assert plain.dtype == np.float32
    assert plain.shape == (ROWS,)
    assert np.isfinite(plain).all()
    by_rank = plain[np.argsort(fitted.uncertainty(z))].astype(np.float64)
    assert (np.diff(by_rank) >= -4e-6 * np.abs(by_rank).max()).all()


def test_float64_rows_and_feature_sets_score_like_float32_arrays(fitted, z):
    scores = fitted.uncertainty(z)
    scale = np.abs(scores).max()
    np.testing.assert_allclose(fitted.uncertainty(z.astype(np.float64)), scores, atol=2e-5 * scale)
    np.testing.assert_array_equal(fitted.uncertainty(FeatureSet(z)), scores)
    np.testing.assert_array_equal(fitted.uncertainty(z.tolist()), fitted.uncertainty(z.astype(np.float64)))


def test_any_memory_layout_scores_alike(fitted, name, z):
    wide = np.repeat(z, 2, axis=1)[:, ::2]
    for same in (np.asfortranarray(z), wide, z[::-1][::-1]):
        assert_same(name, fitted.uncertainty(same), fitted.uncertainty(z))


def test_a_row_scores_the_same_whatever_rows_stand_beside_it(fitted, name, z):
    whole = fitted.uncertainty(z)
    for size in (1, 7, 100):
        parts = np.concatenate([fitted.uncertainty(z[start : start + size]) for start in range(0, 100, size)])
        assert_same(name, parts[:100], whole[:100])


def test_the_chunk_size_changes_nothing(fitted, name, z, monkeypatch):
    whole = fitted.uncertainty(z)
    monkeypatch.setattr("softscope.arrays.chunk_rows.__defaults__", (8, 1000))
    monkeypatch.setattr("softscope.estimators.logits._TASK_BYTES", 1000)
    monkeypatch.setattr("softscope.estimators.logits._LOGIT_BYTES", 100)
    assert_same(name, fitted.uncertainty(z), whole)


def test_the_chunks_that_training_rows_come_in_change_nothing(fitted, name, world, z, monkeypatch):
    whole = fitted.uncertainty(z)
    monkeypatch.setattr("softscope.features.feature_set.chunk_rows", lambda *_: 97)
    assert_same(name, estimator(name).fit(world[0], world[1]).uncertainty(z), whole)


def test_all_that_measure_a_density_or_a_distance_can_normalise():
    known = {name for name in ESTIMATORS if "normalise" in inspect.signature(estimator_class(name)).parameters}
    assert known == OF_DIRECTIONS


@pytest.mark.parametrize("name", sorted(OF_DIRECTIONS))
def test_normalised_scores_read_nothing_but_the_direction(name, world, z):
    head, train, _ = world
    sizes = np.exp(np.random.default_rng(2).uniform(-5, 5, (900, 1))).astype(np.float32)
    resized = FeatureSet(sizes[ROWS:] * train.array(), train.labels)
    expected = estimator(name, normalise=True).fit(head, train).uncertainty(z)
    scores = estimator(name, normalise=True).fit(head, resized).uncertainty(sizes[:ROWS] * z)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "density"])
def test_the_unit_of_the_features_does_not_change_the_order(name, world, z):
    """But for `density`: the paper's ridge has a unit."""
    head, train, _ = world
    expected = estimator(name).fit(head, train).uncertainty(z)
    for unit in (2.0**-10, 2.0**10):
        other = estimator(name).fit(Head(head.weight / unit, head.bias), (unit * train.array(), train.labels))
        places = [np.argsort(np.argsort(scores)) for scores in (expected, other.uncertainty(unit * z))]
        assert np.abs(places[0] - places[1]).max() <= 1, "neighbours may change places by rounding"


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "kl-matching"])
def test_no_rows_tie_where_the_softmax_is_exactly_one(name, world, z):
    head, train, _ = world
    strong = Head(1000 * head.weight, head.bias)
    assert (estimator("max").fit(strong).plain(z) == -1).mean() > 0.9
    assert len(np.unique(estimator(name).fit(strong, train).uncertainty(z))) == ROWS


def test_permuted_rows_give_permuted_scores(fitted, name, z):
    order = np.random.default_rng(0).permutation(ROWS)
    assert_same(name, fitted.uncertainty(z[order]), fitted.uncertainty(z)[order])


def test_strange_rows_are_more_uncertain_than_those_of_the_training_law(fitted, name, z):
    noise = np.random.default_rng(1).normal(size=z.shape).astype(np.float32)
    if name in ("density", "kde", "mahalanobis", "relative-mahalanobis", "vim", "residual"):
        strange = z + 30 * noise
    elif name in ("knn", "familiarity"):  # only the direction counts
        strange = -z
    else:
        strange = 0.1 * noise
    assert np.median(fitted.uncertainty(strange)) > np.quantile(fitted.uncertainty(z), 0.9)


def test_fitting_and_scoring_twice_give_the_same_numbers(name, world, z):
    head, train, _ = world
    first, second = (estimator(name).fit(head, train) for _ in range(2))
    np.testing.assert_array_equal(first.uncertainty(z), first.uncertainty(z))
    np.testing.assert_array_equal(first.uncertainty(z), second.uncertainty(z))


def test_inputs_are_left_as_they_were(name, world, z):
    head, train, _ = world
    rows, before_z, before_train = z.copy(), z.copy(), train.array().copy()
    rows.flags.writeable = False
    estimator(name).fit(head, train).uncertainty(rows)
    np.testing.assert_array_equal(rows, before_z)
    np.testing.assert_array_equal(train.array(), before_train)


def test_restored_from_its_state_it_scores_the_same(fitted, name, world, z):
    state = fitted.state()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in state.values())
    restored = estimator(name, **fitted.params()).restore(world[0], state)
    np.testing.assert_array_equal(restored.uncertainty(z), fitted.uncertainty(z))
    np.testing.assert_array_equal(restored.plain(z), fitted.plain(z))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_row_is_named(fitted, z, bad):
    rows = z.copy()
    rows[123, 5] = bad
    with pytest.raises(SoftscopeError, match=r"z.*row 123"):
        fitted.uncertainty(rows)


@pytest.mark.parametrize("bad", [
    np.zeros((3, 11), np.float32), np.zeros((0, 12), np.float32), np.zeros(12, np.float32), np.zeros((3, 12), int),
    np.zeros((3, 12), object), [[1.0, 2.0], [3.0]],
])  # fmt: skip
def test_rows_of_the_wrong_shape_or_type_are_refused(fitted, bad):
    with pytest.raises(SoftscopeError):
        fitted.uncertainty(bad)


def test_an_unfitted_estimator_says_so(name, z):
    for score in (estimator(name).uncertainty, estimator(name).plain):
        with pytest.raises(SoftscopeError, match="not fitted"):
            score(z)


def test_what_an_estimator_needs_is_asked_for(name, world, z):
    head, train, _ = world
    needs = estimator_class(name).info.needs
    if "train" not in needs:
        assert np.isfinite(estimator(name).fit(head).uncertainty(z)).all()
        return
    with pytest.raises(SoftscopeError, match="training features"):
        estimator(name).fit(head)
    with pytest.raises(SoftscopeError, match="columns"):
        estimator(name).fit(head, FeatureSet(np.zeros((9, 5), np.float32)))
    with pytest.raises(SoftscopeError, match="label 4"):
        estimator(name).fit(head, FeatureSet(train.array(), np.full(len(train), 4)))
    unlabelled = FeatureSet(train.array(), name="train")
    if "labels" in needs:
        with pytest.raises(SoftscopeError, match="labels"):
            estimator(name).fit(head, unlabelled)


def test_constructors_take_keywords_only_and_store_them_verbatim(name):
    parameters = inspect.signature(estimator_class(name)).parameters
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters.values())
    marks = {parameter: object() for parameter in parameters}
    assert estimator(name, **marks).params() == marks
    assert all(getattr(estimator(name, **marks), parameter) is mark for parameter, mark in marks.items())


def test_arrays_tensors_and_paths_fit_and_score_like_feature_sets(fitted, name, world, z, tmp_path):
    torch = pytest.importorskip("torch")
    head, train, _ = world
    train.save(tmp_path / "train.safetensors")
    tensors = torch.tensor(train.array(), requires_grad=True), torch.tensor(train.labels)
    for same in ((train.array(), train.labels), tensors, tmp_path / "train.safetensors"):
        again = estimator(name).fit(head, same)
        np.testing.assert_array_equal(again.uncertainty(torch.tensor(z, requires_grad=True)), fitted.uncertainty(z))


def test_the_default_for_training_features_takes_whatever_people_pass(world, tmp_path):
    _, train, _ = world
    train.save(tmp_path / "train.safetensors")
    for own in (train, (train.array(), train.labels), tmp_path / "train.safetensors"):
        assert repr(default_estimator(own)) == repr(estimator(DEFAULT))
    with pytest.warns(UserWarning, match="have no labels"):
        assert repr(default_estimator(train.array())) == repr(estimator(UNLABELLED_DEFAULT))


def test_sklearns_clone_gives_an_unfitted_equal(fitted, name):
    from sklearn.base import clone

    copy = clone(fitted)
    assert type(copy) is type(fitted)
    assert copy.params() == fitted.params()
    assert not hasattr(copy, "head_")
    assert hasattr(fitted, "head_")


def test_repr_rebuilds_the_estimator(name):
    first = estimator(name)
    assert repr(first) == f"{type(first).__name__}({', '.join(f'{k}={v!r}' for k, v in first.params().items())})"


def test_fitted_state_is_all_that_fitting_adds_in_public(fitted, name):
    added = set(vars(fitted)) - set(vars(estimator(name)))
    assert all(attribute.endswith("_") or attribute.startswith("_") for attribute in added)


def test_info_is_complete_and_carries_the_registered_name(name):
    cls = estimator_class(name)
    assert issubclass(cls, Estimator)
    assert isinstance(cls.info, Info)
    assert cls.info.name == name
    assert set(cls.info.needs) <= {"head", "train", "labels"}
    assert cls.info.needs
    assert all((cls.info.id, cls.info.symbol, cls.info.formula, cls.info.source))
    assert cls.__doc__


def test_no_two_estimators_share_an_id_or_a_symbol():
    infos = [estimator_class(name).info for name in ESTIMATORS]
    assert len({info.id for info in infos}) == len({info.symbol for info in infos}) == len(infos)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(SoftscopeError, match=r"'entropie'.*max, entropy, cool, density"):
        estimator("entropie")


def test_an_unknown_parameter_is_answered_with_the_known_ones():
    with pytest.raises(SoftscopeError, match=r"cool: .*'heat'.*temperature"):
        estimator("cool", heat=3)
    with pytest.raises(SoftscopeError, match="none"):
        estimator("max", heat=3)


def test_the_registry_is_light_to_import_and_lists_its_classes():
    heavy = "scipy sklearn numba torch pyarrow matplotlib"
    code = f"import sys, softscope.estimators as e; assert not set({heavy!r}.split()) & set(sys.modules), sys.modules; "
    code += "assert {'Cool', 'Density', 'scores'} <= set(dir(e)); e.Cool(temperature=2.0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_class_is_registered_once_and_listed_by_its_id():
    with pytest.raises(ValueError, match="two estimators are called 'cool'"):
        register(estimator_class("cool"))
    ids = [cls.info.id for cls in ESTIMATORS.values()]
    assert ids[:8] == [f"E{number}" for number in range(1, 9)]
    assert ids == sorted(ids, key=lambda one: ("EBR".index(one[0]), int(one[1:])))


def test_an_estimator_can_be_written_with_its_parameters_as_literals():
    made = estimator("density(components=7, covariance='diagonal', init=\"kmeans\")")
    assert (made.components, made.covariance, made.init) == (7, "diagonal", "kmeans")
    assert repr(estimator("knn()")) == repr(estimator("knn"))


@pytest.mark.parametrize("words", ["cool(temperature=__import__('os'))", "cool(20)", "cool(**{})", "cool("])
def test_what_is_not_a_literal_is_refused_and_never_evaluated(words):
    with pytest.raises(SoftscopeError, match="is not an estimator with its parameters"):
        estimator(words)
