"""Trained networks in the store: trained once, readable by `softscope diagnose`, their numbers right."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.paper.experiments.judge import claim_tables, detection
from softscope.paper.experiments.networks import Images, NetworkPlan, TrainedNetwork, subsets, trained
from softscope.paper.experiments.x13_plans import SCALES as LEADERBOARD
from softscope.paper.training import TrainSettings
from softscope.runs import Store

PLAN = NetworkPlan(
    data=Images("digits", (0, 1, 2)),
    ood=(Images("digits", (3, 4)),),
    net="small",
    config={"features": 8},
    training=TrainSettings(epochs=4, batch=16, precision="float32", threads=1),
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> TrainedNetwork:
    return trained(Store(tmp_path_factory.mktemp("store")), PLAN)


def test_the_features_are_what_the_last_layer_sees(network: TrainedNetwork) -> None:
    from softscope.paper.training import evaluate

    images = PLAN.data.load("test")
    direct = evaluate(network.net(), images.images, images.labels)
    assert network.numbers["accuracy"] == pytest.approx(100 * direct.accuracy)
    assert network.numbers["cross_entropy"] == pytest.approx(direct.loss, rel=1e-4)
    np.testing.assert_array_equal(network.test.labels, images.labels)
    assert network.head.classes == ("0", "1", "2")
    assert network.ood["digits-3-4"].labels is None
    assert len(network.ood["digits-3-4"]) == len(PLAN.ood[0].load("test"))


def test_a_network_is_trained_once(network: TrainedNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr("softscope.paper.training.loop.train", never)
    store = Store(network.made.folder.parent.parent)
    assert trained(store, PLAN) == network
    with pytest.raises(AssertionError, match="trained again"):
        trained(store, replace(PLAN, training=replace(PLAN.training, seed=1)))


def test_snapshots_are_kept_from_the_first_epoch_to_the_last_and_the_last_is_the_model(
    network: TrainedNetwork, tmp_path: Path
) -> None:
    import torch

    from softscope.paper.nets import load_model

    assert network.snapshots() == {}
    plan = replace(PLAN, snapshots=3)
    kept = trained(Store(tmp_path), plan)
    assert list(kept.snapshots()) == [1, 2, 4]
    first, *_, last = (load_model(path).net.state_dict() for path in kept.snapshots().values())
    model = kept.net().state_dict()
    assert all(torch.equal(model[name], last[name]) for name in model)
    assert not torch.equal(model["classifier.weight"], first["classifier.weight"])
    np.testing.assert_array_equal(kept.test.array(), network.test.array())
    assert replace(PLAN, snapshots=1).snapshot_epochs() == (4,)


def test_a_name_of_many_classes_is_short_enough_for_a_file() -> None:
    assert Images("digits", (3, 4)).name == "digits-3-4"
    assert Images("cifar100", tuple(range(70, 100))).name == "cifar100-70-to-99"
    assert max(len(ood.name) for plan in LEADERBOARD["laptop"].networks for ood in plan.ood) < 80


def test_the_subsets_name_each_part_once(network: TrainedNetwork) -> None:
    named = subsets([network, network])
    assert len(named) == len(set(named)) == 3
    assert named[0] == "digits: train subset: 387 of 1,297 (3 of 10 classes)"


def test_the_diagnose_command_names_files_that_exist(network: TrainedNetwork) -> None:
    words = network.diagnose_command("out").split()
    files = [word.split("=")[-1] for word in words if word.endswith(".safetensors")]
    assert len(files) == 4
    assert all(Path(file).exists() for file in files)


def test_the_diagnose_command_is_relative_where_the_store_is_here(
    network: TrainedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(network.made.folder.parent.parent)
    words = network.diagnose_command("out").split()
    assert words[3] == str(network.made.folder.relative_to(Path.cwd()) / "head.safetensors")


def test_detection_agrees_with_scikit_learn(network: TrainedNetwork) -> None:
    from scipy.special import log_softmax
    from scipy.stats import entropy
    from sklearn.metrics import roc_auc_score

    detected = detection(network, "digits-3-4").json()
    sides = [network.test.array(), network.ood["digits-3-4"].array()]
    logits = network.head.logits(np.concatenate(sides)).astype(np.float64)
    truth = np.repeat([0, 1], [len(side) for side in sides])
    softmax = np.exp(log_softmax(logits, axis=1))
    assert detected["auroc"]["entropy"] == pytest.approx(100 * roc_auc_score(truth, entropy(softmax, axis=1)), abs=0.05)
    assert detected["auroc"]["max"] == pytest.approx(100 * roc_auc_score(truth, -softmax.max(axis=1)), abs=0.05)
    causes = detected["causes"]
    assert sum(causes.values()) == pytest.approx(100 - detected["auroc"]["plain-entropy"])
    assert detected["accuracy"] == network.numbers["accuracy"]


def test_claims_get_one_row_a_network(network: TrainedNetwork) -> None:
    detected = detection(network, "digits-3-4").json()
    tables = claim_tables([("a", detected), ("b", detected)], ("T23", "T26"))
    assert set(tables) == {"T23", "T26"}
    assert [row["network"] for row in tables["T23"]] == ["a", "b"]
    assert tables["T23"][0]["low"] <= tables["T23"][0]["difference"] <= tables["T23"][0]["high"]
    assert tables["T26"][0]["entropy_out"] > tables["T26"][0]["entropy_in"]


def test_the_four_shares_are_of_what_exceeds_t4s_threshold_of_rows_that_nothing_was_fitted_on(
    network: TrainedNetwork,
) -> None:
    from softscope.estimators import Density, Entropy

    detected = detection(network, "digits-3-4").json()["claims"]["T21"]
    assert detected.pop("thresholds") == "held out"
    assert sum(detected.values()) == pytest.approx(1)
    for estimator, own in ((Entropy(), "softmax_only"), (Density(), "density_only")):
        estimator.fit(network.head, network.train)
        known = np.sort(estimator.uncertainty(network.test))
        limit = known[int(0.95 * len(known))]  # exceeded by less than 5 % of test inputs, its neighbour below is not
        share = np.mean(estimator.uncertainty(network.ood["digits-3-4"]) > limit)
        assert detected["both"] + detected[own] == pytest.approx(share)


@pytest.mark.slow
def test_a_network_of_the_store_can_be_diagnosed(network: TrainedNetwork, tmp_path: Path) -> None:
    words = shlex.split(network.diagnose_command(str(tmp_path / "out")))
    softscope = [sys.executable, "-c", "from softscope.cli import main; main()"]
    done = subprocess.run([*softscope, *words[1:], "--quiet", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["causes"]) >= {"digits-3-4"}
    assert (tmp_path / "out" / "report.html").exists()
