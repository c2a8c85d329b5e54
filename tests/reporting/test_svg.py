"""SVG for pages: coordinates against their definition, everything escaped, and well-formed."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.reporting.svg import AxisScale, Drawing, brief, path, shorten, steps, ticks

finite = st.floats(-1e6, 1e6)


@given(value=finite, low=finite, width=st.floats(1e-3, 1e6))
def test_a_scale_is_linear_inside_and_stays_at_its_ends_beyond(value: float, low: float, width: float) -> None:
    scale = AxisScale(low, low + width, 10.0, 110.0)
    expected = np.interp(value, [scale.low, scale.high], [10.0, 110.0])
    assert scale(value) == pytest.approx(expected, abs=1e-6)


def test_a_scale_of_no_width_does_not_divide_by_zero() -> None:
    assert AxisScale(2.0, 2.0, 0.0, 1.0)(2.0) == 0.0


@given(low=finite, width=st.floats(1e-3, 1e6))
def test_ticks_are_few_evenly_spaced_and_inside(low: float, width: float) -> None:
    marks = ticks(low, low + width)
    assert 2 <= len(marks) <= 6
    assert min(marks) >= low - 1e-6 * width
    assert max(marks) <= low + width + 1e-6 * width
    np.testing.assert_allclose(np.diff(marks), marks[1] - marks[0], rtol=1e-6)


def test_a_histogram_is_outlined_by_its_steps() -> None:
    outline = steps([0.0, 1.0, 3.0], [10.0, 5.0], AxisScale(0.0, 3.0, 0.0, 30.0), 50.0)
    assert outline == "M0 50V40H10V45H30V50"


def test_coordinates_are_short() -> None:
    assert path([(1.0, 2.04), (3.16, 4.0)]) == "M1 2L3.2 4"
    assert brief(-0.04) in ("-0", "0")


def test_words_are_cut_where_they_would_not_fit() -> None:
    assert shorten("short", 100.0) == "short"
    cut = shorten("a very long name indeed", 62.0)
    assert len(cut) == 10
    assert cut.endswith("…")


def test_hostile_words_stay_words() -> None:
    hostile = '"><script>alert(1)</script>&'
    drawing = Drawing(10.0, 10.0, hostile, "rows")
    drawing.text(0.0, 0.0, hostile)
    drawing.put('<rect width="{}"><title>{}</title></rect>', 1.0, hostile)
    root = ElementTree.fromstring(drawing.markup(note=hostile))
    assert [element.tag for element in root.iter()] == ["svg", "text", "rect", "title"]
    assert root.get("aria-label") == root.get("data-note") == root[0].text == root[1][0].text == hostile
