"""Features and head of torch models: found, checked against the model's logits, and refused where they don't agree."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from softscope import FeatureSet, Head, SoftscopeError
from softscope.models import extract_features
from softscope.paper.nets import build

IMAGES = np.random.default_rng(0).integers(0, 256, (23, 28, 28, 1), dtype=np.uint8)
ROWS = np.random.default_rng(1).standard_normal((23, 6)).astype(np.float32)
LABELS = np.arange(23) % 3


class Plain(nn.Module):
    """No timm interface, functional activation, and a linear layer that isn't the last."""

    def __init__(self, classes=3):
        super().__init__()
        self.last = nn.Linear(8, classes)
        self.first = nn.Linear(6, 8)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.last(self.relu(self.first(x)))


class Functional(Plain):
    def forward(self, x):
        return self.last(functional.relu(self.first(x)))


class Ending(Plain):
    def __init__(self, end):
        super().__init__()
        self.end = end

    def forward(self, x):
        return self.end(super().forward(x))


class Branching(Plain):
    """Python's own `if` on values can't be traced without a batch."""

    def forward(self, x):
        return super().forward(x if x.sum() > -1e9 else -x)


class Output:
    def __init__(self, logits):
        self.logits = logits


def logits_of(model, images):
    with torch.inference_mode():
        return model.eval()(torch.from_numpy(images)).numpy()


@pytest.mark.parametrize(
    ("name", "config", "shape"),
    [
        ("toy", {}, (2,)),
        ("lenet", {"activation": "tanh", "classes": 5}, (28, 28, 1)),
        ("filter", {}, (9, 9, 1)),
        ("vgg", {"blocks": 2}, (28, 28, 1)),
        ("resnet18", {}, (32, 32, 3)),
    ],
)
def test_the_head_applied_to_the_features_gives_the_networks_own_logits(name, config, shape):
    net = build(name, **config)
    images = np.random.default_rng(0).integers(0, 256, (5, *shape), dtype=np.uint8)
    features = extract_features(net, images, batch=2)
    expected = logits_of(net, images)
    logits = Head.from_torch(net).logits(features.array())
    np.testing.assert_allclose(logits, expected, atol=1e-4 * np.abs(expected).max())
    assert features.metadata["layer"] == "after"
    assert features.metadata["classifier"] == "classifier"


def test_batches_change_nothing_and_labels_are_kept():
    net = build("lenet")
    whole = extract_features(net, IMAGES, LABELS, batch=23)
    pieces = extract_features(net, torch.from_numpy(IMAGES), LABELS, batch=4)
    np.testing.assert_allclose(whole.array(), pieces.array(), rtol=1e-5, atol=1e-5)
    assert np.array_equal(pieces.labels, LABELS)


def test_head_from_torch_is_the_last_layer_with_class_names():
    net = build("toy")
    head = Head.from_torch(net, classes=["a", "b", "c"])
    assert np.array_equal(head.weight, net.classifier.weight.detach().numpy())
    assert np.array_equal(head.bias, net.classifier.bias.detach().numpy())
    assert head.classes == ("a", "b", "c")


@pytest.mark.parametrize(
    "model",
    [
        Plain(),
        Functional(),
        Ending(nn.Identity()),
        Ending(nn.Dropout(0.5)),
        Ending(nn.Softmax(1)),
        Ending(nn.LogSoftmax(1)),
        Ending(lambda logits: functional.log_softmax(logits, dim=1)),
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3, bias=False)),
    ],
    ids=["plain", "functional", "identity", "dropout", "softmax", "log_softmax", "function", "sequential"],
)
def test_the_last_linear_layer_is_found_with_and_without_a_probe(model):
    last = model[2] if isinstance(model, nn.Sequential) else model.last
    features = extract_features(model, ROWS, batch=10)
    for head in (Head.from_torch(model), Head.from_torch(model, probe=ROWS[:3])):
        assert np.array_equal(head.weight, last.weight.detach().numpy())
        with torch.no_grad():
            expected = last(torch.from_numpy(features.array())).numpy()
        np.testing.assert_allclose(head.logits(features.array()), expected, atol=1e-5)


def test_a_model_that_returns_an_object_with_logits_is_understood():
    features = extract_features(Ending(Output), ROWS)
    assert features.array().shape == (23, 8)


def test_a_model_that_cannot_be_traced_needs_a_probe_and_the_error_lists_the_candidates():
    with pytest.raises(SoftscopeError, match=r"last \(8 -> 3\), first \(6 -> 8\)"):
        Head.from_torch(Branching())
    assert Head.from_torch(Branching(), probe=ROWS).n_features == 8


