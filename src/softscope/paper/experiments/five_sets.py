"""The networks of X9 (and of X8, X3): ResNet18 on each of five data sets, confronted with the other four.

Every image is 32x32 RGB; MNIST and Fashion-MNIST are brought to that format by the network's own input rule.

The paper trains for 100 epochs and states no optimiser. Ours: SGD with Nesterov momentum and a one-cycle rate, weight
decay 5e-4, batches of 128, inputs standardised, crops (and mirrors, where a mirrored object is still one) of CIFAR.

The paper's appendix names a public training script (huyvnphan/PyTorch_CIFAR10): the same optimiser and schedule with
peak 1e-2, weight decay 1e-2, batches of 256, crops and mirrors. Scale overnight follows it in decay and augmentation.

Chosen by accuracy a minute, on two cores of an EPYC with bfloat16 instructions: 6,000 CIFAR-10 images shown 4 times,
accuracy on 2,000 test images. SGD in bfloat16, batches of 128: 48.2 % in 79 s (304 images/s); float32: 51.4 % in 131 s
(184 images/s); bfloat16 with batches of 64, while other jobs ran: 51.6 % in 163 s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..training import TrainSettings
from ..training.settings import Augment, Precision
from .base import Settings
from .networks import Images, NetworkPlan

NAMES = ("mnist", "fashion_mnist", "svhn", "cifar10", "cifar100")
_AUGMENT: Mapping[str, Augment] = {"svhn": "crop", "cifar10": "crop+flip", "cifar100": "crop+flip"}
# The authors' script crops and mirrors everything; a mirrored digit is no digit.
AUGMENT_ALL: Mapping[str, Augment] = {"mnist": "crop", "fashion_mnist": "crop+flip", **_AUGMENT}


@dataclass(frozen=True)
class Recipe:
    """How long a network of one data set is trained: `epochs` over `train` images (None: all)."""

    epochs: int = 100
    train: int | None = None


@dataclass(frozen=True, kw_only=True)
class FiveSettings(Settings):
    """`recipes` by data set, in the order of the table; `test` images of each set are scored (None: all)."""

    recipes: Mapping[str, Recipe] = field(default_factory=lambda: dict.fromkeys(NAMES, Recipe()))
    test: int | None = None
    batch: int = 128
    precision: Precision = "auto"
    net: str = "resnet18"
    threads: int = 2
    lr: float = 0.1
    weight_decay: float = 5e-4
    average: float = 0.0
    snapshots: int = 0
    augment: Mapping[str, Augment] = field(default_factory=lambda: _AUGMENT)


def plans(settings: FiveSettings) -> list[NetworkPlan]:
    """The networks of one run, one a data set."""
    images = {name: _images(name, recipe, settings.test) for name, recipe in settings.recipes.items()}
    return [
        NetworkPlan(
            data=images[name],
            ood=tuple(replace(own, train=None) for other, own in images.items() if other != name),
            net=settings.net,
            training=TrainSettings(
                optimizer="sgd",
                lr=settings.lr,
                weight_decay=settings.weight_decay,
                epochs=recipe.epochs,
                batch=settings.batch,
                augment=settings.augment.get(name, "none"),
                standardise=True,
                precision=settings.precision,
                seed=settings.seed,
                threads=settings.threads,
                average=settings.average,
            ),
            snapshots=settings.snapshots,
        )
        for name, recipe in settings.recipes.items()
    ]


def _images(name: str, recipe: Recipe, test: int | None) -> Images:
    """The data set, or some of its classes: digits-0-1-2."""
    dataset, *classes = name.split("-")
    return Images(dataset, tuple(map(int, classes)) or None, train=recipe.train, test=test)
