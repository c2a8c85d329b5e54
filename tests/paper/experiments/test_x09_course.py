"""X9: the course of training, from snapshots."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.features import FeatureSet
from softscope.head import Head
from softscope.paper.experiments.networks import trained
from softscope.paper.experiments.x09_course import course, moment, table
from softscope.paper.experiments.x09_plans import SCALES, plans
from softscope.paper.plots.benchmark import training_course
from softscope.runs import Store


def test_a_moment_agrees_with_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score
    from sklearn.mixture import GaussianMixture

    random = np.random.default_rng(0)
    head = Head(np.eye(3, 4), np.zeros(3))
    labels = random.integers(0, 3, 600)
    z = np.abs(random.normal(size=(600, 4)) + 4 * np.eye(3, 4)[labels]).astype(np.float32)
    train, test = FeatureSet(z[:400], labels[:400]), FeatureSet(z[400:], labels[400:])
    far = np.abs(random.normal(size=(200, 4))).astype(np.float32)
    measured = moment(head, train, test, {"far": FeatureSet(far)})
    logits = z[400:] @ head.weight.T, far @ head.weight.T
    soft = [np.exp(own) / np.exp(own).sum(1, keepdims=True) for own in logits]
    truth = np.repeat([0, 1], 200)
    assert measured["max"] == pytest.approx(100 * roc_auc_score(truth, -np.concatenate(soft).max(1)), abs=1e-6)
    entropies = -np.concatenate([(own * np.log(own)).sum(1) for own in soft])
    assert measured["entropy"] == pytest.approx(100 * roc_auc_score(truth, entropies), abs=1e-6)
    mixture = GaussianMixture(3, reg_covar=1e-5, random_state=0).fit(z[:400])
    density = -mixture.score_samples(np.concatenate([z[400:], far]))
    assert measured["density"] == pytest.approx(100 * roc_auc_score(truth, density), abs=0.5)
    assert measured["accuracy"] == pytest.approx(100 * np.mean(logits[0].argmax(1) == labels[400:]))
    assert measured["extrapolation"] == pytest.approx(measured["density"] - measured["entropy"])
    assert measured["overlap"] == pytest.approx(100 - measured["density"])
    cosines = (z[:400, :3] / np.linalg.norm(z[:400], axis=1, keepdims=True)).max(1)
    assert measured["cosine_train"] == pytest.approx(cosines.mean(), abs=1e-6)


def test_every_snapshot_of_a_network_is_measured(tmp_path: Path) -> None:
    plan = replace(plans(SCALES["smoke"])[0], snapshots=2)
    network = trained(Store(tmp_path), plan)
    moments = course(network).json()
    assert [one["epoch"] for one in moments] == [1, 4]
    assert moments[1]["accuracy"] == pytest.approx(network.numbers["accuracy"], abs=1e-6), "the last is the network"
    assert moments[0]["accuracy"] < moments[1]["accuracy"]


def _known() -> dict[str, list[dict[str, float]]]:
    names = ("accuracy", "max", "entropy", "density", "extrapolation", "overlap", "cosine_train", "cosine_ood")
    return {
        data: [{"epoch": epoch} | {name: base + epoch + n for n, name in enumerate(names)} for epoch in (2, 4)]
        for data, base in (("one", 10.0), ("two", 50.0))
    }


def test_the_table_has_a_line_for_each_snapshot() -> None:
    lines = table(_known())
    assert [(line["data set"], line["epoch"]) for line in lines] == [
        ("one", "2"),
        ("one", "4"),
        ("two", "2"),
        ("two", "4"),
    ]
    assert lines[0] == {
        "data set": "one", "epoch": "2", "accuracy": "12.0", "U_max": "13.0", "U_entropy": "14.0", "U_density": "15.0",
        "cause 2": "16.0", "cause 3": "17.0", "max cos, train": "18.00", "max cos, OOD": "19.00",
    }  # fmt: skip


def test_the_figure_shows_each_quantity_against_the_share_of_training() -> None:
    figure = training_course(_known())
    drawn = {axes.get_title(loc="left"): {line.get_label(): line for line in axes.get_lines()} for axes in figure.axes}
    assert list(drawn) == [
        "accuracy, %", "U_entropy: AUROC, %", "U_density: AUROC, %", "cause 2, points", "cause 3, points",
        "max cos, training images",
    ]  # fmt: skip
    line = drawn["U_density: AUROC, %"]["two"]
    assert list(line.get_xdata()) == [0.5, 1.0]
    assert list(line.get_ydata()) == [55.0, 57.0]
    assert list(drawn["max cos, training images"]["one"].get_ydata()) == [18.0, 20.0]
