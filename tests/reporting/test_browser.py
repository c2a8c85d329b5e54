"""The report as Chromium shows it: nothing asked of the network, the slider, hostile names, phones, dark, print."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softscope.diagnosis import Diagnosis
from softscope.reporting import report
from softscope.reporting.threshold import chosen_estimators, start_of

# Contrast of every visible text against what lies behind it, the lowest first (WCAG 2).
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const mix = (layers) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of layers) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return Array.from(canvas.getImageData(0, 0, 1, 1).data).slice(0, 3);
  };
  const light = (rgb) => rgb.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ratios = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
    const box = e.getBoundingClientRect();
    if (!own || !box.width || e.closest(".unseen, .skip, script, title, option, svg.map, .icon")) continue;
    const layers = [];
    for (let up = e; up; up = up.parentElement) layers.unshift(getComputedStyle(up).backgroundColor);
    const style = getComputedStyle(e);
    const behind = mix(layers), ink = mix([...layers, e.closest("svg") ? style.fill : style.color]);
    const [a, b] = [light(behind), light(ink)];
    ratios.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.className.baseVal ?? e.className, e.textContent]);
  }
  return ratios.sort((one, other) => one[0] - other[0]).slice(0, 3);
}"""

# What a screen reader would miss.
UNNAMED = """() => {
  const out = [];
  const named = (e) => e.getAttribute("aria-label") || e.labels?.length || e.closest("[aria-hidden=true]")
    || document.getElementById(e.getAttribute("aria-labelledby"))?.textContent.trim();
  for (const e of document.querySelectorAll("svg, input, select, section, nav, [role=region], [role=group]"))
    if (!named(e)) out.push(e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("img")) if (!e.alt) out.push("img without alt");
  for (const e of document.querySelectorAll("table"))
    if (!e.caption?.textContent.trim()) out.push("table without caption");
  for (const e of document.querySelectorAll("th")) if (!e.scope) out.push("th without scope: " + e.textContent);
  const ids = Array.from(document.querySelectorAll("[id]"), (e) => e.id);
  if (new Set(ids).size < ids.length) out.push("an id that occurs twice");
  return out;
}"""

Visitor = Callable[..., Any]


