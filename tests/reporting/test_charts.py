"""The pictures of a diagnosis: what they draw against the numbers they were given."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from softscope.diagnosis.model import (
    Causes,
    Curve,
    FinalLayerMap,
    Histogram,
    Inputs,
    Reliability,
    ReliabilityBin,
    RiskCurve,
)
from softscope.metrics import Interval
from softscope.reporting.charts import (
    HistogramRow,
    cause_bar,
    cause_segments,
    excess,
    histogram_rows,
    outcome_bar,
    reliability_diagram,
    risk_diagram,
    roc,
    set_rows,
)
from softscope.reporting.pictures import band_of, final_layer_map


def exact(value: float) -> Interval:
    return Interval(value, value - 0.01, value + 0.01)


CAUSES = Causes(
    entropy=exact(0.80), cool=exact(0.83), density=exact(0.90),
    saturation=exact(0.03), rounding=exact(0.01), temperature=exact(0.02),
    extrapolation=exact(0.07), extrapolation_proper=exact(0.05), ambiguity=exact(0.02),
    overlap=exact(0.10), misfit=exact(0.04), overlap_proper=exact(0.06), ceiling=exact(0.94),
)  # fmt: skip


def rects(markup: str) -> list[Element]:
    return ElementTree.fromstring(markup).findall("rect")


def spans(markup: str) -> list[tuple[float, float]]:
    return [(float(rect.get("x", 0)), float(rect.get("x", 0)) + float(rect.get("width", 0))) for rect in rects(markup)]


def test_causes_add_up_to_a_perfect_score() -> None:
    assert sum(part.size for part in cause_segments(CAUSES)) == pytest.approx(1.0)
    whole = replace(CAUSES, extrapolation_proper=None, ambiguity=None)
    assert sum(part.size for part in cause_segments(whole)) == pytest.approx(1.0)
    assert [part.name for part in cause_segments(whole)].count("2 extrapolation") == 1


def test_the_bar_of_causes_is_stacked_without_a_gap_to_its_full_width() -> None:
    drawn = spans(cause_bar("set", CAUSES, 0.5, 1.0))
    assert drawn[0][0] == 0.0
    assert drawn[-1][1] == pytest.approx(1000.0, abs=0.2)
    for (_, stop), (start, _) in pairwise(drawn):
        assert start == pytest.approx(stop, abs=0.2)
    assert drawn[0][1] == pytest.approx(1000 * (0.8 - 0.5) / 0.5, abs=0.1)


def test_what_a_negative_cause_stacks_too_much_is_taken_back_in_a_strip() -> None:
    causes = replace(CAUSES, temperature=exact(-0.02), misfit=exact(0.08))
    assert excess(causes) == pytest.approx(0.02)
    markup = cause_bar("set", causes, 0.5, 1.0 + excess(causes))
    strip = [rect for rect in rects(markup) if rect.get("height") == "7"]
    assert [rect.get("class") for rect in strip] == ["cause-1b"]
    unit = 1000 / 0.52
    assert float(strip[0].get("x", 0)) == pytest.approx(0.5 * unit, abs=0.2)
    assert float(strip[0].get("width", 0)) == pytest.approx(0.02 * unit, abs=0.2)


def test_outcomes_fill_the_bar_by_their_shares() -> None:
    inputs = Inputs({"E": 60, "R": 0, "T": 10, "X": 20, "M": 5, "O": 5}, "", (100,), (40,), ())
    assert spans(outcome_bar("set", inputs)) == [(0, 600), (600, 700), (700, 900), (900, 950), (950, 1000)]


def test_roc_curves_pass_through_their_points_on_a_stretched_axis() -> None:
    curve = Curve((0.0, 0.0, 0.04, 0.04, 1.0), (0.0, 0.4, 0.4, 1.0, 1.0))
    root = ElementTree.fromstring(roc("set", {"max": curve}, {"max": "U_max"}, {"max": 0.9}))
    left, top, side = (float(root.get(f"data-{key}", 0)) for key in ("left", "top", "side"))
    (line,) = [part for part in root.findall("path") if "line-0" in part.get("class", "")]
    numbers = np.array(re.findall(r"[\d.]+", line.get("d", "")), float).reshape(-1, 2)
    bend, height = left + 0.2 * side, top + 0.6 * side
    expected = [[left, top + side], [left, height], [bend, height], [bend, top], [left + side, top]]
    np.testing.assert_allclose(numbers, expected, atol=0.06)
    assert "U_max 90.0 %" in root.get("aria-label", "")


def test_a_score_that_ties_everywhere_lies_on_the_line_of_guessing() -> None:
    root = ElementTree.fromstring(roc("set", {"max": Curve((0.0, 1.0), (0.0, 1.0))}, {"max": "U"}, {"max": 0.5}))
    chance, line = (part.get("d") for part in root.findall("path") if part.get("class") in ("chance", "line line-0"))
    assert chance == line
    left, top, side = (float(root.get(f"data-{key}", 0)) for key in ("left", "top", "side"))
    x, y = np.array(re.findall(r"[\d.]+", chance or ""), float).reshape(-1, 2).T
    np.testing.assert_allclose(((x - left) / side) ** 2, (top + side - y) / side, atol=1e-3)
    assert len(x) > 30


def test_each_histogram_reaches_its_own_peak_and_the_threshold_stands_at_its_value() -> None:
    rows = [HistogramRow("a", "", {"test": (1, 4, 0), "ood": (0, 0, 10)}), HistogramRow("b", "", {"train": (0, 0, 0)})]
    root = ElementTree.fromstring(histogram_rows((0.0, 1.0, 2.0, 3.0), rows, "axis", "label", threshold=1.5))
    areas = [part for part in root.findall("path") if part.get("class", "").startswith("area")]
    tops = [min(map(float, re.findall(r"V([\d.]+)", part.get("d", "")))) for part in areas]
    assert tops[0] == tops[1] < tops[2]
    (line,) = [part for part in root.findall("path") if part.get("class") == "threshold"]
    assert line.get("transform") == "translate(160 0)"


def test_rows_of_sets_are_train_test_and_then_the_ood_sets() -> None:
    counts = {"b": (1,), "train": (2,), "test": (3,)}
    rows = set_rows(Histogram((0.0, 1.0), counts), ["b"])
    assert [(row.name, *row.layers) for row in rows] == [("train", "train"), ("test", "test"), ("b", "ood")]


def a_map() -> FinalLayerMap:
    points = {"train": ((0.0, 0.0), (1.0, 1.0)), "svhn": ((0.5, 0.5),)}
    sure = {"train": (0.52, 1.0), "svhn": (0.98,)}
    return FinalLayerMap((0.0, 1.0), (0.0, 1.0), ((0.5, 1.0), (0.5, 0.75)), (0.6, 0.2), points, {"train": (0, 1)}, sure)


def test_the_map_shows_every_point_in_the_colour_of_its_own_confidence() -> None:
    root = ElementTree.fromstring(final_layer_map(a_map(), "svhn", ("cat", "<dog>")))
    drawn = {part.get("class"): part.get("d") for part in root.findall("path")}
    assert drawn == {"dot sure-0": "M0 320h0", "dot sure-4": "M320 0h0", "cross sure-4": "M158 158l4 4m0-4l-4 4"}
    assert [text.text for text in root.findall("text")] == [
        "cat", "<dog>", "1st component, 60% of variance →", "↑ 2nd, 20%",
    ]  # fmt: skip


def test_colours_are_equal_steps_from_guessing_to_certain() -> None:
    assert [band_of(sure, 2) for sure in (0.5, 0.59, 0.61, 0.79, 0.81, 0.91, 1.0)] == [0, 0, 1, 2, 3, 4, 4]
    assert band_of(0.1, 10) == band_of(0.05, 10) == 0


def test_the_reliability_diagram_has_confidence_across_and_accuracy_up() -> None:
    """One bin that is 90 % sure and 50 % right lies below the diagonal, to the right."""
    bins = (ReliabilityBin(0.9, Interval(0.5, 0.4, 0.6), 40), ReliabilityBin(0.25, Interval(1.0, 0.75, 1.0), 10))
    root = ElementTree.fromstring(reliability_diagram(Reliability(bins, Interval(0.4, 0.3, 0.5))))
    dots = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in root.findall("circle")]
    assert dots == [(pytest.approx(40 + 0.9 * 262, abs=0.1), 139.0), (pytest.approx(40 + 0.25 * 262, abs=0.1), 8.0)]
    arms = [part.get("d") for part in root.findall("path") if part.get("class") == "reliable-arm"]
    assert arms == ["M275.8 165.2V112.8", "M105.5 73.5V8"]
    assert [text.text for text in root.findall("text")][-2:] == ["confidence, %", "accuracy, %"]


def test_risk_is_drawn_against_the_share_that_is_kept() -> None:
    root = ElementTree.fromstring(risk_diagram(RiskCurve((0.25, 0.5, 1.0), (0.0, 0.05, 0.1))))
    (line,) = (part.get("d") for part in root.findall("path") if part.get("class") == "line line-1")
    assert line == "M105.5 270L171 139L302 8"
    assert "the surest half: 5.0% wrong" in root.get("aria-label")
