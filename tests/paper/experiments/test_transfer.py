"""Transfer from a pre-trained network: activations once, a new last layer, then the last modules."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from softscope.head import Head
from softscope.paper.experiments.networks import Images, NetworkPlan, trained
from softscope.paper.experiments.transfer import ActivationPlan, TransferPlan, activations, transferred
from softscope.paper.experiments.x10_plans import Photographs
from softscope.paper.training import TrainSettings
from softscope.runs import Store

BRIEF = TrainSettings(epochs=1, batch=16, precision="float32", threads=1)
SOURCE = NetworkPlan(data=Images("digits"), net="small", training=BRIEF)
PLAN = TransferPlan(
    source=SOURCE,
    data=Photographs("digits", (0, 1, 2)),
    ood=(Photographs("digits", (7, 8)),),
    training=replace(BRIEF, epochs=4),
    tuning=BRIEF,
    tail=2,
    net="transferred",
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


def test_the_last_layer_sees_the_features_of_the_source_as_they_are(store: Store) -> None:
    network = transferred(store, PLAN.before)
    images = PLAN.data.load("test").images
    with torch.inference_mode():
        expected = trained(store, SOURCE).net().forward_features(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(network.test.array(), expected, rtol=1e-5, atol=1e-6)
    assert network.head.n_classes == 3
    assert network.head.class_name(1) == "1"
    assert network.numbers["accuracy"] > 80
    assert len(network.numbers["history"]["loss"]) == 4


def test_tuning_starts_from_the_last_layer_and_changes_the_features(store: Store) -> None:
    last, tuned = transferred(store, PLAN.before), transferred(store, PLAN)
    assert not np.allclose(last.test.array(), tuned.test.array())
    assert tuned.numbers["history"]["loss"][0] < last.numbers["history"]["loss"][0]
    assert tuned.train.labels is not None
    assert set(tuned.ood) == {"digits-7-8"}


@pytest.mark.parametrize("plan", [PLAN, PLAN.before, replace(PLAN, tail=None)])
def test_the_network_itself_gives_the_features_and_logits_that_were_kept(store: Store, plan: TransferPlan) -> None:
    network = transferred(store, plan)
    images = torch.from_numpy(plan.ood[0].load("test").images)
    with torch.inference_mode():
        z, logits = network.net().forward_features(images), network.net()(images)
    kept = network.ood["digits-7-8"].array()
    np.testing.assert_allclose(kept, z.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(network.head.logits(kept), logits.numpy(), rtol=1e-4, atol=1e-4)


def test_everything_is_read_again_and_nothing_computed_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = transferred(store, PLAN)
    monkeypatch.setattr("softscope.runs.Draft.fill", lambda *given: pytest.fail("computed again"))
    again = transferred(store, PLAN)
    assert again.made.digest == first.made.digest


def test_a_diagnosis_command_names_every_feature_file(store: Store) -> None:
    network = transferred(store, PLAN.before)
    words = network.diagnose_command("report").split()
    files = [word.split("=")[-1] for word in words if word.endswith(".safetensors")]
    assert len(files) == 4
    assert all(Path(file).exists() for file in files)
    assert Head.load(files[0]).n_features == 64


def test_images_of_another_split_are_other_activations(store: Store) -> None:
    train, test = (activations(store, ActivationPlan(SOURCE, PLAN.data, split, None)) for split in ("train", "test"))
    assert "maps" not in train.tensors()
    assert len(train.tensors()["z"]) == len(PLAN.data.load("train"))
    assert len(test.tensors()["labels"]) == len(PLAN.data.load("test"))


def test_grey_images_have_one_channel_and_keep_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    from softscope.images import ImageSet

    colour = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    colour_set = ImageSet(colour, np.arange(4), tuple("abcd"), "beans", "test", None, {}, ("image 7: broken",))
    monkeypatch.setattr("softscope.paper.experiments.x10_plans.load", lambda *given, **named: colour_set)
    grey = Photographs("beans", size=8, grey=True).load("test")
    assert grey.images.shape == (4, 8, 8, 1)
    np.testing.assert_array_equal(grey.labels, colour_set.labels)
    assert grey.skipped == ("image 7: broken",)
