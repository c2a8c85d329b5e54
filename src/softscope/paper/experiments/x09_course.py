"""X9, beyond the paper: how accuracy, AUROCs and causes move in the course of a training.

The snapshots that a plan keeps are measured on part of the images, the same for all of them: when does U_density
overtake softmax, when does max cos approach 1 (T30), which cause shrinks as accuracy grows? And what do weight decay
and the length of training do to each of them: `recipes` sets trainings side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...estimators import Density, scores
from ...features import FeatureSet
from ...head import Head
from ...metrics import accuracy, auroc, balanced
from ...runs import Draft, StepResult
from .judge import source
from .judgement import Judged
from .networks import Images, TrainedNetwork, snapshot_file
from .table import Lines, value

if TYPE_CHECKING:
    from ..nets import Net

TRAIN_IMAGES = 10_000
TEST_IMAGES = 2_000


def course(network: TrainedNetwork) -> StepResult:
    """The step whose `json()` is a list with one entry for each snapshot of `network`, the earliest first."""
    known = {"fit": network.fit, "source": source(_measure, moment)}
    return network.run.step("course", partial(_measure, network), inputs=known)


def _measure(network: TrainedNetwork, draft: Draft) -> None:
    from ..nets import load_model

    plan = network.plan
    sets = {"train": (plan.data, "train"), "test": (plan.data, "test")} | {o.name: (o, "test") for o in plan.ood}
    some = {name: _some(own, split) for name, (own, split) in sets.items()}
    moments = []
    for epoch in plan.snapshot_epochs():
        net = load_model(network.fit.path(snapshot_file(epoch))).net
        features = {name: _features(net, *own) for name, own in some.items()}
        ood = {name: own for name, own in features.items() if name not in ("train", "test")}
        measured = moment(Head.from_torch(net), features["train"], features["test"], ood, plan.training.seed)
        moments.append({"epoch": epoch, **measured})
    draft.json(moments)


def _some(images: Images, split: str) -> tuple[Any, Any]:
    own = replace(images, train=TRAIN_IMAGES, test=TEST_IMAGES).load(split)
    return own.images, own.labels


def _features(net: "Net", images: Any, labels: Any) -> FeatureSet:
    from ...images import fit_images
    from ...models import extract_features

    return extract_features(net, fit_images(images, net.input_shape), labels)


def moment(
    head: Head, train: FeatureSet, test: FeatureSet, ood: Mapping[str, FeatureSet], seed: int = 0
) -> dict[str, float]:
    """Accuracy, AUROCs (mean over OOD sets, balanced pairs) and largest cosines of one state of a network, in percent.

    With B of U_entropy and D of U_density: cause 2 = D - B, cause 3 = 100 - D (nothing rounds here, C = B).
    """
    density = Density(init="kmeans", seed=seed).fit(head, train)

    def score(features: FeatureSet) -> dict[str, Any]:
        return {**scores(head, features, ("max", "entropy")), "density": density.uncertainty(features)}

    low = score(test)
    areas: dict[str, list[float]] = {name: [] for name in low}
    for features in ood.values():
        high, (rows, others) = score(features), balanced(len(test), len(features), seed)
        for name, values in high.items():
            areas[name].append(100 * auroc(low[name][rows], values[others]).value)
    mean = {name: float(np.mean(values)) for name, values in areas.items()}

    def largest(features: FeatureSet) -> float:
        return float(head.cosines(features.array()).max(axis=1).mean())

    return {
        "accuracy": 100 * accuracy(head.logits(test.array()), test.labels).value,
        **mean,
        "extrapolation": mean["density"] - mean["entropy"],
        "overlap": 100 - mean["density"],
        "cosine_train": largest(train),
        "cosine_ood": float(np.mean([largest(features) for features in ood.values()])),
    }


HEADINGS = {
    "epoch": "epoch", "accuracy": "accuracy", "max": "U_max", "entropy": "U_entropy", "density": "U_density",
    "extrapolation": "cause 2", "overlap": "cause 3", "cosine_train": "max cos, train", "cosine_ood": "max cos, OOD",
}  # fmt: skip


def table(courses: Mapping[str, Sequence[Mapping[str, float]]]) -> list[dict[str, Any]]:
    """One line for each snapshot of each data set."""

    def cell(name: str, value: float) -> str:
        return f"{value:.2f}" if name.startswith("cosine") else f"{value:.0f}" if name == "epoch" else f"{value:.1f}"

    return [
        {"data set": name} | {heading: cell(column, one[column]) for column, heading in HEADINGS.items()}
        for name, moments in courses.items()
        for one in moments
    ]


def courses_of(lines: Lines) -> dict[str, list[dict[str, float]]]:
    """The course of training by data set, where the snapshots of a run were measured."""
    return {name: own.course for name, runs in lines.items() for own in runs if own.course}


def recipes(lines: Lines, others: Sequence[Judged]) -> list[dict[str, Any]]:
    """For each data set that other recipes have learned too, a line for each recipe, of the first run, ours first."""
    columns = {"accuracy": "accuracy", "plain-max": "U_max", "plain-entropy": "U_entropy", "density": "U_density"}
    columns |= {"knn": "knn", "extrapolation": "cause 2", "overlap": "cause 3"}
    out = []
    for name, runs in lines.items():
        compared = [other for other in others if other.name == name and other.seed == runs[0].seed]
        for own in (runs[0], *compared) if compared else ():
            training, cosines = own.plan.training, own.numbers["mental"]["sets"]
            ood = np.mean([cosines[ood]["largest"] for ood in own.diagnosis.ood])
            out.append(
                {"data set": own.name, "peak, decay": f"{training.lr:g}, {training.weight_decay:g}"}
                | {"epochs": str(training.epochs)}
                | {heading: f"{value(own, column):.1f}" for column, heading in columns.items()}
                | {"max cos, train": f"{cosines['train']['largest']:.2f}", "max cos, OOD": f"{ood:.2f}"}
            )
    return out
