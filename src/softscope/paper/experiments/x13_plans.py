"""The networks of X13: those of X9 and X10 in kind, as large as each scale can have them."""

from dataclasses import dataclass, replace

from ..training import TrainSettings
from .base import Settings
from .networks import Images, NetworkPlan
from .transfer import TransferPlan
from .x09_plans import AUGMENT_ALL, with_features
from .x09_plans import SCALES as FIVE
from .x09_plans import plans as five_plans
from .x10_plans import LAST
from .x10_plans import SCALES as PHOTOGRAPHS
from .x10_plans import plans as photograph_plans
from .x14_transformer import SCALES as TRANSFORMER
from .x14_transformer import plan as transformer_plan

#: CIFAR-100's classes from here on are never learned: they are the near OOD set of its network.
SEEN_CLASSES = 70
#: images and epochs of each narrow ResNet18; CIFAR-100's are those of the classes it learns
_RECIPES = {
    "mnist": (10_000, 3),
    "fashion_mnist": (10_000, 3),
    "svhn": (15_000, 4),
    "cifar10": (15_000, 6),
    "cifar100": (17_500, 6),
}


@dataclass(frozen=True, kw_only=True)
class BoardSettings(Settings):
    """`networks` trained from nothing and `heads`, last layers on the features of a network that came trained.

    Of every head with at least `fewest` classes a third of the classes is also left out of the training and becomes
    its near OOD set, `splits` times.
    """

    networks: tuple[NetworkPlan, ...]
    heads: tuple[TransferPlan, ...]
    fewest: int = 20
    splits: int = 3


def _narrow() -> tuple[NetworkPlan, ...]:
    """ResNet18 of a quarter of its width on five data sets, each against the other four, and against unseen classes."""

    def images(name: str, *classes: int) -> Images:
        return Images(name, classes or None, train=_RECIPES[name][0], test=2_000)

    seen = images("cifar100", *range(SEEN_CLASSES))
    learned = {name: seen if name == "cifar100" else images(name) for name in _RECIPES}
    unseen = replace(seen, classes=tuple(range(SEEN_CLASSES, 100)), train=None)
    return tuple(
        NetworkPlan(
            data=data,
            ood=tuple(replace(images(other), train=None) for other in _RECIPES if other != name)
            + ((unseen,) if name == "cifar100" else ()),
            net="resnet18",
            config={"width": 16},
            training=TrainSettings(
                optimizer="sgd",
                lr=0.1,
                weight_decay=5e-4,
                epochs=_RECIPES[name][1],
                augment=AUGMENT_ALL[name],
                standardise=True,
                threads=1,
            ),
        )
        for name, data in learned.items()
    )


def _unseen_classes() -> NetworkPlan:
    """CIFAR-100's narrow network against its unseen classes alone: X9's has learned all of them."""
    plan = _narrow()[-1]
    return replace(plan, ood=plan.ood[-1:])


def _heads(scale: str) -> tuple[TransferPlan, ...]:
    settings = replace(PHOTOGRAPHS[scale], runs=1, controls=1)
    return tuple(plan for plan in photograph_plans(settings)[LAST] if isinstance(plan, TransferPlan))


SCALES = {
    "smoke": BoardSettings(
        networks=tuple(five_plans(FIVE["smoke"])[:2]), heads=_heads("smoke")[2:], fewest=4, splits=1
    ),
    "laptop": BoardSettings(networks=_narrow(), heads=_heads("laptop")),
    "overnight": BoardSettings(
        networks=(*with_features(), transformer_plan(TRANSFORMER["laptop"]), _unseen_classes()),
        heads=_heads("laptop"),
    ),
    "paper": BoardSettings(networks=tuple(five_plans(FIVE["paper"])), heads=_heads("paper")),
}
