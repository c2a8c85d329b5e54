"""The report as text: escaping, weight, images, errors; what a browser makes of it is in test_browser.py."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import softscope as sx
from softscope.diagnosis import Diagnosis
from softscope.diagnosis.model import OUTCOMES, Finding
from softscope.errors import SoftscopeError
from softscope.metrics import Interval
from softscope.reporting import report, show
from softscope.reporting.page import bounds, percent, points, render
from softscope.reporting.tables import cause_table, class_table, confusions, score_table
from softscope.reporting.threshold import confidence_words, gallery, rule_of, start_of
from softscope.reporting.verdict import action_of, estimator_words, summary

LIMIT = 3_000_000


class Tags(HTMLParser):
    """Every element with its attributes, and all text outside style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("style", "script"):
            self.words.append(data)


def photographs(diagnosis: Diagnosis) -> dict[str, np.ndarray]:
    """Images of noise, the heaviest there are, for every set."""
    rng = np.random.default_rng(0)
    rows = {name: summary.rows for name, summary in diagnosis.ood.items()} | {"test": diagnosis.test.rows}
    return {name: rng.integers(0, 256, (count, 32, 32, 3), np.uint8) for name, count in rows.items()}


def test_ten_sets_with_the_heaviest_images_stay_under_three_megabytes(hostile: Diagnosis) -> None:
    text = render(hostile, photographs(hostile))
    assert len(text.encode()) < LIMIT
    assert text.count("data:image/png") > 10 * 20


def test_only_our_own_elements_and_attributes_are_in_the_page(hostile: Diagnosis) -> None:
    page = Tags(render(hostile))
    names = [tag for tag, _ in page.tags]
    assert names.count("script") == 2
    assert set(names) & {"iframe", "object", "embed", "form", "base"} == set()
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)


def test_hostile_names_are_text_wherever_they_stand(hostile: Diagnosis) -> None:
    page = Tags(render(hostile))
    words = " ".join(page.words)
    for name in hostile.ood:
        assert words.count(name) >= 10, name
    titles = [
        value for _, attributes in page.tags for key, value in attributes.items() if key in ("title", "aria-label")
    ]
    assert any(hostile.classes[0] in (value or "") for value in titles)
    assert "{{ 7 * 7 }}" in words
    assert "49" not in re.findall(r"\w+", " ".join(word for word in page.words if "raw" in word))


