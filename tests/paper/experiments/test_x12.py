"""X12: dials that turn one cause each, the table of remedies, the causes named, and rows for T26 and T34."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.images import ImageSet
from softscope.paper.claims.trained import check_ambiguity
from softscope.paper.experiments import find
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.x12_remedies import (
    DIALS,
    SCALES,
    _shared,
    blend,
    jackknife,
    named,
    remedies,
    rightly_named,
    run,
)
from softscope.runs import Store


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Result:
    settings = replace(SCALES["smoke"], runs=1)
    return run(settings, Store(tmp_path_factory.mktemp("store")), Engine(workers=1))


def position(dial: str, place: float, said: str, **auroc: float) -> dict:
    return {"dial": dial, "position": place, "named": said, "causes": dict.fromkeys(DIALS, 0.0), "auroc": auroc}


def readings(gain: float, said: str = "saturation") -> dict:
    """A run in which exact ranks gain `gain` at the end of every dial, cooling 1, density 2 and the ceiling 3."""
    off = {"plain-entropy": 90.0, "entropy": 90.5, "cool": 91.0, "density": 92.0, "ceiling": 93.0}
    on = {"plain-entropy": 70.0, "entropy": 70.5 + gain, "cool": 72.0, "density": 74.0, "ceiling": 76.0}
    return {dial: [position(dial, 0.0, "none", **off), position(dial, 1.0, said, **on)] for dial in DIALS}


def test_x12_is_an_experiment() -> None:
    assert [entry.module for entry in find("X12")] == ["x12_remedies"]


def test_blends_are_the_mean_of_two_classes_with_the_label_of_either(rng: np.random.Generator) -> None:
    labels = np.arange(200) % 4
    pixels = np.broadcast_to((10 * labels).astype(np.uint8)[:, None, None, None], (200, 2, 2, 1)).copy()
    images = ImageSet(pixels, labels, ("a", "b", "c", "d"), "made", "train", None, {})
    mixed = blend(images, 0.5, rng)
    level = mixed.images[:, 0, 0, 0]
    changed = level != 10 * labels
    # A mean of two levels can equal a third class's: 0 and 20 give 10.
    assert 60 <= changed.sum() <= 100
    assert (images.images == pixels).all()
    other = 2 * level[changed].astype(int) - 10 * labels[changed]
    assert set(other // 10) <= {0, 1, 2, 3}
    assert ((mixed.labels[changed] == labels[changed]) | (mixed.labels[changed] == other // 10)).all()
    assert 0.2 < (mixed.labels[changed] != labels[changed]).mean() < 0.8
    assert (blend(images, 0.0, rng).images == pixels).all()


def test_the_pseudo_values_have_the_jackknife_estimate_for_their_mean(rng: np.random.Generator) -> None:
    low, high = rng.random((5, 40)), 2 * rng.random((5, 60))

    def rise(kept: list[int]) -> float:
        return float(np.var(high[kept], axis=0, ddof=1).mean() - np.var(low[kept], axis=0, ddof=1).mean())

    left_out = [rise([k for k in range(5) if k != left]) for left in range(5)]
    expected = 5 * rise(list(range(5))) - 4 * np.mean(left_out)
    assert np.mean(jackknife(low, high)) == pytest.approx(expected)
    assert jackknife(low[:2], high[:2]) == []


def test_the_table_says_what_a_remedy_gains_beyond_its_gain_with_the_dial_off() -> None:
    table = {row["remedy"]: row for row in remedies([readings(9.0), readings(11.0)])}
    assert table["exact ranks"]["saturation"] == "+10.0 [-2.7, 22.7]"
    assert table["cooling"]["overlap"] == "+1.0 [1.0, 1.0]"
    assert table["density"]["extrapolation"] == "+2.0 [2.0, 2.0]"
    assert table["any score"]["ambiguity"] == "+3.0 [3.0, 3.0]"
    assert table["cleaner data"] == {
        "remedy": "cleaner data",
        "saturation": "",
        "extrapolation": "",
        "ambiguity": "+20.0 [20.0, 20.0]",
        "overlap": "",
    }


def test_causes_named_are_counted_by_dial_and_position() -> None:
    runs = [readings(1.0), readings(1.0), readings(1.0, said="overlap")]
    rows = {(row["dial"], row["position"]): row for row in named(runs)}
    assert rows["saturation", 0.0]["none"] == 3
    assert (rows["ambiguity", 1.0]["saturation"], rows["ambiguity", 1.0]["overlap"]) == (2, 1)
    assert [rightly_named(one, last=True) for one in runs] == [25.0, 25.0, 25.0]


def test_a_share_of_ood_rows_is_taken_from_held_out_digits() -> None:
    ood, spare = np.ones((10, 2)), np.zeros((6, 2))
    assert _shared(ood, spare, 0.3).mean() == pytest.approx(0.7)
    assert len(_shared(ood, spare, 0.9)) == 10


def test_the_dials_turn_their_own_cause(smoke: Result) -> None:
    grown = {row.label.split(":")[0]: row.ours.value for row in smoke.rows[: len(DIALS)]}
    assert grown["saturation"] > 5
    assert grown["extrapolation"] > 5
    assert grown["overlap"] > 2


def test_tables_have_a_reading_for_every_position_and_rows_for_the_claims(smoke: Result) -> None:
    assert len(smoke.tables["dials"]) == 8
    assert [row["ambiguous"] for row in smoke.tables["T34"]] == [0.0, 0.5]
    assert [row["thresholds"] for row in smoke.tables["T21"]] == ["held out"]
    assert [len(row["rises"]) for row in smoke.tables["T26"]] == [1, 1]
    assert check_ambiguity(rows=smoke.tables["T34"]).verdict == "undecided"
