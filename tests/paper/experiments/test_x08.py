"""X8: the density search on trained networks."""

from dataclasses import replace

import numpy as np
import pytest

from softscope.engine import Engine
from softscope.files import write_json
from softscope.paper.experiments import x08_density
from softscope.paper.experiments.networks import trained
from softscope.paper.experiments.x08_density import CHOICES, SCALES, alternatives, before, both_layers, run
from softscope.paper.experiments.x09_plans import SCALES as NETWORKS
from softscope.paper.experiments.x09_plans import plans
from softscope.runs import Store
from softscope.tuning import fitting

SMOKE = replace(SCALES["smoke"], plans=SCALES["smoke"].plans[:1], iterations=5)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def result(store):
    return run(SMOKE, store, Engine(workers=1, progress=False))


def test_every_choice_of_the_paper_and_the_kernel_density_get_a_verdict(result):
    stated = [row.label for row in result.rows if row.paper is not None]
    for option, words in CHOICES.items():
        assert option == "neurons" or any(label.startswith(f"{words} less") for label in stated)
    assert any("kernel density" in label for label in stated)


def test_rows_follow_from_the_table_of_settings(result):
    table = result.tables["settings"]
    paper = {"fit": "em", "ridge": 1e-5, "layer": "after", "covariance": "full", "transform": "none", "components": "K"}

    def mean(**changes):
        wanted = paper | changes
        (row,) = [r for r in table if "fit" in r and all(r[name] == value for name, value in wanted.items())]
        return float(np.mean(list(row["auroc"].values())))

    expected = mean() - max(mean(covariance="diagonal"), mean(covariance="spherical"))
    row = next(row for row in result.rows if row.label.startswith("full covariance less"))
    assert row.ours.value == pytest.approx(expected, abs=0.02)
    assert row.paper.least == -0.1
    assert row.verdict == "undecided", "one network"


def test_features_before_belong_to_those_after_row_for_row(store, result):
    network = trained(store, SMOKE.plans[0])
    features = both_layers(network, before(network))
    for early, late in zip(features.layer("before").every.values(), features.after.every.values()):
        np.testing.assert_allclose(np.maximum(early.array(), 0), late.array(), atol=1e-4)


def test_it_runs_again_from_the_store_without_a_fit(store, result, monkeypatch):
    monkeypatch.setattr(fitting, "fit_from", None)
    again = run(SMOKE, store, Engine(workers=1, progress=False))
    assert again.rows == result.rows
    assert again.tables == result.tables


def test_laptop_and_paper_search_on_the_networks_of_X9():
    for scale in ("laptop", "paper"):
        assert list(SCALES[scale].plans) == plans(NETWORKS[scale].single_runs()[0])
    assert SCALES["paper"].draws == 48


def test_alternatives_change_one_option_alone(store, result):
    network = trained(store, SMOKE.plans[0])
    from softscope.tuning import tune

    step = before(network)
    known = {"after": network.made, "before": step}
    search = tune(both_layers(network, step), settings=SMOKE.draws, iterations=5, run=network.run, inputs=known)
    assert set(alternatives(search, "covariance")) == {"diagonal", "spherical"}
    assert set(alternatives(search, "components")) == {"1", "10", "100"}
    assert set(alternatives(search, "layer")) == {"before"}


def test_a_search_in_parts_ends_as_the_whole_and_goes_on_from_what_was_kept(store, tmp_path, monkeypatch):
    engine = Engine(workers=1, progress=False)
    both = replace(SCALES["smoke"], draws=1, iterations=5)
    first, last = run(replace(both, piecewise=True), store, engine)
    assert (first.left, first.part, len(first.kept)) == ("1 network: digits-5-6-7-8-9", True, 1)
    assert (last.left, last.part, len(last.kept)) == (None, False, 2)
    whole = run(both, store, engine)
    assert (last.rows, last.tables) == (whole.rows, whole.tables)

    for name, record in last.kept.items():
        write_json(tmp_path / "results" / "X8" / name, record)
    elsewhere = Store(tmp_path / "store", results=tmp_path / "results")
    monkeypatch.setattr(x08_density, "trained", None)
    read = list(run(replace(both, piecewise=True), elsewhere, engine))
    assert [one.left for one in read] == [first.left, None]
    assert (read[-1].rows, read[-1].tables) == (whole.rows, whole.tables)
    with pytest.raises(TypeError):  # what was kept is of another search
        next(iter(run(replace(both, piecewise=True, draws=2), elsewhere, engine)))