@pytest.fixture(scope="module")
def page(diagnosis: Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("report") / "report.html"
    images = {name: rng.integers(0, 256, (summary.rows, 8, 8), np.uint8) for name, summary in diagnosis.ood.items()}
    report(diagnosis, path, images)
    return path


@pytest.fixture(scope="module")
def hostile_page(hostile: Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "a <b>.html"
    name = next(iter(hostile.ood))
    report(hostile, path, {name: np.zeros((hostile.ood[name].rows, 8, 8), np.uint8)})
    return path


def test_it_opens_without_a_word_on_the_console_and_asks_for_nothing(page: Path, visit: Visitor) -> None:
    from playwright.sync_api import expect

    visited = visit(page)
    expect(visited.page.locator(".operating").first).not_to_have_attribute("hidden", re.compile(""))
    assert visited.errors == []
    assert [url for url in visited.requests if not url.startswith("data:")] == [page.as_uri()]
    loaded = "Array.from(document.images).every((image) => image.complete && image.naturalWidth === 8)"
    assert visited.page.evaluate(loaded)


def test_the_verdict_its_reason_and_what_to_do_are_on_the_first_screen(
    diagnosis: Diagnosis, page: Path, visit: Visitor
) -> None:
    visited = visit(page)
    heading = visited.page.locator("h1")
    assert diagnosis.advice.headline.startswith(heading.inner_text())
    for words in ("Can I trust its confidence?", "Why not?", "What to do"):
        box = visited.page.get_by_role("heading", name=words).bounding_box()
        assert box is not None
        assert box["y"] < 900
    order = visited.page.evaluate("Array.from(document.querySelectorAll('h1,h2,h3,h4'), (e) => Number(e.tagName[1]))")
    assert order[0] == 1
    assert order.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(order))


def test_the_keyboard_moves_the_slider_and_every_number_follows(
    diagnosis: Diagnosis, page: Path, visit: Visitor
) -> None:
    from playwright.sync_api import expect

    visited = visit(page)
    table = diagnosis.thresholds[chosen_estimators(diagnosis)[0]]
    slider = visited.page.locator("#slider")
    slider.focus()
    at = start_of(table)
    _check_numbers(visited, diagnosis, table, at)
    before = visited.page.locator("[data-histograms]:not([hidden]) .threshold").get_attribute("transform")
    for key, step in (("ArrowRight", 1), ("ArrowRight", 1), ("ArrowLeft", -1), ("PageUp", None), ("End", None)):
        slider.press(key)
        at = at + step if step else int(slider.input_value())
        _check_numbers(visited, diagnosis, table, at)
    assert at == len(table.thresholds) - 1
    assert visited.page.locator("[data-histograms]:not([hidden]) .threshold").get_attribute("transform") != before
    assert slider.get_attribute("aria-valuetext") == visited.page.locator("#alarms").inner_text() + " false alarms"
    # The page's policy forbids evaluating strings, which waiting for a function would do.
    expect(visited.page.locator("#spoken")).to_contain_text("of test inputs flagged")


def _check_numbers(visited: Any, diagnosis: Diagnosis, table: Any, at: int) -> None:
    assert visited.page.locator("#slider").input_value() == str(at)
    assert visited.page.locator("#alarms").inner_text() == f"{100 * table.false_alarms[at]:.1f}\u00a0%"
    missed = [float(text.rstrip("\u00a0%")) for text in visited.page.locator("[data-missed]").all_inner_texts()]
    caught = [float(text.rstrip("\u00a0%")) for text in visited.page.locator("[data-caught]").all_inner_texts()]
    assert missed == pytest.approx([100 * table.missed[name][at] for name in diagnosis.ood], abs=0.051)
    assert np.add(missed, caught) == pytest.approx(100.0, abs=0.11)


def test_inputs_change_sides_exactly_where_their_score_exceeds_the_threshold(
    diagnosis: Diagnosis, page: Path, visit: Visitor
) -> None:
    visited = visit(page)
    rows = [row for inputs in diagnosis.inputs.values() for row in inputs.examples] + list(diagnosis.test_mistakes)
    states = "Array.from(document.querySelectorAll('[data-input]'), (e) => [e.classList.contains('flagged'),"
    states += "e.querySelector('.side').textContent === 'flagged', e.classList.contains('moved')])"
    for number, name in enumerate(chosen_estimators(diagnosis)):
        visited.page.locator("#estimator").select_option(str(number))
        table = diagnosis.thresholds[name]
        start = [row.scores[name] > table.thresholds[start_of(table)] for row in rows]
        for at in (start_of(table), 0, len(table.thresholds) - 1):
            visited.page.locator("#slider").fill(str(at))
            flagged = [row.scores[name] > table.thresholds[at] for row in rows]
            expected = [[now, now, now != then] for now, then in zip(flagged, start)]
            assert visited.page.evaluate(states) == expected
            counts = visited.page.locator("[data-count]").all_text_contents()
            assert sum(map(int, counts)) == sum(flagged)
    assert visited.page.locator(".tiles li.moved").count() > 0


def test_choosing_a_score_shows_its_histograms_and_starts_at_its_own_five_percent(
    diagnosis: Diagnosis, page: Path, visit: Visitor
) -> None:
    visited = visit(page)
    for number, name in enumerate(chosen_estimators(diagnosis)):
        visited.page.locator("#estimator").select_option(str(number))
        assert visited.page.locator("#slider").input_value() == str(start_of(diagnosis.thresholds[name]))
        shown = visited.page.locator("[data-histograms]:not([hidden])")
        assert shown.count() == 1
        assert diagnosis.estimators[name].symbol in (shown.locator("svg").get_attribute("aria-label") or "")


def test_the_dot_on_each_roc_curve_follows_the_threshold(diagnosis: Diagnosis, page: Path, visit: Visitor) -> None:
    visited = visit(page)
    table = diagnosis.thresholds[chosen_estimators(diagnosis)[0]]
    visited.page.locator("#slider").fill("50")
    read = """Array.from(document.querySelectorAll('svg.roc'), (e) => {
      const dot = e.querySelector('.operating'), { left, top, side } = e.dataset;
      return [((dot.getAttribute('cx') - left) / side) ** 2, (dot.getAttribute('cy') - top) / side];
    })"""
    expected = [[table.false_alarms[50], table.missed[name][50]] for name in diagnosis.ood]
    np.testing.assert_allclose(visited.page.evaluate(read), expected, atol=1e-4)


def test_hostile_names_are_inert_text(hostile: Diagnosis, hostile_page: Path, visit: Visitor) -> None:
    visited = visit(hostile_page)
    visited.page.locator("#slider").press("ArrowRight")
    for summary in visited.page.locator("summary").all():
        summary.click()
    assert visited.errors == []
    assert [url for url in visited.requests if not url.startswith("data:")] == [hostile_page.as_uri()]
    assert visited.page.locator("script").count() == 2
    assert visited.page.locator("img[src=x], [onload], [onerror], [onmouseover]").count() == 0
    words = visited.page.locator("body").inner_text()
    for name in hostile.ood:
        assert " ".join(name.split()) in " ".join(words.split())
    alternatives = visited.page.locator("img").evaluate_all("(images) => images.map((image) => image.alt)")
    assert any(hostile.classes[0] in words for words in alternatives)
    assert visited.page.title().endswith(hostile.advice.headline)


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_sideways_scrolling(hostile_page: Path, visit: Visitor, width: int) -> None:
    visited = visit(hostile_page, width=width)
    assert visited.page.evaluate("document.documentElement.scrollWidth") <= width
    slider = visited.page.locator("#slider").bounding_box()
    assert slider is not None
    assert slider["width"] > 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_in_light_and_in_dark(hostile_page: Path, visit: Visitor, scheme: str) -> None:
    visited = visit(hostile_page, color_scheme=scheme)
    visited.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    worst = visited.page.evaluate(CONTRAST)
    assert worst[0][0] >= 4.5, worst
    paper = visited.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, paper.strip("rgb()").split(","))) < 64) == (scheme == "dark")


