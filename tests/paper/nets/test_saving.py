"""A model file is self-contained, and a hostile or damaged one is refused."""

import json

import numpy as np
import pytest
import torch

from softscope.errors import SoftscopeError
from softscope.files import read_safetensors, write_safetensors
from softscope.paper.nets import build, load_model, save_model


@pytest.mark.parametrize(
    ("name", "config", "shape"),
    [
        ("toy", {}, (2,)),
        ("lenet", {"features": 8, "classes": 3, "activation": "tanh"}, (28, 28, 1)),
        ("vgg", {"blocks": 2, "dropout": 0.3}, (28, 28, 1)),
        ("filter", {"conv_layers": 2}, (9, 9, 1)),
    ],
)
def test_a_saved_network_comes_back_with_the_same_logits(tmp_path, name, config, shape):
    net = build(name, seed=3, **config).eval()
    images = np.random.default_rng(0).integers(0, 256, (5, *shape), dtype=np.uint8)
    net.normalise.fit(images)
    names = [f"class {i}" for i in range(net.classifier.out_features)]
    save_model(net, tmp_path / "m.safetensors", classes=names, dataset="mnist", training={"epochs": 2})
    saved = load_model(tmp_path / "m.safetensors")
    with torch.inference_mode():
        assert torch.equal(saved.net(torch.from_numpy(images)), net(torch.from_numpy(images)))
    assert saved.classes == tuple(names)
    assert saved.dataset == "mnist"
    assert saved.training == {"epochs": 2}
    assert not saved.net.training


def test_a_frozen_classifier_without_bias_is_saved_as_it_is(tmp_path):
    net = build("toy")
    net.replace_classifier(np.eye(3, 16))
    save_model(net, tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors").net
    assert loaded.classifier.bias is None
    assert np.array_equal(loaded.classifier.weight.detach().numpy(), np.eye(3, 16))


def tampered(path, **changes):
    tensors, metadata = read_safetensors(path)
    card = json.loads(metadata["card"]) | changes
    write_safetensors(path, tensors, metadata | {"card": json.dumps(card)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"net": "os.system"}, "not a network"),
        ({"config": {"features": 10**9}}, "the network expects"),
        ({"config": {"nonsense": 1}}, "nonsense"),
        ({"config": [1]}, "description of the model is damaged"),
        ({"net": "filter", "config": {}}, "don't match the network filter"),
    ],
)
def test_a_tampered_description_is_refused_before_anything_is_allocated(tmp_path, changes, words):
    save_model(build("toy"), tmp_path / "m.safetensors")
    tampered(tmp_path / "m.safetensors", **changes)
    with pytest.raises(SoftscopeError, match=words):
        load_model(tmp_path / "m.safetensors")


def test_a_foreign_safetensors_file_gets_a_hint(tmp_path):
    write_safetensors(tmp_path / "w.safetensors", {"weight": np.ones((2, 2), np.float32)})
    with pytest.raises(SoftscopeError, match="no model saved by softscope"):
        load_model(tmp_path / "w.safetensors")


def test_a_truncated_file_is_refused(tmp_path):
    save_model(build("toy"), tmp_path / "m.safetensors")
    whole = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "m.safetensors").write_bytes(whole[:-10])
    with pytest.raises(SoftscopeError, match="not a whole safetensors file"):
        load_model(tmp_path / "m.safetensors")


def test_class_names_must_match_the_classes(tmp_path):
    with pytest.raises(SoftscopeError, match="2 class names for a network of 3"):
        save_model(build("toy"), tmp_path / "m.safetensors", classes=["a", "b"])
    assert not (tmp_path / "m.safetensors").exists()
