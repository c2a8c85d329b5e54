"""The networks of X9 (and of X3, X8, X11): ResNet18 on each of five data sets, confronted with the other four.

Every image is 32x32 RGB; MNIST and Fashion-MNIST are brought to that format by the network's own input rule. The paper
trains for 100 epochs by a public script (huyvnphan/PyTorch_CIFAR10): SGD with Nesterov momentum, one-cycle rate with a
peak of 1e-2, weight decay 1e-2, batches of 256, crops and mirrors. Ours has its optimiser, schedule and augmentation,
with peak 0.1 and decay 5e-4, which learn faster: docs/benchmark.md has both recipes at the same number of epochs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...canonical import LATER
from ..training import Augment, Precision, TrainSettings
from .base import Settings
from .networks import Images, NetworkPlan

NAMES = ("mnist", "fashion_mnist", "svhn", "cifar10", "cifar100")
_AUGMENT: Mapping[str, Augment] = {"svhn": "crop", "cifar10": "crop+flip", "cifar100": "crop+flip"}
# The authors' script crops and mirrors everything; a mirrored digit is not a digit.
AUGMENT_ALL: Mapping[str, Augment] = {"mnist": "crop", "fashion_mnist": "crop+flip", **_AUGMENT}


@dataclass(frozen=True)
class Recipe:
    """How long a network of one data set is trained: `epochs` over `train` images (None: all)."""

    epochs: int = 100
    train: int | None = None


@dataclass(frozen=True, kw_only=True)
class FiveSettings(Settings):
    """`recipes` by data set, in the order of the table; `test` images of each set are scored (None: all). The data sets
    `halved` are learned once more, for half the epochs, which tells what the length of training is worth."""

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
    halved: tuple[str, ...] = field(default=(), metadata=LATER)


SCALES = {
    "smoke": FiveSettings(
        recipes=dict.fromkeys(("digits-0-1-2", "digits-3-4-5", "digits-6-7-8-9"), Recipe(epochs=4)),
        batch=16,
        precision="float32",
        net="small",
        threads=1,
    ),
    "laptop": FiveSettings(
        recipes={
            "mnist": Recipe(epochs=2, train=20_000),
            "fashion_mnist": Recipe(epochs=3, train=20_000),
            "svhn": Recipe(epochs=7, train=15_000),
            "cifar10": Recipe(epochs=8, train=20_000),
            "cifar100": Recipe(epochs=6, train=35_000),
        },
        test=5_000,
        batch=128,
        precision="bfloat16",
    ),
    # One thread, so that two networks train side by side: on two cores 1.3 times as many images a second as one
    # network on both. The precision is measured: bfloat16 is 1.7 times as fast on cores that multiply it, and 12 times
    # as slow on cores that don't.
    "overnight": FiveSettings(
        runs=3,
        recipes={
            "mnist": Recipe(epochs=3),
            "fashion_mnist": Recipe(epochs=8),
            "svhn": Recipe(epochs=5),
            "cifar10": Recipe(epochs=20),
            "cifar100": Recipe(epochs=25),
        },
        batch=128,
        threads=1,
        snapshots=6,
        augment=AUGMENT_ALL,
        halved=("fashion_mnist", "cifar10"),  # two of those that stay below the paper's accuracy
        piecewise=True,
    ),
    "paper": FiveSettings(runs=5),
}


def strong_decay(settings: FiveSettings) -> FiveSettings:
    """The same trainings with the authors' decay, 20 times as strong, and the weights of the last quarter averaged.

    The peak is 5 times theirs: at theirs the weights would need about 10,000 steps to shrink.
    """
    return replace(settings, lr=0.05, weight_decay=1e-2, average=0.25)


def half_as_long(settings: FiveSettings) -> list[NetworkPlan]:
    """The data sets `halved`, first run: the same trainings in half the epochs."""
    first = {plan.data.name: plan for plan in plans(settings)}
    return [
        replace(plan, training=replace(plan.training, epochs=plan.training.epochs // 2), snapshots=0)
        for plan in map(first.__getitem__, settings.halved)
    ]


def plans(settings: FiveSettings) -> list[NetworkPlan]:
    """The networks of one run, one for each data set."""
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


def with_features() -> list[NetworkPlan]:
    """The networks of scale overnight whose features X13 reads; of other runs only what was judged is kept."""
    runs = {"fashion_mnist": 1, "svhn": 1}  # run 2; of the others run 3
    every = [{plan.data.name: plan for plan in plans(own)} for own in SCALES["overnight"].single_runs()]
    return [every[runs.get(name, 2)][name] for name in NAMES]
