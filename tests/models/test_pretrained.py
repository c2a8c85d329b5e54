"""timm's and torchvision's models by name: weights, preprocessing and class names are the library's.

Neither library is needed here: torchvision stands as what its API returns, read off version 0.28; `make zoo` opens real
models of both.
"""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import softscope as sx
from softscope import SoftscopeError
from softscope.models import open_model


class TinyResNet(nn.Module):
    def __init__(self, num_classes=1000):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.fc = nn.Linear(6, num_classes)

    def forward(self, x):
        return self.fc(self.conv(x).relu().mean((2, 3)))


CATEGORIES = [f"thing {number}" for number in range(1000)]


@pytest.fixture
def torchvision(monkeypatch):
    """`torchvision.models` with one model, whose pretrained weights are all 0.01."""
    transforms = SimpleNamespace(
        crop_size=[224],
        resize_size=[232],
        mean=[0.485, 0.456, 0.406],
        std=[0.229, 0.224, 0.225],
        interpolation=SimpleNamespace(value="bilinear"),
    )
    default = SimpleNamespace(transforms=lambda: transforms, meta={"categories": CATEGORIES})

    def get_model(name, weights=None, **options):
        if name != "tiny":
            raise ValueError(f"Unknown model {name}")
        made = TinyResNet(**options)
        if weights is default:
            for parameter in made.parameters():
                nn.init.constant_(parameter, 0.01)
        return made

    package, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    models.get_model, models.get_model_weights = get_model, lambda name: SimpleNamespace(DEFAULT=default)
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


def test_torchvision_brings_its_weights_preprocessing_and_classes(torchvision):
    opened = open_model("torchvision:tiny")
    chosen = opened.preprocessing
    assert (chosen.size, chosen.mean, chosen.std) == ((224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert (chosen.interpolation, chosen.crop, chosen.source) == ("bilinear", pytest.approx(224 / 232), "torchvision")
    assert opened.classes == tuple(CATEGORIES)
    head, features = sx.extract(opened, torch.ones(2, 3, 8, 8))
    np.testing.assert_allclose(head.weight, 0.01)
    np.testing.assert_allclose(features.array(), 27 * 0.01 + 0.01, rtol=1e-6)


def test_weights_of_ones_own_decide_how_many_classes_torchvisions_model_has(torchvision, tmp_path):
    torch.manual_seed(0)
    own = TinyResNet(num_classes=4).eval()
    torch.save({"state_dict": own.state_dict()}, tmp_path / "own.pt")
    opened = open_model("torchvision:tiny", weights=tmp_path / "own.pt")
    assert opened.classes is None
    x = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    head, features = sx.extract(opened, x)
    with torch.no_grad():
        np.testing.assert_allclose(head.logits(features.array()), own(x).numpy(), atol=1e-5)


def test_a_name_that_the_library_does_not_know_and_a_missing_library_are_one_line(torchvision, monkeypatch):
    with pytest.raises(SoftscopeError, match=r"torchvision:gone: can't be made \(Unknown model gone\)"):
        open_model("torchvision:gone")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(SoftscopeError, match="torchvision can't be imported") as caught:
        open_model("torchvision:tiny")
    assert "pip install torchvision" in str(caught.value)
