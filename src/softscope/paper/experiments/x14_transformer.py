"""X14, past the paper: a small vision transformer on CIFAR-10, the first network here without a ReLU.

The paper's networks have z >= 0. GELU and LayerNorm leave z with both signs, so this asks which scores still work.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from ...engine import Engine
from ...runs import Store
from ..training import TrainSettings
from . import texts
from .base import Result, Settings
from .judge import judged
from .judgement import Judged
from .networks import Images, NetworkPlan, subsets
from .verdict import rows_of

CIFAR10 = Images("cifar10")
OTHERS = (Images("cifar100"), Images("svhn"), Images("mnist"), Images("fashion_mnist"))


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(Settings):
    """A ViT of `features`, `depth` and images of `size` pixels learns `learned` and meets the test images of `ood`."""

    learned: Images = CIFAR10
    ood: tuple[Images, ...] = OTHERS
    features: int = 128
    depth: int = 3
    size: int = 32
    epochs: int = 8
    batch: int = 64


SCALES = {
    "smoke": TransformerSettings(
        learned=Images("digits", (0, 1, 2)),
        ood=(Images("digits", (3, 4, 5)),),
        features=16,
        depth=1,
        size=8,
        epochs=2,
        batch=16,
    ),
    "laptop": TransformerSettings(),
    "paper": TransformerSettings(runs=5, epochs=60),
}


def run(settings: TransformerSettings, store: Store, engine: Engine) -> Result:
    """Train `runs` networks and diagnose each against every OOD set."""
    plans = [plan(own) for own in settings.single_runs()]
    every: list[Judged] = engine.map(partial(judged, store), plans, threads=settings.threads, label="X14")
    scores = list(every[0].diagnosis.mean_scores)
    rows = rows_of("X14", {"accuracy": [own.accuracy for own in every]})
    for ood in every[0].diagnosis.ood:
        for score in scores:
            rows += rows_of("X14", {"auroc": [own.auroc(score, ood) for own in every]}, score=score, ood=ood)
    return Result(
        rows=rows,
        tables={"causes": [_causes(own, ood) for own in every for ood in own.diagnosis.ood]},
        **texts("X14", epochs=settings.epochs, batch=settings.batch),
        subsets=subsets(every),
        seconds=sum(own.seconds for own in every),
    )


def plan(settings: TransformerSettings) -> NetworkPlan:
    """The network of one run."""
    size = {} if settings.size == 32 else {"size": settings.size}
    return NetworkPlan(
        data=settings.learned,
        ood=settings.ood,
        net="vit",
        config={"features": settings.features, "depth": settings.depth, **size},
        training=TrainSettings(
            optimizer="adamw",
            lr=1e-3,
            weight_decay=0.05,
            epochs=settings.epochs,
            batch=settings.batch,
            augment="none" if settings.learned.dataset == "digits" else "crop+flip",
            standardise=True,
            precision="float32",
            seed=settings.seed,
            threads=settings.threads,
            warm_up=0.2,
        ),
    )


def _causes(own: Judged, ood: str) -> dict[str, Any]:
    sizes = {name: own.cause(name, ood) for name in ("saturation", "extrapolation", "overlap")}
    return {"seed": own.seed, "ood": ood, **sizes}
