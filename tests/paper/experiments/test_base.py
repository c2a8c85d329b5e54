"""Settings and scales: what determines an experiment's numbers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.paper.experiments.base import Experiment, Result, Settings, by_runs, command, reproduce
from softscope.paper.experiments.verdict import Mean, Reported, Row
from softscope.reporting.style import new_figure, style, to_png
from softscope.runs import Store


def test_a_run_is_the_same_however_many_there_are() -> None:
    five, two = Settings(runs=5, seed=3).single_runs(), Settings(runs=2, seed=3).single_runs()
    assert five[:2] == two
    assert len({single.seed for single in five}) == 5
    assert all(single.runs == 1 for single in five)


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"seed": -1}, {"threads": 0}])
def test_wrong_settings_are_one_clear_line(wrong: dict[str, int]) -> None:
    with pytest.raises(SoftscopeError, match=next(iter(wrong))):
        Settings(**wrong)


def test_runs_and_seed_replace_those_of_the_scale() -> None:
    experiment = Experiment("X0", (), "", {"smoke": Settings(runs=2, seed=1)}, lambda *_: Result([]))
    assert experiment.settings("smoke") == Settings(runs=2, seed=1)
    assert experiment.settings("smoke", runs=7, seed=0) == Settings(runs=7, seed=0)
    with pytest.raises(SoftscopeError, match="no scale is called 'huge'"):
        experiment.settings("huge")


def test_results_in_parts_say_how_many_runs_are_left_and_end_with_all() -> None:
    parts = by_runs(lambda own: Result([], seconds=float(own.runs)), Settings(runs=12), step=5)
    assert [(part.seconds, part.left) for part in parts] == [(5, "7 of 12 runs"), (10, "2 of 12 runs"), (12, None)]
    (whole,) = by_runs(lambda own: Result([], seconds=float(own.runs)), Settings(runs=3), step=5)
    assert (whole.seconds, whole.left) == (3, None)


def picture() -> bytes:
    with style():
        figure = new_figure(2.0, 1.0)
        figure.subplots().plot([0, 1], [1, 0])
    return to_png(figure)


def tiny(settings: Settings, store: Store, engine: Engine) -> Result:
    values = engine.map(float, [run.seed for run in settings.single_runs()])
    return Result(
        [Row("mean seed", Mean.of(values), Reported(0.0), "s")],
        figures={"main": picture(), "second": b"<svg xmlns='http://www.w3.org/2000/svg'/>"},
        notes=["a note"],
        subsets=["svhn: 15,000 of 73,257 training images"],
        seconds=1.5,
    )


@pytest.fixture
def experiment() -> Experiment:
    return Experiment("X0", ("fig_none",), "Nothing", {"smoke": Settings(runs=2)}, tiny)


def test_a_result_is_written_with_all_that_is_needed_to_repeat_it(experiment: Experiment, tmp_path: Path) -> None:
    given = {"store": Store(tmp_path / "store"), "engine": Engine(), "folder": tmp_path}
    written = reproduce(experiment, "smoke", **given)
    kept = json.loads((tmp_path / "X0" / "smoke.json").read_text())
    assert kept == written | {"files": ["smoke-second.svg", "smoke.png"]}
    assert kept["command"] == "softscope reproduce X0 --scale smoke"
    assert kept["subsets"] == ["svhn: 15,000 of 73,257 training images"]
    assert kept["rows"][0]["ours"] == {"value": 500.0, "standard_error": 500.0, "runs": 2, "over": "runs"}
    assert {"date", "seconds", "step_seconds", "versions", "machine", "seed"} == kept["provenance"].keys()
    assert (tmp_path / "X0" / "smoke.png").read_bytes().startswith(b"\x89PNG")
    again = reproduce(experiment, "smoke", **given)
    assert {**again, "provenance": 0} == {**written, "provenance": 0}


def test_an_experiment_of_hours_writes_a_result_after_each_part_and_says_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def parts(*_: object) -> Iterator[Result]:
        for number in (1, 2):
            seen.append(sorted(path.name for path in tmp_path.glob("X0/*")))
            yield Result([Row("networks", Mean(number))], left=None if number == 2 else "1 network, about 3.0 hours")

    experiment = Experiment("X0", (), "", {"overnight": Settings()}, parts)
    written = reproduce(experiment, "overnight", store=Store(tmp_path / "s"), engine=Engine(), folder=tmp_path)
    assert seen == [[], ["overnight.json"]], "the first part was on disk before the second began"
    assert "left: 1 network, about 3.0 hours" in capsys.readouterr().err
    assert written["rows"][0]["ours"]["value"] == 2
    assert "left" not in written


def test_the_command_names_what_differs_from_the_scale(experiment: Experiment) -> None:
    assert command(experiment, "smoke", Settings(runs=3, seed=7)).endswith("--scale smoke --runs 3 --seed 7")


def test_a_figure_is_the_same_bytes_each_time() -> None:
    assert picture() == picture()


def test_a_figure_of_unknown_kind_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    broken = Experiment("X0", (), "", {"smoke": Settings()}, lambda *_: Result([], figures={"main": b"GIF89a"}))
    with pytest.raises(SoftscopeError, match="neither PNG nor SVG"):
        reproduce(broken, "smoke", store=Store(tmp_path), engine=Engine(), folder=tmp_path / "results")
    assert not (tmp_path / "results").exists()
