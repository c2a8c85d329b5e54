"""The register: every entry loads, has three scales, and is found by its names."""

import subprocess
import sys

import pytest

from softscope.errors import SoftscopeError
from softscope.paper.experiments import REGISTER, Entry, find, load
from softscope.paper.experiments.base import SCALE_NAMES, Settings


@pytest.mark.parametrize("entry", REGISTER, ids=lambda entry: entry.id)
def test_every_experiment_has_settings_for_each_scale(entry: Entry) -> None:
    experiment = load(entry)
    assert tuple(experiment.scales) in (SCALE_NAMES, tuple(name for name in SCALE_NAMES if name != "overnight"))
    assert all(isinstance(settings, Settings) for settings in experiment.scales.values())
    assert callable(experiment.run)
    assert entry.title


def test_ids_are_unique() -> None:
    assert len({entry.id for entry in REGISTER}) == len(REGISTER)


@pytest.mark.parametrize("name", ["X1a", "x1a", " X1A ", "X1", "fig_2d", "FIG_2D", "all"])
def test_an_experiment_is_found_by_id_group_and_figure(name: str) -> None:
    assert "X1a" in [entry.id for entry in find(name)]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(SoftscopeError, match=r"'X99'.*X1a \(fig_2d\)"):
        find("X99")


def test_the_register_imports_no_experiment() -> None:
    loaded = "[m for m in sys.modules if '.x0' in m or m in ('torch', 'scipy')]"
    code = f"import softscope.paper.experiments, sys; print({loaded})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