def test_two_layers_with_the_same_answer_are_ambiguous():
    class Twins(Plain):
        def __init__(self):
            super().__init__()
            self.twin = nn.Linear(8, 3)
            self.twin.load_state_dict(self.last.state_dict())

        def forward(self, x):
            z = self.relu(self.first(x))
            return (self.last(z) + self.twin(z)) / 2

    with pytest.raises(SoftscopeError, match=r"several make.*last \(8 -> 3\), twin \(8 -> 3\)"):
        extract_features(Twins(), ROWS)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Conv2d(1, 3, 28), "has no nn.Linear layer and no 1x1 convolution"),
        (Ending(lambda logits: 5 * logits), "none makes the model's answer.*scaled"),
        (Ending(lambda logits: logits[:, :, None]), r"returned a tensor of shape \(2, 3, 1\)"),
        (Ending(lambda logits: (logits, logits)), r"returned a tuple of a tensor of shape \(2, 3\), a tensor"),
    ],
)
def test_what_is_no_linear_classifier_is_explained(model, words):
    images = IMAGES.reshape(23, 1, 28, 28) if isinstance(model, nn.Conv2d) else ROWS
    with pytest.raises(SoftscopeError, match=words):
        extract_features(model, images)


def test_logits_scaled_after_a_named_classifier_are_caught():
    class Scaled(Plain):
        def get_classifier(self):
            return self.last

        def forward(self, x):
            return 2 * super().forward(x)

    with pytest.raises(SoftscopeError, match="none makes the model's answer"):
        extract_features(Scaled(), ROWS)


def test_a_path_that_changes_after_the_probe_fails_the_check_with_its_rows():
    class Fickle(Plain):
        def forward(self, x):
            logits = super().forward(x)
            return logits if len(x) <= 5 else logits + 0.1

    with pytest.raises(SoftscopeError, match=r"misses the model's logits by 0\.1.*rows from 0"):
        extract_features(Fickle(), ROWS, batch=20)


def test_nan_in_the_model_is_said():
    model = Plain()
    with torch.no_grad():
        model.first.weight[0, 0] = float("nan")
    with pytest.raises(SoftscopeError, match="Plain answers NaN or inf"):
        extract_features(model, ROWS)


def test_dropout_is_off_during_extraction_and_every_mode_comes_back():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.9), nn.Linear(8, 3)).train()
    model[2].eval()
    first, second = (extract_features(model, ROWS).array() for _ in range(2))
    assert np.array_equal(first, second)
    assert model.training
    assert not model[2].training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("model", "images", "activation"),
    [
        (Plain(), ROWS, "relu (ReLU)"),
        (build("lenet", activation="tanh"), IMAGES, "Tanh"),
        (build("vgg", blocks=1), IMAGES, "ReLU"),
        (nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 3)), ROWS, "1 (GELU)"),
    ],
    ids=["inplace relu", "lenet", "vgg", "gelu"],
)
def test_features_before_the_nonlinearity_become_those_after_it(model, images, activation):
    before = extract_features(model, images, layer="before", batch=10)
    after = extract_features(model, images, batch=10).array()
    assert before.metadata["layer"] == "before"
    assert activation in before.metadata["activation"]
    apply = {"Tanh": torch.tanh, "1 (GELU)": functional.gelu}.get(activation, torch.relu)
    np.testing.assert_allclose(apply(torch.from_numpy(before.array())).numpy(), after, rtol=1e-4, atol=1e-5)
    assert (before.array() < 0).any()


def test_before_the_nonlinearity_of_a_resnet_is_the_mean_of_the_map_before_its_last_relu():
    net = build("resnet18").eval()
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    maps = []
    hook = net.body[-3].relu.register_forward_pre_hook(lambda module, inputs: maps.append(inputs[0]))
    logits_of(net, images)
    hook.remove()
    rows = extract_features(net, images, layer="before").array()
    np.testing.assert_allclose(rows, maps[0].mean((2, 3)).numpy(), rtol=1e-4, atol=1e-5)


def test_a_functional_activation_cannot_be_taken_before():
    with pytest.raises(SoftscopeError, match=r"F\.relu can't be seen"):
        extract_features(Functional(), ROWS, layer="before")


def test_a_pass_to_disk_gives_the_same_rows_and_metadata(tmp_path):
    net = build("lenet")
    words = {"dataset": "mnist", "split": "test"}
    kept = extract_features(net, IMAGES, LABELS, batch=4, out=tmp_path / "f.safetensors", metadata=words)
    assert np.array_equal(kept.array(), extract_features(net, IMAGES, batch=4).array())
    again = FeatureSet.open(tmp_path / "f.safetensors")
    assert np.array_equal(again.labels, LABELS)
    assert again.metadata == {"layer": "after", "model": "LeNet", "classifier": "classifier", **words}


def test_a_failure_in_the_middle_leaves_no_file(tmp_path):
    images = ROWS.copy()
    images[20, 0] = np.nan
    with pytest.raises(SoftscopeError, match="nan"):
        extract_features(Plain(), images, batch=4, out=tmp_path / "f.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_memory_mapped_array_is_read_a_batch_at_a_time(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    net = build("lenet")
    assert np.array_equal(
        extract_features(net, mapped, batch=4).array(), extract_features(net, IMAGES, batch=4).array()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"layer": "middle"}, "layer .middle."),
        ({"batch": 0}, "batch 0"),
        ({"labels": [0, 1]}, "2 labels for 23 rows"),
    ],
)
def test_bad_arguments_are_said(arguments, words):
    with pytest.raises(SoftscopeError, match=words):
        extract_features(Plain(), ROWS, **arguments)


def test_no_images_at_all_is_said():
    with pytest.raises(SoftscopeError, match="Give at least one row"):
        extract_features(Plain(), ROWS[:0])
