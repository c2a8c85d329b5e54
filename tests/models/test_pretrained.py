"""timm's and torchvision's models by name: weights, preprocessing and class names are the library's.

Neither library is needed here: torchvision stands as what its API returns, read off version 0.28; `make zoo` opens real
models of both.
"""

import sys

import numpy as np
import pytest
import torch

import softscope as sx
from softscope import SoftscopeError
from softscope.models import open_model

from .conftest import CATEGORIES, TinyResNet


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
