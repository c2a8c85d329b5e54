"""X4 (fig_counterfact_structs): the last layer frozen in structures that are worse than the optimal one, and why.

LeNet(16) on three classes of MNIST, 2 epochs, Fashion-MNIST out; trainable, optimal, sandwich, stack, lopsided, frozen
with norm 1, from a Glorot start, in batches of 32: the settings that come closest to the paper's numbers. Past
the paper: is it the shape of the boundaries that breaks detection, or one class of bounded confidence (T29)? The same
shapes are placed where every class is in reach of features >= 0 and where one is not, and with weights of norm 10; and
U_density (E4) and nearest neighbours on the same features tell a bad boundary from bad features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...engine import Engine
from ...errors import SoftscopeError
from ...estimators import estimator
from ...estimators.softmax import softmax
from ...geometry import confidence_caps, lopsided, optimal_structure, random_rotation, sandwich, stack
from ...head import Head
from ...metrics import auroc
from ...runs import Draft, Store
from ..claims.learning import predicted_bounds
from ..training import Precision
from . import texts
from .base import Result, Settings
from .judge import claim_tables, detected
from .judgement import Detected
from .networks import Images, NetworkPlan, TrainedNetwork, subsets
from .verdict import Mean, Reported, Row, printed, rows_of
from .x01_mnist import FASHION, MNIST, drawn_rows

if TYPE_CHECKING:
    from ..nets import Net
    from ..training.loop import AfterStep

Place = Literal["plane", "halves"]
TRAINABLE = "trainable"
PAPER: dict[str, dict[str, Reported]] = printed("X4")
#: the numbers of the paper's table; its AUROC is that of U_entropy
PRINTED = ("accuracy", "cross_entropy", "auroc")


def fan(*degrees: float, bias: tuple[float, ...] = (0, 0, 0), norms: tuple[float, ...] = (1, 1, 1)) -> Head:
    """Three weights in the plane, by their angles."""
    angles = np.radians(degrees)
    return Head(np.column_stack([np.cos(angles), np.sin(angles)]) * np.array(norms)[:, None], np.array(bias, float))


#: Structures of three classes in the plane, their largest weight of norm 1.
SHAPES = {name: make(3, 2) for name, make in zip(PAPER, (None, optimal_structure, sandwich, stack, lopsided)) if make}
#: Further readings of the paper's lopsided structure, of which it prints a picture: shape and place.
READINGS: dict[str, tuple[Head, Place]] = {
    "0, 20, 40 degrees": (fan(0, 20, 40), "plane"),
    "0, 10, 20 degrees": (fan(0, 10, 20), "plane"),
    "0, 5, 10 degrees": (fan(0, 5, 10), "plane"),
    "0, 3, 6 degrees": (fan(0, 3, 6), "plane"),
    "10 degrees apart and the third opposite": (fan(-5, 5, 180), "plane"),
    "3 degrees apart and the third opposite": (fan(-1.5, 1.5, 180), "plane"),
    "optimal, one weight of norm 0.1": (fan(90, 210, 330, norms=(1, 1, 0.1)), "plane"),
    "0, 45, 90 degrees": (fan(0, 45, 90), "halves"),
    "30, 45, 60 degrees": (fan(30, 45, 60), "halves"),
    "two axes, the third class at the origin with bias 2": (fan(0, 90, 0, bias=(0, 0, 2), norms=(1, 1, 0)), "halves"),
    "45 degrees apart and the third opposite": (lopsided(3, 2), "halves"),
}


@dataclass(frozen=True, kw_only=True)
class GlorotPlan(NetworkPlan):
    """Every layer starts as Keras draws it: weights uniform in ±sqrt(6 / (fan in + fan out)), biases 0."""

    def build(self, classes: int) -> "Net":
        """The untrained network."""
        from ...torch_door import nn, torch

        net = super().build(classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.training.seed)
            for layer in net.modules():
                if isinstance(layer, nn.Linear | nn.Conv2d) and layer.bias is not None:
                    nn.init.xavier_uniform_(layer.weight)
                    nn.init.zeros_(layer.bias)
        return net


@dataclass(frozen=True, kw_only=True)
class StructurePlan(GlorotPlan):
    """`structure` with weights of norm `norm` (its outermost for the stack), frozen.

    It lies in a plane of the feature space drawn from the training's seed, where features >= 0 reach every direction;
    or each of its two coordinates is spread over half of the features, `place="halves"`, where they reach only a
    quarter of the plane. There the last weight is that of class 0: if it is out of reach its inputs end at z = 0, where
    all classes tie and the first is the prediction.

    The stack is reached by moving the weights from the optimal structure over the first `moving` of all steps; fixed
    from the start, it fails to train, as in the paper.
    """

    structure: str
    norm: float = 1.0
    place: Place = "plane"
    moving: float = 0.5

    def head(self, structure: str | None = None) -> Head:
        """The frozen layer, or another structure in its place."""
        name = structure or self.structure
        if name not in SHAPES and name not in READINGS:
            raise SoftscopeError(f"no structure is called {name!r}", f"Choose one of {', '.join(SHAPES)}")
        shape = SHAPES[name] if name in SHAPES else READINGS[name][0]
        features = int(self.config["features"])
        if self.place == "halves":
            weight = np.repeat(shape.weight[::-1], features // 2, axis=1) / np.sqrt(features // 2)
            return Head(self.norm * weight, self.norm * shape.bias[::-1], name=name)
        weight = shape.weight @ random_rotation(features, self.training.seed)[:2]
        return Head(self.norm * weight, self.norm * shape.bias, name=name)

    def build(self, classes: int) -> "Net":
        """The network with the frozen layer in the place of its own."""
        net = super().build(classes)
        frozen = self.head("optimal" if self.structure == "stack" else None)
        net.replace_classifier(frozen.weight, frozen.bias)
        return net

    def after_step(self) -> "AfterStep | None":
        """For the stack: move the weights a step further; at the end of the move they are exactly the stack's."""
        return _Move(self) if self.structure == "stack" else None


