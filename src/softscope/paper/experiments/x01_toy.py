"""X1a (fig_2d a): in two dimensions, data far from the training data gets more confidence than the training data.

A 2 -> 16 -> 16 -> 3 network, 50 epochs. The paper states neither the data nor the optimiser; ours: three Gaussian
classes (standard deviation `spread`) at equal angles on the unit circle, Adam at 1e-3, batches of `batch`, and OOD
points on a ring of `ring` times the radius, at uniform angles, so that many are magnified training points.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...engine import Engine
from ...estimators import Density, Entropy
from ...features import FeatureSet
from ...head import Head
from ...metrics import accuracy, auroc
from ...runs import Draft, StepResult, Store
from . import texts
from .base import Result, Settings
from .networks import wall_time
from .verdict import rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..nets import Net

CLASSES = 3


@dataclass(frozen=True, kw_only=True)
class ToySettings(Settings):
    """`points` of training data a class, as many to test; as many OOD points as test points."""

    points: int = 200
    epochs: int = 50
    batch: int = 16
    spread: float = 0.25
    ring: tuple[float, float] = (3.0, 5.0)


SCALES = {"smoke": ToySettings(points=60, runs=1), "laptop": ToySettings(runs=5), "paper": ToySettings(runs=20)}


def run(settings: ToySettings, store: Store, engine: Engine) -> Result:
    """Train `runs` networks on data of their own; the picture is that of the first run."""
    steps = engine.map(partial(_one_run, store), settings.single_runs(), threads=settings.threads, label="X1a")
    scored = [step.json() for _, step in steps]
    return Result(
        rows=rows_of("X1a", {name: [numbers[name] for numbers in scored] for name in scored[0]}),
        figures={"toy": _picture(*steps[0])},
        **texts("X1a"),
        seconds=sum(wall_time(part) for pair in steps for part in pair),
    )


def _one_run(store: Store, settings: ToySettings) -> tuple[StepResult, StepResult]:
    run = store.run(settings, kind="X1a")
    fit = run.step("train", partial(_train, settings))
    return fit, run.step("score", partial(_score, fit), inputs={"train": fit})


def _train(settings: ToySettings, draft: Draft) -> None:
    from ..nets import build, save_model
    from ..training import train

    data = toy_data(settings)
    net = build("toy", classes=CLASSES, seed=settings.seed)
    trained = train(net, data["train"], data["labels"], settings.training(), checkpoint_dir=draft.scratch)
    save_model(net, draft.path("model.safetensors"), dataset="toy")
    draft.tensors(data, "data")
    draft.json({"loss": [record.loss for record in trained.history]}, "history")


def _score(fit: StepResult, draft: Draft) -> None:
    data = fit.tensors("data")
    net = _network(fit)
    head = Head.from_torch(net)
    z = {name: _features(net, data[name]) for name in ("train", "test", "ood")}
    train = FeatureSet(z["train"], data["labels"], name="train")
    entropy = Entropy().fit(head, train)
    density = Density(components=CLASSES).fit(head, train)
    median = np.median(entropy.uncertainty(z["train"]))
    draft.tensors(z, "features")
    draft.json(
        {
            "accuracy": 100 * accuracy(head.logits(z["test"]), data["test_labels"]).value,
            "auroc_entropy": 100 * _auroc(entropy, z),
            "auroc_density": 100 * _auroc(density, z),
            "more_confident": 100 * np.mean(entropy.uncertainty(z["ood"]) < median),
            "norm_ratio": np.median(head.norms(z["ood"])) / np.median(head.norms(z["train"])),
        }
    )


def _picture(fit: StepResult, scored: StepResult) -> "Figure":
    from ..plots.plane import input_and_plane

    data, z, numbers = fit.tensors("data"), scored.tensors("features"), scored.json()
    net = _network(fit)
    head = Head.from_torch(net)
    threshold = float(np.quantile(np.exp(Entropy().fit(head).uncertainty(z["train"])), 0.95))
    shown = min(100, len(data["ood"]))
    few = slice(None, None, max(1, len(data["train"]) // 100))

    def logits(xy: Floats) -> NDArray:
        return head.logits(_features(net, xy.astype(np.float32)))

    return input_and_plane(
        logits,
        head,
        (data["train"][few], data["labels"][few], data["ood"][:shown]),
        (z["train"][few], z["ood"][:shown]),
        threshold,
        f"This network: AUROC of U_entropy {numbers['auroc_entropy']:.1f} %; "
        f"{numbers['more_confident']:.1f} % of OOD are more confident than the median of training",
    )


def toy_data(settings: ToySettings) -> dict[str, NDArray]:
    """Training and test points with labels, and OOD points, drawn from the settings' seed."""
    rng = np.random.default_rng([settings.seed, 1])
    rows = CLASSES * settings.points
    angles = np.pi / 2 + 2 * np.pi * np.arange(CLASSES) / CLASSES
    centres = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels, test_labels = (rng.permutation(np.repeat(np.arange(CLASSES), settings.points)) for _ in range(2))
    train, test = (centres[own] + settings.spread * rng.normal(size=(rows, 2)) for own in (labels, test_labels))
    angle, radius = rng.uniform(0, 2 * np.pi, rows), rng.uniform(*settings.ring, rows)
    ood = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = {name: value.astype(np.float32) for name, value in (("train", train), ("test", test), ("ood", ood))}
    return points | {"labels": labels, "test_labels": test_labels}


def _auroc(estimator: Any, z: dict[str, NDArray]) -> float:
    return auroc(estimator.uncertainty(z["test"]), estimator.uncertainty(z["ood"])).value


def _network(fit: StepResult) -> "Net":
    from ..nets import load_model

    return load_model(fit.path("model.safetensors")).net


def _features(net: "Net", x: NDArray) -> NDArray:
    from ...models import extract_features

    return extract_features(net, x).array()
