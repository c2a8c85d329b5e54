"""X5: how neurons are grouped, where OOD inputs land, how triples are ranked, and the experiment at its smallest."""

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
from softscope.paper.experiments import find
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.triples import Triples, landing
from softscope.paper.experiments.verdict import Statement
from softscope.paper.experiments.x05_activations import SCALES, run
from softscope.paper.plots.layers import neuron_groups
from softscope.reporting.style import to_png
from softscope.runs import Store


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Store]:
    store = Store(tmp_path_factory.mktemp("store"))
    return run(SCALES["smoke"], store, Engine(workers=1)), store


def test_both_figure_labels_of_the_paper_lead_to_x5() -> None:
    assert [entry.id for entry in find("fig_ankle_boots")] == ["X5"]
    assert [entry.id for entry in find("fig_activation_mnsit_fashion")] == ["X5"]


def test_neurons_stand_with_the_class_that_excites_them_most_and_silent_ones_last() -> None:
    labels = np.array([0, 0, 1, 1])
    z = np.array([[0, 0, 1, 5, 2], [0, 0, 3, 5, 2], [0, 4, 0, 0, 9], [0, 6, 0, 1, 9]], dtype=np.float32)
    order, group = neuron_groups(FeatureSet(z, labels, name="train"), 2)
    assert order.tolist() == [3, 2, 4, 1, 0]
    assert group.tolist() == [0, 0, 1, 1, -1]


def test_landing_counts_ood_by_the_class_taken_and_by_confidence_beyond_the_median() -> None:
    head = Head(np.eye(2, dtype=np.float32), None, ["left", "right"])
    train = FeatureSet(np.array([[2, 0], [0, 2], [3, 0]], np.float32), np.array([0, 1, 0]), name="train")
    ood = FeatureSet(np.array([[9, 0], [1, 0], [0, 1], [5, 0]], np.float32), name="ood")
    network: Any = SimpleNamespace(head=head, train=train, ood={"ood": ood})
    assert landing(network) == [
        {"class": "left", "share": 75.0, "confident_share": 50.0},
        {"class": "right", "share": 25.0, "confident_share": 0.0},
    ]


def triples(overlaps: dict[tuple[str, ...], float]) -> Triples:
    table = [
        {
            "classes": list(names),
            "overlap": value,
            "auroc_entropy": 100 - 2 * value,
            "landing": [{"class": name, "share": 100 / 3, "confident_share": 1.0} for name in names],
        }
        for names, value in overlaps.items()
    ]
    return Triples(sorted(table, key=lambda row: -row["overlap"]), [], 0.0)


def test_the_class_that_raises_overlap_is_found_and_blamed() -> None:
    ranked = triples(
        {("a", "b", "x"): 9.0, ("a", "c", "x"): 8.5, ("b", "c", "x"): 8.0}
        | {("a", "b", "c"): 1.0, ("a", "b", "d"): 1.2, ("a", "c", "d"): 0.8}
    )
    worst = ranked.effects()[0]
    assert worst["class"] == "x"
    assert worst["with"] == pytest.approx(8.5)
    assert worst["difference"] == pytest.approx(7.5)
    assert worst["with_error"] == pytest.approx(0.5 / np.sqrt(3))
    rows = {row.label: row for row in ranked.rows("x")}
    assert rows["overlap of triples with x, less without (6 triples)"].verdict == "holds"
    assert rows["rank of x among 5 classes by that difference"].ours.value == 1
    assert rows["triples with x among the worst 3"].ours.value == 3
    assert rows["AUROC of U_entropy of triples with x, less without"].ours.value == pytest.approx(-15)
    assert rows["AUROC of U_entropy of triples with x, less without"].verdict == "holds"
    rows = {row.label: row for row in ranked.rows("a")}
    assert rows["overlap of triples with a, less without (6 triples)"].verdict == "undecided", "one triple is without a"
    rows = {row.label: row for row in ranked.rows("d")}
    assert rows["overlap of triples with d, less without (6 triples)"].verdict != "holds"