class _Move:
    """Weights and biases on a straight line from the optimal structure to the plan's."""

    def __init__(self, plan: StructurePlan) -> None:
        self.share, self.start, self.end = plan.moving, plan.head("optimal"), plan.head()

    def __call__(self, net: Any, step: int, steps: int) -> None:
        import torch

        done = min(1.0, step / max(1.0, self.share * steps))
        for part in ("weight", "bias"):
            value = (1 - done) * getattr(self.start, part) + done * getattr(self.end, part)
            getattr(net.classifier, part).copy_(torch.from_numpy(value.astype(np.float32)))


@dataclass(frozen=True, kw_only=True)
class StructureSettings(Settings):
    """`norm` is the scale of the frozen layers, `other_norm` that of the comparison in random planes, which has the
    first `compared` runs; each of the `readings` is trained once. `precision` is that of the training's products.
    """

    data: Images = MNIST
    ood: Images = FASHION
    net: str = "lenet"
    features: int = 16
    epochs: int = 2
    batch: int = 32
    norm: float = 1.0
    other_norm: float = 10.0
    compared: int = 3
    readings: tuple[str, ...] = tuple(READINGS)
    precision: Precision = "bfloat16"

    def plan(self, structure: str, norm: float | None = None, place: Place = "plane") -> NetworkPlan:
        """The network of one run."""
        common: dict[str, Any] = {"data": self.data, "ood": (self.ood,), "net": self.net, "training": self.training()}
        common["config"] = {"features": self.features}
        if structure == TRAINABLE:
            return GlorotPlan(**common)
        return StructurePlan(**common, structure=structure, norm=norm or self.norm, place=place)


SCALES = {
    "smoke": StructureSettings(
        data=Images("digits", (0, 1, 2)),
        ood=Images("digits", (5, 7, 9)),
        net="small",
        epochs=3,
        compared=1,
        readings=(),
        precision="float32",
    ),
    "laptop": StructureSettings(data=replace(MNIST, train=6000), runs=3, readings=()),
    "paper": StructureSettings(runs=5),
}
#: Part of the experiment, name of a structure there, and a network; and the same by part and name, a run each.
Trained = tuple[str, str, Detected]
NetworksByPart = dict[str, dict[str, list[Detected]]]
OUT, REACHED = "optimal, one class out of reach", "sandwich, all classes in reach"


