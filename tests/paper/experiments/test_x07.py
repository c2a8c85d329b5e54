"""X7: depth against accuracy and AUROC, and networks trained alike taken together (T26)."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.features import FeatureSet
from softscope.head import Head
from softscope.metrics import auroc
from softscope.paper.claims.trained import check_ensemble, check_entropy_preferred
from softscope.paper.experiments import find, load
from softscope.paper.experiments.base import Result, reproduce
from softscope.paper.experiments.judge import average, together
from softscope.paper.experiments.x07_depth import SCALES, _picture, _rows, run
from softscope.runs import Store


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(SCALES["smoke"], Store(tmp_path_factory.mktemp("store")), Engine(workers=1))


def test_the_papers_figure_leads_to_x7() -> None:
    assert [entry.id for entry in find("fig_depth_experiment")] == ["X7"]


def test_the_average_softmax_is_the_mean_of_the_softmaxes(rng: np.random.Generator) -> None:
    logits = [rng.normal(scale=4.0, size=(50, 5)).astype(np.float32) for _ in range(3)]
    powers = [np.exp(own.astype(np.float64)) for own in logits]
    expected = np.mean([own / own.sum(axis=1, keepdims=True) for own in powers], axis=0)
    np.testing.assert_allclose(np.exp(average(logits)), expected, rtol=1e-12)


def test_the_entropy_of_the_ensemble_is_that_of_its_members_plus_their_disagreement(rng: np.random.Generator) -> None:
    z = {"test": rng.normal(size=(200, 4)).astype(np.float32), "ood": rng.normal(size=(300, 4)).astype(np.float32)}
    heads = [Head(rng.normal(scale=2.0, size=(3, 4)).astype(np.float32)) for _ in range(3)]
    test, ood = FeatureSet(z["test"], name="test"), FeatureSet(z["ood"], name="ood")
    networks: Any = [SimpleNamespace(head=head, test=test, ood={"ood": ood}) for head in heads]
    ensemble = together(networks, "ood")
    p = {name: np.stack([softmax(head.logits(rows)) for head in heads]) for name, rows in z.items()}
    assert ensemble["networks"] == 3
    assert ensemble["rises"] == pytest.approx(
        entropy(p["ood"]).mean(axis=1) - entropy(p["test"]).mean(axis=1), abs=1e-6
    )
    for name, side in (("test", "in"), ("ood", "out")):
        single, mean = entropy(p[name]), entropy(p[name].mean(axis=0))
        assert ensemble[f"entropy_{side}"] == pytest.approx(single.mean(), rel=1e-6)
        assert ensemble[f"ensemble_{side}"] == pytest.approx(mean.mean(), rel=1e-6)
        assert ensemble[f"ensemble_{side}"] > ensemble[f"entropy_{side}"]
    means = [entropy(p[name].mean(axis=0)) for name in ("test", "ood")]
    assert ensemble["auroc_ensemble"] == pytest.approx(100 * auroc(*means).value)


def softmax(logits: Any) -> Any:
    powers = np.exp(np.asarray(logits, np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


def entropy(p: Any) -> Any:
    return -(p * np.log(p)).sum(axis=-1)


def test_accuracy_and_auroc_are_given_for_both_directions_and_every_depth(smoke: Result) -> None:
    rows = {row.label: row for row in smoke.rows}
    for learned in ("digits-0-1-2-3-4", "digits-5-6-7-8-9"):
        for layers in (2, 4):
            assert rows[f"{learned}: accuracy, {layers} layers"].ours.value > 90
            assert rows[f"{learned}: AUROC of U_entropy, {layers} layers"].ours.value > 75
            assert rows[f"{learned}: accuracy, {layers} layers"].ours.runs == 2
    assert len(smoke.tables["runs"]) == 8


def test_a_gain_is_the_mean_difference_over_runs_and_judged_by_its_interval(smoke: Result) -> None:
    row = next(row for row in smoke.rows if row.label == "digits-0-1-2-3-4: AUROC of U_entropy, 4 less 2 layers")
    kept = [own for own in smoke.tables["runs"] if own["direction"].startswith("digits-0")]
    deep, shallow = ([own["entropy"] for own in kept if own["layers"] == layers] for layers in (4, 2))
    gains = np.subtract(deep, shallow)
    assert row.ours.value == pytest.approx(gains.mean())
    assert row.ours.standard_error == pytest.approx(gains.std(ddof=1) / np.sqrt(2))
    half = 12.706 * gains.std(ddof=1) / np.sqrt(2)  # t(0.975, 1)
    improved, worse = gains.mean() > half, gains.mean() < -half
    assert row.verdict == ("holds" if improved else "does not hold" if worse else "undecided")


def test_the_tables_are_evidence_that_the_claims_read(smoke: Result) -> None:
    assert len(smoke.tables["T23"]) == 8
    assert len(smoke.tables["T26"]) == 4
    assert "there are 2 at most" in check_ensemble(rows=smoke.tables["T26"]).summary
    assert [len(row["rises"]) for row in smoke.tables["T26"]] == [2] * 4
    assert check_entropy_preferred(rows=smoke.tables["T23"]).numbers["networks"] == 8


def test_a_run_is_the_same_whatever_the_number_of_runs() -> None:
    one, two = (replace(SCALES["paper"], runs=runs).single_runs() for runs in (1, 2))
    assert one[0] == two[0]
    assert one[0] != two[1]


def known(layers: int, run: int) -> Any:
    """A network of `layers` convolutions whose numbers are all different."""
    base = 10.0 * layers + run
    auroc = {"entropy": base + 1, "density": base + 2, "norm": base + 3, "familiarity": base + 4}
    return SimpleNamespace(numbers={"accuracy": base, "auroc": auroc})


def test_every_row_and_every_series_shows_its_own_score() -> None:
    depths = {layers: [known(layers, 0), known(layers, 2)] for layers in (2, 4)}
    assert {row.label: row.ours.value for row in _rows("mnist", depths)} == {
        "mnist: accuracy, 2 layers": 21.0,
        "mnist: AUROC of U_entropy, 2 layers": 22.0,
        "mnist: accuracy, 4 layers": 41.0,
        "mnist: AUROC of U_entropy, 4 layers": 42.0,
        "mnist: accuracy, 4 less 2 layers": 20.0,
        "mnist: AUROC of U_entropy, 4 less 2 layers": 20.0,
        "mnist: AUROC of U_density, 4 less 2 layers": 20.0,
        "mnist: AUROC of norm(z), 4 less 2 layers": 20.0,
        "mnist: AUROC of max cos, 4 less 2 layers": 20.0,
    }
    scores = {"norm": 9.0, "familiarity": 5.0, "density": 3.0, "entropy": 2.0}
    deep: Any = [SimpleNamespace(numbers={"auroc": scores, "accuracy": 1.0})]
    flat: Any = [SimpleNamespace(numbers={"auroc": dict.fromkeys(scores, 0.0), "accuracy": 0.0})]
    gains = {
        row.label.split(": ")[1]: row.ours.value for row in _rows("m", {2: flat, 4: deep}) if "less 2" in row.label
    }
    assert gains == {
        "accuracy, 4 less 2 layers": 1.0,
        "AUROC of U_entropy, 4 less 2 layers": 2.0,
        "AUROC of U_density, 4 less 2 layers": 3.0,
        "AUROC of norm(z), 4 less 2 layers": 9.0,
        "AUROC of max cos, 4 less 2 layers": 5.0,
    }
    figure = _picture({"a against b": depths})
    shown = {c.get_label(): c.lines[0].get_ydata().tolist() for axes in figure.axes for c in axes.containers}
    assert shown == {
        "accuracy": [21.0, 41.0],
        "U_entropy": [22.0, 42.0],
        "U_density": [23.0, 43.0],
        "norm(z)": [24.0, 44.0],
        "max cos": [25.0, 45.0],
    }


def test_a_result_follows_each_network_and_another_machine_goes_on_from_it(smoke: Result, tmp_path: Path) -> None:
    settings = replace(SCALES["smoke"], piecewise=True)
    x7 = replace(load(find("X7")[0]), scales={"smoke": settings})
    engine = Engine(workers=1, progress=False)
    parts = list(run(settings, Store(tmp_path / "store", results=tmp_path), engine))
    assert [part.left for part in parts] == [*(f"{n} networks" for n in range(7, 1, -1)), "1 network", None]
    assert [part.part for part in parts] == [True] * 3 + [False] * 5, "a run has four networks"
    assert [row.to_dict() for row in parts[-1].rows] == [row.to_dict() for row in smoke.rows]
    assert parts[-1].tables == smoke.tables
    written = reproduce(x7, "smoke", store=Store(tmp_path / "store"), engine=engine, folder=tmp_path)
    again = reproduce(x7, "smoke", store=Store(tmp_path / "empty"), engine=engine, folder=tmp_path)
    assert not list((tmp_path / "empty").glob("*/train-*")), "nothing is trained again"
    assert again["rows"] == written["rows"]
    assert again["tables"]["T26"] == [], "an ensemble needs features, which stayed behind"