def test_the_worst_triple_is_the_one_that_takes_most_for_the_suspect_with_confidence() -> None:
    def row(labels: tuple[int, ...], confident: float, share: float) -> dict[str, Any]:
        known = [{"class": "x", "confident_share": confident, "share": share}]
        return {"classes": ["x"], "labels": list(labels), "landing": known}

    ranked = Triples([row((0, 1, 9), 2.0, 90.0), row((0, 2, 9), 5.0, 10.0), row((1, 2, 9), 5.0, 30.0)], [], 0.0)
    assert ranked.most_taken_for("x") == (1, 2, 9)


def test_the_numbers_of_each_network_stand_beside_the_papers_words(smoke: tuple[Result, Store]) -> None:
    result, _ = smoke
    rows = {row.label: row for row in result.rows}
    for case in SCALES["smoke"].cases:
        assert rows[f"{case.name}: accuracy"].ours.value > 80
        assert rows[f"{case.name}: accuracy"].ours.runs == 2
        assert 0 < rows[f"{case.name}: overlap"].ours.value < 20
        weaker = rows[f"{case.name}: AUROC of norm(z)"]
        assert weaker.verdict == Statement("", least=50).judge(weaker.ours.interval())
    kept = [row["medians"] for row in result.tables["networks"] if row["case"] == "digits-0-1-2 against digits-3-4-5"]
    ratio = np.mean([own["OOD"]["norm"] / own["train"]["norm"] for own in kept])
    assert rows["mnist: median norm(z) of OOD over that of training"].ours.value == pytest.approx(ratio)
    for row in result.tables["networks"]:
        assert sum(own["share"] for own in row["landing"]) == pytest.approx(100)
    assert len(result.tables["T19"]) == 8


def test_magnified_inputs_approach_the_network_without_biases_as_one_over_a(smoke: tuple[Result, Store]) -> None:
    for row in smoke[0].tables["T22"]:
        assert row["departure_100"] < row["departure_10"] < row["departure_2"]
        assert row["departure_10"] / row["departure_100"] == pytest.approx(10, rel=0.3)
        assert 50 < row["gaining"] <= 100


def test_every_triple_is_ranked_by_its_overlap(smoke: tuple[Result, Store]) -> None:
    table = smoke[0].tables["triples"]
    assert len(table) == 4
    assert [row["overlap"] for row in table] == sorted((row["overlap"] for row in table), reverse=True)
    for row in table:
        assert row["overlap"] == pytest.approx(100 - row["auroc_density"])
        assert sum(own["share"] for own in row["landing"]) == pytest.approx(100)
    assert {row["class"] for row in smoke[0].tables["classes"]} == {"3", "4", "5", "9"}


def test_every_picture_has_a_caption_and_a_second_run_reads_the_first(smoke: tuple[Result, Store]) -> None:
    result, store = smoke
    assert list(result.figures) == ["mnist", "fashion", "boots", "worst", "histograms", "triples"]
    assert result.captions.keys() == result.figures.keys()
    again = run(SCALES["smoke"], store, Engine(workers=1))
    assert again.rows == result.rows
    first, second = result.figures["boots"], again.figures["boots"]
    assert not isinstance(first, bytes)
    assert not isinstance(second, bytes)
    assert to_png(first) == to_png(second)


def test_a_result_in_parts_follows_each_run_and_ends_as_the_whole(smoke: tuple[Result, Store]) -> None:
    whole, store = smoke
    first, last = run(replace(SCALES["smoke"], piecewise=True), store, Engine(workers=1))
    assert (first.left, last.left) == ("1 of 2 runs", None)
    accuracies = [row for row in first.rows if row.label.endswith(": accuracy")]
    assert accuracies
    assert all(row.ours.runs == 1 for row in accuracies)
    assert last.rows == whole.rows


def test_head_and_features_of_a_network_lie_side_by_side_for_diagnose(smoke: tuple[Result, Store]) -> None:
    """Head, train, test and OOD features lie side by side, under the names that `softscope diagnose` is given."""
    (folder, *_) = sorted(Path(smoke[1].root).glob("NetworkPlan-*/features-*"))
    names = {path.name for path in folder.glob("*.safetensors")}
    assert {"head.safetensors", "train.safetensors", "test.safetensors"} < names
    head = Head.load(folder / "head.safetensors")
    for name in names - {"head.safetensors"}:
        assert FeatureSet.open(folder / name).n_features == head.n_features