def run(settings: StructureSettings, store: Store, engine: Engine) -> Iterator[Result]:
    """A result after the main table, one with the comparison of norms, one with the readings."""
    planned = _plans(settings)
    done: list[Trained] = []
    for stage in (("main", "swapped"), ("norm",), ("readings",)):
        todo = [one for one in planned if one[0] in stage]
        if todo:
            measure = partial(detected, store, nearest=_nearest)
            plans = [plan for *_, plan in todo]
            networks = engine.map(measure, plans, threads=settings.threads, label=f"X4, {stage[0]}")
            done += [(part, name, one) for (part, name, _), one in zip(todo, networks)]
            yield _result(settings, done, left=len(planned) - len(done))


def _result(settings: StructureSettings, done: "list[Trained]", left: int) -> Result:
    parts: NetworksByPart = {}
    for part, name, one in done:
        parts.setdefault(part, {}).setdefault(name, []).append(one)
    every = [one for *_, one in done]
    table = [_table_row(*each) for each in done]
    named = [(f"{settings.net}, {name}", one.numbers) for name, runs in parts["main"].items() for one in runs]
    known = {name: getattr(settings, name) for name in ("norm", "batch", "features", "precision")}
    return Result(
        rows=_rows(parts),
        figures=_figures(settings, parts, table),
        tables={"networks": table, "readings": _readings(parts), **claim_tables(named, ("T19", "T21", "T23"))},
        **texts("X4", **known),
        subsets=subsets(every),
        seconds=sum(one.seconds for one in every),
        left=f"{left} networks" if left else None,
    )


def _plans(settings: StructureSettings) -> list[tuple[str, str, NetworkPlan]]:
    """(part of the experiment, name of the structure there, plan) of every network."""
    runs = settings.single_runs()
    main = [("main", name, one.plan(name, place=PLACES.get(name, "plane"))) for name in PAPER for one in runs]
    swapped = [("swapped", OUT, one.plan("optimal", place="halves")) for one in runs]
    swapped += [("swapped", REACHED, one.plan("sandwich")) for one in runs]
    other = [
        ("norm", f"{name}, norm {settings.other_norm:g}", one.plan(name, settings.other_norm))
        for name in SHAPES
        for one in runs[: settings.compared]
    ]
    read = [("readings", name, runs[0].plan(name, place=READINGS[name][1])) for name in settings.readings]
    return [*main, *swapped, *other, *read]


#: Where a structure of the main table lies, if not in a random plane.
PLACES: dict[str, Place] = {"sandwich": "halves"}


def _nearest(network: TrainedNetwork, draft: Draft) -> None:
    score = estimator("knn").fit(network.head, network.train).uncertainty
    (ood,) = network.ood.values()
    draft.json({"knn": 100 * auroc(score(network.test), score(ood)).value})


def _numbers(one: Detected) -> dict[str, float]:
    """Accuracy, cross-entropy and the AUROC of U_entropy, as the paper's table has them, and two scores beside it."""
    own = {name: one.numbers[name] for name in ("accuracy", "cross_entropy", "knn")}
    return own | {"auroc": one.numbers["auroc"]["entropy"], "density": one.numbers["auroc"]["density"]}


def _over(runs: list[Detected], names: Sequence[str] = PRINTED) -> dict[str, Mean]:
    every = [_numbers(one) for one in runs]
    return {name: Mean.of([own[name] for own in every]) for name in names}


def _rows(parts: NetworksByPart) -> list[Row]:
    main, swapped, other = parts["main"], parts["swapped"], parts.get("norm", {})
    rows = []
    for name, runs in main.items():
        rows += rows_of("X4", _over(runs, (*PRINTED, "density", "knn")), PAPER[name], name=name)
    areas, losses = (
        {name: np.array([_numbers(one)[what] for one in runs]) for name, runs in {**main, **swapped}.items()}
        for what in ("auroc", "cross_entropy")
    )
    worse = [name for name in SHAPES if name != "optimal"]
    best = np.minimum(areas[TRAINABLE], areas["optimal"])
    ours = {
        "gap": best - np.max([areas[name] for name in worse], axis=0),
        "excess": np.min([losses[name] for name in worse], axis=0) - losses["optimal"],
        "out": areas[OUT] - areas["optimal"],
        "sandwich": areas["sandwich"] - areas[REACHED],
        "reached": areas[REACHED] - areas["optimal"],
        "lopsided": areas["lopsided"] - areas["optimal"],
    }
    rows += rows_of("X4", ours, out=OUT, reached=REACHED)
    for name, runs in other.items():
        if name.startswith("stack"):
            gained = [_numbers(one)["auroc"] - before for one, before in zip(runs, areas["stack"])]
            rows += rows_of("X4", {"cap": gained}, name=name)
    return rows + [row for name, runs in {**swapped, **other}.items() for row in rows_of("X4", _over(runs), name=name)]


