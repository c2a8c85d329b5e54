"""X6 end to end on a few thousand inputs: the register finds it, its result repeats, and it says what it should."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softscope.engine import Engine
from softscope.paper.experiments import find, load
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.x06_filter import SCALES, FilterSettings, run
from softscope.paper.filter import inputs
from softscope.runs import Store

SETTINGS: FilterSettings = replace(SCALES["smoke"], inputs=1 << 14, epochs=2, permutations=99)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(SETTINGS, Store(tmp_path_factory.mktemp("store")), Engine(progress=False))


def test_the_figure_of_the_paper_names_the_experiment() -> None:
    assert [entry.id for entry in find("fig_noise")] == ["X6"]
    paper = load(find("X6")[0]).scales["paper"]
    assert paper.inputs == 2**27
    assert paper.epochs == 15
    assert paper.top == 5


def test_a_repeat_gives_the_same_numbers(result: Result, tmp_path: Path) -> None:
    again = run(SETTINGS, Store(tmp_path), Engine(progress=False))
    assert [row.to_dict() for row in again.rows] == [row.to_dict() for row in result.rows]
    assert again.tables == result.tables


def test_every_find_is_kept_by_its_number(result: Result) -> None:
    deepest = [row for row in result.tables["finds"] if row["conv_layers"] == 3]
    words = [int(inputs.words(SETTINGS.seed, row["number"])[0]) for row in deepest]
    assert words == [row["from_word"] for row in result.tables["climbs"]]


def test_climbs_end_above_their_starts(result: Result) -> None:
    starts = [row["log_odds"] for row in result.tables["finds"] if row["conv_layers"] == 3]
    ends = [row["log_odds"] for row in result.tables["climbs"]]
    assert np.all(np.array(ends) >= np.array(starts) - 1e-5)


def test_shares_fall_as_confidence_rises(result: Result) -> None:
    for depth in (3, 1):
        shares = [row["share"]["value"] for row in result.tables["shares"] if row["conv_layers"] == depth]
        assert shares == sorted(shares, reverse=True)


def test_the_picture_of_the_paper_comes_first(result: Result) -> None:
    assert next(iter(result.figures)) == "finds"
    assert set(result.figures) == set(result.captions)
    assert result.timings["inputs_per_second"] > 0