def test_nothing_refers_to_another_file_or_host(hostile: Diagnosis) -> None:
    page = Tags(render(hostile, photographs(hostile)))
    for _, attributes in page.tags:
        for key in ("src", "href", "srcset", "action", "xlink:href"):
            assert (attributes.get(key) or "#").startswith(("#", "data:"))
    style = re.search(r"<style>(.*?)</style>", render(hostile), re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_same_diagnosis_gives_the_same_page(diagnosis: Diagnosis) -> None:
    assert render(diagnosis) == render(Diagnosis.from_json(diagnosis.to_json()))


def test_the_public_name_is_the_call_even_after_its_package_was_imported(diagnosis: Diagnosis, tmp_path: Path) -> None:
    sx.report(diagnosis, tmp_path / "report.html")
    assert sx.report is report
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(diagnosis)


def test_a_page_that_cannot_be_written_leaves_nothing_behind(diagnosis: Diagnosis, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SoftscopeError, match="can't be written"):
        report(diagnosis, tmp_path / "file" / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_diagnosis_without_test_labels_has_no_accuracy_and_no_split_of_cause_two(diagnosis: Diagnosis) -> None:
    causes = {name: replace(part, extrapolation_proper=None, ambiguity=None) for name, part in diagnosis.causes.items()}
    bare = replace(
        diagnosis,
        test=replace(diagnosis.test, accuracy=None),
        causes=causes,
        mean_causes=replace(diagnosis.mean_causes, extrapolation_proper=None, ambiguity=None),
        ambiguity_missing="the test features have no labels",
        mistakes={},
        test_mistakes=(),
        reliability=None,
        risk=None,
        by_class=(),
    )
    words = " ".join(Tags(render(bare)).words)
    assert "the test features have no labels" in words
    assert "own mistakes" not in words
    assert "Accuracy" not in words
    assert "2a" not in words.replace("2a and 2b", "")


def test_a_star_marks_only_what_stands_out_and_a_set_called_mean_has_its_own_column(hostile: Diagnosis) -> None:
    table = score_table(hostile)
    assert all(len(row.cells) == 1 + len(hostile.ood) for row in table)
    shown = {row.name for row in table}
    for place, scores in enumerate([hostile.mean_scores, *hostile.scores.values()]):
        for row in table:
            others = [scores[name].auroc.value for name in shown if name != row.name]
            assert row.cells[place].auroc == scores[row.name].auroc
            assert row.cells[place].best == (scores[row.name].auroc.low > max(others))
    means = [row.cells[0].auroc.value for row in table]
    assert means == sorted(means, reverse=True)


def test_a_score_that_equals_its_float32_twin_is_one_row(diagnosis: Diagnosis) -> None:
    names = [row.name for row in score_table(diagnosis)]
    equal = all(
        abs(scores["max"].auroc.value - scores["plain-max"].auroc.value) < 5e-4
        for scores in (diagnosis.mean_scores, *diagnosis.scores.values())
    )
    assert "plain-max" in names
    assert ("max" in names) == (not equal or diagnosis.advice.recommended == "max")


def test_there_is_one_action_with_the_line_to_paste(diagnosis: Diagnosis) -> None:
    named = replace(
        diagnosis,
        settings=diagnosis.settings | {"head": "my head.safetensors"},
        train=replace(diagnosis.train, file="train.safetensors"),
        test=replace(diagnosis.test, file="test.safetensors"),
        advice=replace(diagnosis.advice, recommended="density", basis="chosen"),
        self_check=(),
    )
    action = action_of(named)
    assert action.title == "Use U_density instead of confidence"
    assert action.line == (
        "softscope guard fit --head 'my head.safetensors' --train train.safetensors --calibration test.safetensors "
        "--estimator density --false-alarms 0.05 -o guard.safetensors"
    )
    memory = action_of(replace(named, train=replace(diagnosis.train, file=None)))
    assert memory.line == "guard = sx.Guard.fit(head, train, calibration=test, estimator='density', false_alarms=0.05)"
    kept = action_of(replace(named, advice=replace(diagnosis.advice, recommended=None)))
    assert "--estimator max " in kept.line
    page = Tags(render(named))
    assert " ".join(page.words).count("What to do") == 1


def test_what_the_self_check_warns_of_comes_before_any_deployment(diagnosis: Diagnosis) -> None:
    action = action_of(replace(diagnosis, self_check=(Finding("warning", "train: logits", "Give features"),)))
    assert action.line == ""
    assert "train: logits. Give features" in action.why


def test_parameters_that_differ_from_the_defaults_are_in_the_line(diagnosis: Diagnosis) -> None:
    used = {"density": "Density(components=None, covariance='diagonal', ridge=1e-05, init='labels', "
            "one_per_class=False, transform='none', neurons=None, seed=0)"}  # fmt: skip
    settings = diagnosis.settings | {"estimators": used}
    assert estimator_words(replace(diagnosis, settings=settings), "density") == "density(covariance='diagonal')"


def test_the_terminal_says_verdict_table_and_action_in_under_25_lines(diagnosis: Diagnosis) -> None:
    from io import StringIO

    from rich.console import Console

    two = replace(diagnosis, scores=dict(list(diagnosis.scores.items())[:2]), self_check=())
    short, long = StringIO(), StringIO()
    show(two, console=Console(file=short, width=100))
    show(two, verbose=True, console=Console(file=long, width=100))
    lines = short.getvalue().splitlines()
    assert lines[0].startswith(diagnosis.advice.verdict.upper())
    assert len(lines) < 25
    assert "What to do: " in short.getvalue()
    assert len(long.getvalue().splitlines()) > len(lines)


def test_a_notebook_shows_the_first_screen_and_hostile_names_stay_text(hostile: Diagnosis) -> None:
    assert repr(hostile).startswith(f"Diagnosis({hostile.advice.verdict}: ")
    cell = hostile._repr_html_()
    assert "<script" not in cell
    assert hostile.advice.verdict.upper() in cell
    assert "&lt;script&gt;" in cell


def test_tables_by_class_put_the_most_false_alarms_first(diagnosis: Diagnosis) -> None:
    lines = class_table(diagnosis)
    rates = [row.false_alarms["plain-max"].value for _, row in lines]
    assert rates == sorted(rates, reverse=True)
    assert [name for name, _ in lines] == [diagnosis.classes[row.number] for _, row in lines]
    flagged = sum(row.rows * row.false_alarms["plain-max"].value for _, row in lines)
    assert flagged / diagnosis.test.rows <= 0.05


def test_bars_of_causes_start_below_every_value_they_show(diagnosis: Diagnosis) -> None:
    table = cause_table(diagnosis)
    for row in table.rows:
        assert table.low < row.causes.entropy.low
    assert table.marks[0] == (table.low, 0.0)


def test_all_bars_of_causes_share_the_axis_that_is_marked(diagnosis: Diagnosis) -> None:
    table = cause_table(diagnosis)
    for row in table.rows:
        reached = ElementTree.fromstring(row.bar).findall("rect")[0]
        for value, share in table.marks:
            assert value == pytest.approx(table.low + share * (table.high - table.low))
        expected = (row.causes.entropy.value - table.low) / (table.high - table.low)
        assert float(reached.get("width", 0)) / 1000 == pytest.approx(expected, abs=1e-3)


def test_confusions_are_shares_of_the_whole_set_most_frequent_first(diagnosis: Diagnosis) -> None:
    for name, classes in confusions(diagnosis).items():
        shares = [share for _, share, _ in classes]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1.0)
        through = sum(let_through for _, _, let_through in classes)
        assert through == pytest.approx(1 - diagnosis.inputs[name].counts["E"] / diagnosis.ood[name].rows)


def test_the_slider_starts_at_the_last_threshold_of_at_most_five_percent(diagnosis: Diagnosis) -> None:
    for table in diagnosis.thresholds.values():
        start = start_of(table)
        assert table.false_alarms[start] <= 0.05
        assert table.false_alarms[start + 1] > 0.05


def test_every_shown_input_says_what_it_was_taken_for_and_why_it_slipped_through(diagnosis: Diagnosis) -> None:
    for shelf in gallery(diagnosis, {}):
        for tile, row in zip(shelf.tiles, shelf.rows):
            assert tile.taken_for == diagnosis.classes[row.predicted]
            assert tile.words == OUTCOMES.get(row.outcome, "")
            assert (tile.true_class is not None) == shelf.of_test


@pytest.mark.parametrize(
    ("confidence", "words"),
    [(0.5, "50.0"), (0.9994, "99.9"), (0.99996, "99.996"), (1 - 1e-9, ">99.9999"), (1.0, "100")],
)
def test_confidence_is_never_rounded_up_to_one(confidence: float, words: str) -> None:
    assert confidence_words(confidence) == f"{words}\u00a0%"


def test_a_threshold_on_confidence_is_told_as_a_confidence() -> None:
    assert rule_of("plain-max", -0.9) == rule_of("max", float(np.log(0.1 / 0.9))) == "confidence below 90.0\u00a0%"
    assert rule_of("density", 12.34567) == "score above 12.35"


def test_numbers_have_a_proper_minus_and_no_negative_zero() -> None:
    assert points(-0.0421) == "−4.2"
    assert points(-0.0001) == "0.0"
    assert bounds(Interval(0.0, -0.012, 0.0301)) == "[−1.2, 3.0]"
    assert percent(0.934) == "93.4\u00a0%"


def test_a_remedy_that_does_harm_is_no_reason_and_a_misfit_no_overlap(diagnosis: Diagnosis) -> None:
    worse, part = Interval(-0.1, -0.2, 0.0), Interval(0.1, 0.1, 0.1)
    causes = replace(
        diagnosis.mean_causes, rounding=worse, temperature=worse, extrapolation=worse, misfit=part, overlap_proper=worse
    )
    lines = summary(replace(diagnosis, mean_causes=causes)).causes
    assert [line.words.startswith(("none: ", "not a cause: ")) for line in lines] == [True, True, True, False]
    assert lines[3].words.startswith("mostly a density that fits badly (at least 10.0)")
    causes = replace(
        diagnosis.mean_causes, rounding=part, temperature=part, extrapolation=part, overlap=part, misfit=worse,
        overlap_proper=part,
    )  # fmt: skip
    assert not any(
        "none" in line.words or "badly" in line.words for line in summary(replace(diagnosis, mean_causes=causes)).causes
    )


def test_no_overlap_is_said_to_be_none(diagnosis: Diagnosis) -> None:
    nothing = Interval(0.0, 0.0, 0.0)
    causes = replace(diagnosis.mean_causes, overlap=nothing, misfit=nothing, overlap_proper=nothing)
    assert summary(replace(diagnosis, mean_causes=causes)).causes[3].words.startswith("none: ")