def _readings(parts: NetworksByPart) -> list[dict[str, Any]]:
    """Every reading beside the paper's lopsided line, each number as it would be printed."""
    every = {"45 degrees apart and the third opposite, all in reach (main table)": parts["main"]["lopsided"][:1]}
    every |= parts.get("readings", {})
    table = []
    for name, runs in every.items():
        rows = rows_of("X4", _over(runs), PAPER["lopsided"], name=name)
        near = [abs(row.ours.value - row.paper.value) <= row.margin for row in rows if isinstance(row.paper, Reported)]
        shown = {row.label.removeprefix(f"{name}: "): row.ours.show(row.digits) for row in rows}
        place = getattr(runs[0].network.plan, "place", "")
        table.append({"reading": name, "place": place, **shown, "matches": "yes" if all(near) else "no"})
    return table


def _table_row(part: str, name: str, one: Detected) -> dict[str, Any]:
    network = one.network
    plan, head, z = network.plan, network.head, network.train.array()
    labels = np.asarray(network.test.labels)
    logits = head.logits(network.test.array())
    right, confidence = logits.argmax(axis=1) == labels, softmax(logits).max(axis=1)
    classes = range(head.n_classes)
    caps = confidence_caps(head)
    floor, cap = predicted_bounds(caps, logits, labels, head.logits(one.ood.array()))
    return {
        "part": part,
        "structure": name,
        "norm": plan.norm if isinstance(plan, StructurePlan) else float(head.weight_norms.mean()),
        "seed": one.seed,
        "median_norm_z": float(np.median(head.norms(z))),
        "dead_features": int((z.max(axis=0) == 0).sum()),
        "class_accuracy": [100 * float(right[labels == k].mean()) for k in classes],
        "class_confidence": [float(np.median(confidence[labels == k])) for k in classes],
        "caps": caps.tolist(),
        "loss_floor": floor,
        "auroc_cap": 100 * cap,
        **{key: one.numbers[key] for key in ("accuracy", "cross_entropy", "causes", "more_confident")},
        "auroc": {**one.numbers["auroc"], "knn": one.numbers["knn"]},
    }


def _figures(settings: StructureSettings, parts: NetworksByPart, table: list[dict[str, Any]]) -> dict[str, Any]:
    from ..plots.benchmark import familiarity_histograms
    from ..plots.structures import StructurePanel, bound_figure, flattened, structure_figure, structure_planes

    outcomes, planes, histograms = [], {}, {}
    for name, runs in parts["main"].items():
        first, ood = runs[0].network, runs[0].ood
        ours, theirs = _over(runs, (*PRINTED, "density", "knn")), PAPER[name]
        accuracy, loss = ours["accuracy"].value, ours["cross_entropy"].value
        words = f"accuracy {accuracy:.1f} %\ncross-entropy {loss:.3f}\n(paper: {theirs['cross_entropy'].value:.3f})"
        means: dict[str, Any] = {"the paper": theirs["auroc"]}
        means |= {label: ours[key] for label, key in _SHOWN.items()}
        values = {label: (mean.value, mean.standard_error) for label, mean in means.items()}
        outcomes.append(StructurePanel(name, SHAPES.get(name) or flattened(first.head), words, values))
        some, few = drawn_rows(settings.seed, first.test, ood)
        shown = first.test.take(some)
        planes[name] = (first.head, shown.array(), np.asarray(shown.labels), ood.rows(few))
        histograms[name] = runs[0].layer
    printed_points = {name: (line["cross_entropy"].value, line["auroc"].value) for name, line in PAPER.items()}
    return {
        "structures": structure_figure(outcomes),
        "planes": structure_planes(planes),
        "bounds": bound_figure(table, printed_points),
        "histograms": familiarity_histograms(histograms),
    }


_SHOWN = {"U_entropy": "auroc", "U_density": "density", "kNN": "knn"}
