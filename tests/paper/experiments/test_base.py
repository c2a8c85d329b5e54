"""Settings and scales: what determines an experiment's numbers."""

import pytest

from softscope.errors import SoftscopeError
from softscope.paper.experiments.base import Experiment, Result, Settings


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
