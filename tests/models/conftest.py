"""Folders of images with a network that tells them apart."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

NET = """
from torch import nn
class Net(nn.Module):
    def __init__(self, width=8, channels=3):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(width, 3)
    def forward(self, x):
        return self.fc(self.body(x))
"""
COLOURS = {"blue": (30, 40, 220), "green": (40, 200, 60), "red": (220, 50, 40)}


def paint(folder, colour, count, rng, size=(24, 24)):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        noise = rng.integers(-30, 30, (*size, 3))
        Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(folder / f"{number:03d}.png")


@pytest.fixture(scope="session")
def pets(tmp_path_factory):
    """pets/train, test and ood folders of coloured squares, and trained weights for NET beside them."""
    place = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        paint(place / "pets" / "train" / name, colour, 60, rng)
        paint(place / "pets" / "test" / name, colour, 40, rng)
    paint(place / "pets" / "ood" / "yellow", (220, 210, 30), 40, rng, (30, 40))
    paint(place / "pets" / "ood" / "black", (5, 5, 5), 40, rng)
    (place / "mynet.py").write_text(NET)
    scope: dict = {}
    exec(NET, scope)
    torch.manual_seed(0)
    net = scope["Net"]()
    images, labels = [], []
    for number, name in enumerate(sorted(COLOURS)):
        for file in sorted((place / "pets" / "train" / name).iterdir()):
            images.append(np.asarray(Image.open(file)))
            labels.append(number)
    x = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), torch.tensor(labels)).backward()
        optimizer.step()
    torch.save({"model_state_dict": net.state_dict(), "epoch": 60}, place / "state.pt")
    return place


@pytest.fixture
def at_home(pets, monkeypatch):
    """The current folder is the one with mynet.py."""
    monkeypatch.chdir(pets)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield pets
    sys.modules.pop("mynet", None)


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
        if name not in ("tiny", "resnet18"):
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
