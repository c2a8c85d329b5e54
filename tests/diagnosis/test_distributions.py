"""Histograms that lose no row, threshold tables and curves that agree with counting."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from softscope.diagnosis.details import MAP_GRID, MAP_POINTS, curves, histogram, map_layer, threshold_table
from softscope.diagnosis.sets import Pair
from softscope.features import FeatureSet
from softscope.geometry import optimal_structure
from softscope.head import Head

from .example import example
from .made import made_scored


def test_histograms_count_every_row_also_those_far_out(rng) -> None:
    sets = {"test": np.append(rng.normal(size=5000), 1e9), "ood": rng.normal(3, 1, 700)}
    counted = histogram(sets)
    assert {name: sum(counts) for name, counts in counted.counts.items()} == {"test": 5001, "ood": 700}
    assert counted.edges[-1] < 100
    assert list(counted.edges) == sorted(set(counted.edges))


@pytest.mark.parametrize("value", [0.0, -1.0, 1e30])
def test_a_histogram_of_one_value_has_width(value) -> None:
    counted = histogram({"test": np.full(10, value)})
    assert sum(counted.counts["test"]) == 10
    assert counted.edges[0] < value < counted.edges[-1]


def test_threshold_tables_count_what_is_above(rng) -> None:
    test, ood = made_scored({"max": np.round(rng.normal(size=400), 1)}), made_scored({"max": rng.normal(1, 1, 300)})
    table = threshold_table("max", test, {"ood": ood})
    assert len(table.thresholds) <= 201
    assert list(table.thresholds) == sorted(table.thresholds, reverse=True)
    for threshold, alarms, missed in zip(table.thresholds, table.false_alarms, table.missed["ood"]):
        assert alarms == pytest.approx((test.values["max"] > threshold).mean(), abs=1e-6)
        assert missed == pytest.approx((ood.values["max"] <= threshold).mean(), abs=1e-6)
    assert table.false_alarms[0] == 0
    near = [alarms for alarms in table.false_alarms if 0.03 <= alarms <= 0.07]
    assert near


def test_curves_enclose_the_auroc(rng) -> None:
    test, ood = made_scored({"max": rng.normal(size=500)}), made_scored({"max": rng.normal(1, 1, 500)})
    everyone = np.arange(500)
    curve = curves(Pair(test, ood, everyone, everyone), ("max",))["max"]
    assert (curve.false_alarms[0], curve.caught[0]) == (0, 0)
    assert (curve.false_alarms[-1], curve.caught[-1]) == (1, 1)
    assert len(curve.caught) <= 200
    area = np.trapezoid(curve.caught, curve.false_alarms)
    truth = roc_auc_score(np.repeat([0, 1], 500), np.concatenate([test.values["max"], ood.values["max"]]))
    assert area == pytest.approx(truth, abs=0.005)


def test_the_map_holds_confidence_at_the_points_of_its_plane() -> None:
    head = Head(optimal_structure(3, 6, norm=2.0).weight)
    rng = np.random.default_rng(0)
    flat = np.zeros((900, 6))
    flat[:, :2] = rng.normal(size=(900, 2)) * [3, 1]
    sets = {"train": FeatureSet(flat[:400]), "test": FeatureSet(flat[400:600]), "ood": FeatureSet(flat[600:])}
    layer_map = map_layer(head, sets, 0)
    assert sum(layer_map.explained) == pytest.approx(1.0)
    assert {name: len(points) for name, points in layer_map.points.items()} == {
        "train": MAP_POINTS,
        "test": 200,
        "ood": MAP_POINTS,
    }
    assert np.shape(layer_map.confidence) == (MAP_GRID, MAP_GRID)
    # The plane holds every feature here, so that a point's neighbours on the grid are about as confident as it is.
    (x, y), predicted = layer_map.points["test"][0], layer_map.classes["test"][0]
    z = flat[400:600][np.argmin(np.abs(np.linalg.norm(flat[400:600], axis=1) - np.hypot(x, y)))]
    assert 0 <= predicted < 3
    column, row = (int(np.argmin(np.abs(np.array(axis) - at))) for axis, at in ((layer_map.x, x), (layer_map.y, y)))
    logits = head.logits(z[None])[0]
    truth = np.exp(logits.max()) / np.exp(logits).sum()
    assert layer_map.confidence[row][column] == pytest.approx(truth, abs=0.15)


def test_features_of_a_single_column_still_give_a_map() -> None:
    head = Head([[1.0], [-1.0]])
    sets = {name: FeatureSet(np.linspace(-1, 1, 20)[:, None]) for name in ("train", "test", "ood")}
    layer_map = map_layer(head, sets, 0)
    assert len(layer_map.points["ood"][0]) == 2


def test_every_set_appears_in_every_picture() -> None:
    diagnosis = example()
    everyone = {"train", "test", *diagnosis.ood}
    assert (
        set(diagnosis.strength.counts)
        == set(diagnosis.familiarity.counts)
        == set(diagnosis.other_cosines.counts)
        == everyone
    )
    assert set(diagnosis.map.points) == everyone
    assert all(set(one.counts) == everyone - {"train"} for one in diagnosis.uncertainty.values())
    assert sum(diagnosis.other_cosines.counts["test"]) == 600 * 3
    assert sum(diagnosis.strength.counts["train"]) == 1200


def test_the_shares_of_variance_are_those_of_principal_components(rng) -> None:
    """Of training and OOD rows together, about their common mean; test rows have no part in it."""
    head = Head(optimal_structure(3, 6, norm=2.0).weight)
    train = FeatureSet(rng.normal(size=(300, 6)) * [5, 3, 1, 1, 1, 1] + 2.0)
    ood = FeatureSet(rng.normal(size=(200, 6)) * [1, 1, 4, 1, 1, 1])
    layer_map = map_layer(head, {"train": train, "test": FeatureSet(100 * rng.normal(size=(90, 6))), "ood": ood}, 0)
    expected = PCA(2).fit(np.concatenate([train.array(), ood.array()])).explained_variance_ratio_
    assert layer_map.explained == pytest.approx(expected, abs=1e-9)
