"""X3: what is measured of a head, on heads where the answer is known, and the experiment at its smallest scale."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.geometry import optimal_structure
from softscope.head import Head
from softscope.paper.claims.trained import check_skewness
from softscope.paper.experiments.networks import NetworkPlan
from softscope.paper.experiments.x03_weights import SCALES, Column, _how_long, cosine_deviation, run
from softscope.paper.nets import build
from softscope.paper.nets.pretrained import Pretrained, Weights
from softscope.runs import Store


def test_the_optimal_structure_has_no_deviation_and_parallel_weights_the_largest() -> None:
    assert cosine_deviation(optimal_structure(5, 16, seed=0)) == pytest.approx(0, abs=1e-12)
    assert cosine_deviation(Head(np.ones((5, 3)))) == pytest.approx(1.25)


def test_a_last_layer_starts_as_keras_draws_it_or_as_torch_does() -> None:
    import torch

    like = SCALES["smoke"].columns[1]
    for column, limit in ((like, (6 / 21) ** 0.5), (replace(like, plan=torch_start(like)), 16**-0.5)):
        heads = column.untrained(5, 60)
        weights = np.concatenate([head.weight.ravel() for head in heads])
        assert weights.std() == pytest.approx(limit / 3**0.5, rel=0.03)
        assert np.abs(weights).max() <= limit
        assert any(head.bias.any() for head in heads) == (column is not like)
    keras = torch.empty(5, 16)
    torch.nn.init.xavier_uniform_(keras)
    assert float(keras.abs().max()) <= (6 / 21) ** 0.5


def torch_start(column: Column) -> NetworkPlan:
    plan = column.plan
    return NetworkPlan(data=plan.data, net=plan.net, config=plan.config, training=plan.training)


def test_resnet18_is_the_network_that_x9_trains_at_the_same_scale() -> None:
    from softscope.paper.experiments import x09_plans

    for scale in ("laptop", "paper"):
        benchmark = x09_plans.SCALES[scale]
        trained = [plan for one in benchmark.single_runs() for plan in x09_plans.plans(one)]
        columns = [column for column in SCALES[scale].columns if column.plan.net == "resnet18"]
        assert [column.plan.data.name for column in columns] == ["cifar10", "cifar100"]
        for column in columns:
            assert column.runs == benchmark.runs
            assert all(column.seeded(one.seed) in trained for one in SCALES[scale].single_runs()[: column.runs])
            assert f"{column.plan.training.epochs} epochs" in column.title
    assert "20,000 images" in SCALES["laptop"].columns[-2].title


def test_a_column_may_ask_for_fewer_untrained_layers() -> None:
    assert len(replace(SCALES["smoke"].columns[0], draws=3).untrained(2, 20)) == 3


def test_every_column_is_measured_and_drawn(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = SCALES["smoke"]
    result = run(settings, Store(tmp_path_factory.mktemp("store")), Engine(workers=1, progress=False))
    assert len(result.rows) == 7 * len(settings.columns)
    assert len(result.tables["heads"]) == settings.runs * len(settings.columns)
    heads = result.tables["heads"]
    assert [row["classes"] for row in heads] == [2, 5]
    assert [len(row["cosines"]) for row in heads] == [1, 10]
    (skewed,) = result.tables["T25"]
    cosines = np.asarray(heads[1]["cosines"])
    assert skewed["similar"][0]["cosine"] == cosines.max()
    from scipy.stats import skew

    assert skewed["skewness"] == pytest.approx(skew(cosines))
    assert len(result.figures["weights"].axes) == 3 * len(settings.columns)


def test_a_published_head_is_a_column_and_evidence_of_shared_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = build("lenet", classes=120, features=130)
    network = Pretrained("efficientnet_lite0", net, 28, None, Weights("nowhere", "none", 0, ""))
    monkeypatch.setattr("softscope.paper.nets.pretrained.pretrained", lambda name: network)
    settings = replace(SCALES["smoke"], columns=SCALES["smoke"].columns[:1], published=("efficientnet_lite0",))
    result = run(settings, Store(tmp_path), Engine(workers=1))
    assert [row["classes"] for row in result.tables["T25"]] == [120]
    assert "EfficientNet-Lite0, ImageNet" in result.tables["T25"][0]["network"]
    assert len(result.tables["T25"][0]["similar"]) == 3
    assert any(row.label.startswith("K=120, H=130 (Lite0)") for row in result.rows)
    assert "1 heads with 100 classes or more" in check_skewness(rows=result.tables["T25"]).summary


def test_a_published_head_that_is_not_here_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softscope.paper.nets.pretrained.find_spec", lambda name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = replace(SCALES["smoke"], columns=SCALES["smoke"].columns[:1], published=("efficientnet_lite0",))
    result = run(settings, Store(tmp_path), Engine(workers=1))
    assert any("efficientnet_lite0 on ImageNet is left out" in note for note in result.notes)


def test_scale_overnight_reads_the_heads_that_x9_has_and_trains_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(head: Head | None, seed: int) -> SimpleNamespace:
        plan = SimpleNamespace(training=SimpleNamespace(epochs=20))
        return SimpleNamespace(head=head, accuracy=91.0 + seed, seed=seed, facts={"subsets": []}, plan=plan)

    optimal = optimal_structure(10, 512, seed=0)
    lines = {"cifar10": [judged(optimal, 0), judged(None, 1000)], "cifar100": [judged(None, 0)]}
    monkeypatch.setattr("softscope.paper.experiments.x03_weights.measured", lambda *_: lines)
    settings = replace(SCALES["smoke"], columns=(), benchmark="overnight")
    result = run(settings, Store(tmp_path), Engine(workers=1, progress=False))
    (row,) = result.tables["heads"]
    assert (row["classes"], row["accuracy"], row["seed"], row["epochs"]) == (10, 91.0, 0, 20)
    assert row["network"].startswith("ResNet18, CIFAR-10, 20 epochs, all images")
    assert not list(tmp_path.glob("*/train-*"))


def test_scale_overnight_trains_lenets_until_the_loss_is_flat_and_twenty_of_two_classes() -> None:
    columns = SCALES["overnight"].columns
    assert [(column.plan.config["features"], column.runs) for column in columns] == [(4, 20), (16, 5), (32, 5), (16, 5)]
    assert all(column.plan.training.patience == 3 and column.plan.data.train is None for column in columns)
    assert _how_long(columns[0].plan.training).startswith("until no loss of 3 epochs in a row is 1 % below")
    assert _how_long(SCALES["smoke"].columns[0].plan.training) == "3 epochs"