def test_a_screen_reader_finds_a_name_for_everything(page: Path, visit: Visitor) -> None:
    assert visit(page).page.evaluate(UNNAMED) == []


def test_the_keyboard_reaches_the_skip_link_first_and_sees_where_it_is(page: Path, visit: Visitor) -> None:
    visited = visit(page)
    visited.page.keyboard.press("Tab")
    focused = visited.page.locator(":focus")
    assert focused.inner_text() == "Skip to the report"
    assert focused.evaluate("(e) => getComputedStyle(e).outlineStyle") != "none"
    assert (focused.bounding_box() or {"x": -1})["x"] >= 0
    visited.page.keyboard.press("Enter")
    assert visited.page.locator(":focus").get_attribute("id") == "main"


def test_it_prints_in_light_without_the_slider_and_with_everything_unfolded(page: Path, visit: Visitor) -> None:
    visited = visit(page, color_scheme="dark")
    printed = visited.page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    assert visited.page.evaluate("Array.from(document.querySelectorAll('details')).every((part) => part.open)")
    visited.page.emulate_media(media="print")
    assert not visited.page.locator("#slider").is_visible()
    assert not visited.page.locator("nav").is_visible()
    assert visited.page.locator("#alarms").is_visible()
    assert visited.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_scripts_the_page_still_says_everything_at_five_percent(
    diagnosis: Diagnosis, page: Path, visit: Visitor
) -> None:
    visited = visit(page, java_script_enabled=False)
    table = diagnosis.thresholds[chosen_estimators(diagnosis)[0]]
    _check_numbers(visited, diagnosis, table, start_of(table))
    assert visited.page.locator("h1").is_visible()
    assert visited.page.locator("[data-histograms]:not([hidden]) svg").is_visible()
