"""X3 (fig_weight_analysis): the last layers of trained networks come close to the optimal structure.

A column is a network trained in `runs` runs. ResNet18 on CIFAR is that of X9 at the same scale: the run store hands
over what X9 has trained; at scale overnight it is as many networks as X9 has by then. The column of ImageNet is a
published head, where its weights are at hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ...canonical import LATER
from ...engine import Engine
from ...errors import SoftscopeError
from ...geometry import structure_report
from ...head import Head
from ...runs import Store
from ..plots.layers import HeadGroup, pair_cosines, weight_histograms
from ..training import TrainSettings
from . import texts
from .base import Result, Settings, by_runs
from .networks import Images, NetworkPlan, TrainedNetwork, subsets, trained
from .verdict import Mean, Row, Statement, rows_of
from .x09_five_sets import measured
from .x09_plans import SCALES as BENCHMARK
from .x09_plans import plans

if TYPE_CHECKING:
    from ..nets import Net

_TRAINING = TrainSettings(epochs=2, batch=32, precision="float32", threads=1)


@dataclass(frozen=True, kw_only=True)
class ZeroBiasPlan(NetworkPlan):
    """A network whose last layer starts as Keras draws it: weights uniform in ±sqrt(6 / (H + K)), biases 0.

    torch, where plain plans start, draws both uniformly in ±1/sqrt(H).
    """

    def build(self, classes: int) -> "Net":
        """The untrained network."""
        net = super().build(classes)
        features = net.classifier.in_features
        limit = (6 / (features + classes)) ** 0.5
        weight = np.random.default_rng([self.training.seed, 3]).uniform(-limit, limit, (classes, features))
        net.replace_classifier(weight, np.zeros(classes), trainable=True)
        return net


@dataclass(frozen=True)
class Column:
    """A column of the figure: the runs of `plan`, its seed counted on, at most `runs` of them and at most `draws`
    untrained layers beside them."""

    title: str
    plan: NetworkPlan
    draws: int | None = None
    runs: int | None = None

    def seeded(self, seed: int) -> NetworkPlan:
        """The plan of one run."""
        training = self.plan.training
        return replace(self.plan, training=replace(training, seed=training.seed + seed))

    def untrained(self, classes: int, draws: int) -> list[Head]:
        """Last layers that training starts from."""
        seeds = range(min(draws, self.draws or draws))
        return [_head(self.seeded(seed).build(classes).classifier, "untrained") for seed in seeds]


@dataclass(frozen=True, kw_only=True)
class WeightSettings(Settings):
    """`untrained` heads are drawn to compare with each column; `published` names pre-trained networks; `benchmark` is
    the scale of X9 whose networks are read, where they are there, and never trained here."""

    columns: tuple[Column, ...] = ()
    published: tuple[str, ...] = ()
    untrained: int = 100
    benchmark: str = field(default="", metadata=LATER)


@dataclass(frozen=True)
class Layer:
    """The last layer of a trained network, and what its row says of the training."""

    head: Head
    accuracy: float
    seed: int
    seconds: float
    subsets: list[str]
    epochs: int


def _column(
    classes: int,
    features: int,
    train: int | None = None,
    *,
    plan: type[NetworkPlan] = ZeroBiasPlan,
    training: TrainSettings = _TRAINING,
    runs: int | None = None,
) -> Column:
    data = Images("mnist", tuple(range(classes)), train=train)
    config = {"features": features, "activation": "tanh"}
    start = "" if plan is ZeroBiasPlan else ", torch's start"
    title = f"LeNet, MNIST 0-{classes - 1}\nK={classes}, H={features}{start}"
    return Column(title, plan(data=data, config=config, training=training), runs=runs)


# With separable classes and no decay the loss keeps falling, ever more slowly: the limit ends what would not end.
_UNTIL_FLAT = replace(_TRAINING, epochs=60, patience=3, precision="auto")


def _long_columns() -> tuple[Column, ...]:
    """LeNets trained until their loss no longer falls; two classes start from luck (T28), so more networks of them."""
    long = partial(_column, training=_UNTIL_FLAT)
    return (long(2, 4, runs=20), long(5, 16, runs=5), long(5, 32, runs=5), long(5, 16, plan=NetworkPlan, runs=5))


def _columns(train: int | None = None) -> tuple[Column, ...]:
    shapes = ((2, 4), (5, 16), (5, 32))
    return (*(_column(*shape, train) for shape in shapes), _column(5, 16, train, plan=NetworkPlan))


def _residual(scale: str) -> tuple[Column, ...]:
    """ResNet18 on CIFAR as X9 trains it. Building one takes long: a few untrained layers, of many weights, must do."""
    named = {"cifar10": ("CIFAR-10", 10), "cifar100": ("CIFAR-100", 100)}
    columns = []
    for plan in plans(BENCHMARK[scale]):
        if plan.data.name in named:
            name, classes = named[plan.data.name]
            images = "all images" if plan.data.train is None else f"{plan.data.train:,} images"
            how = f"{plan.training.epochs} epochs, {images}"
            title = f"ResNet18, {name}\n{how}\nK={classes}, H=512"
            columns.append(Column(title, plan, draws=10, runs=BENCHMARK[scale].runs))
    return tuple(columns)


def _small(classes: int, features: int) -> Column:
    plan = ZeroBiasPlan(
        data=Images("digits", tuple(range(classes))),
        net="small",
        config={"features": features, "activation": "tanh"},
        training=replace(_TRAINING, epochs=3),
    )
    return Column(f"Small, digits 0-{classes - 1}\nK={classes}, H={features}", plan)


_LITE = ("efficientnet_lite0", "efficientnet_lite1")

SCALES = {
    "smoke": WeightSettings(columns=(_small(2, 4), _small(5, 16)), untrained=20),
    "laptop": WeightSettings(columns=(*_columns(train=6000), *_residual("laptop")), published=_LITE, runs=2),
    "overnight": WeightSettings(
        columns=_long_columns(), published=_LITE, runs=20, benchmark="overnight", piecewise=True
    ),
    "paper": WeightSettings(columns=(*_columns(), *_residual("paper")), published=("efficientnet_b0",), runs=2),
}


def run(settings: WeightSettings, store: Store, engine: Engine) -> "Result | Iterator[Result]":
    """Train every column's networks and measure their last layers."""
    result = partial(_result, store=store, engine=engine)
    return by_runs(result, settings, step=5) if settings.piecewise else result(settings)


def _result(settings: WeightSettings, store: Store, engine: Engine) -> Result:
    layers = [*_trained_layers(settings, store, engine), *_benchmark_layers(settings, store, engine)]
    published, remarks = _published(settings.published)
    groups, heads = [], []
    for column, own in layers:
        trained_heads = [layer.head for layer in own]
        untrained = column.untrained(trained_heads[0].n_classes, settings.untrained)
        groups.append(HeadGroup(column.title, trained_heads, untrained))
        heads += [_head_row(column.title, n.head, n.accuracy, n.seed) | {"epochs": n.epochs} for n in own]
    groups += published
    heads += [_head_row(group.title, group.trained[0], None, 0) for group in published]
    kept = ("network", "seed", "classes", "skewness", "similar")
    skewed = [{name: row[name] for name in kept} for row in heads if row["classes"] > 2]
    training = next((column.plan.training for column in settings.columns), _TRAINING)
    words = texts("X3", runs=settings.runs, draws=settings.untrained, how=_how_long(training), batch=training.batch)
    return Result(
        rows=[row for group in groups for row in _rows(group)],
        figures={"weights": weight_histograms(groups)},
        captions=words["captions"],
        tables={"heads": heads, "T25": skewed},
        notes=[*words["notes"], *remarks],
        subsets=subsets(layer for _, own in layers for layer in own),
        seconds=sum(layer.seconds for _, own in layers for layer in own),
    )


def _how_long(training: TrainSettings) -> str:
    if training.patience:
        until = f"until no loss of {training.patience} epochs in a row is 1 % below the lowest before them"
        return f"{until} (at most {training.epochs} epochs)"
    return f"{training.epochs} epochs" + " as for its other LeNets" * (training.epochs == 2)


def _trained_layers(settings: WeightSettings, store: Store, engine: Engine) -> list[tuple[Column, list[Layer]]]:
    runs = settings.single_runs()
    seeded = [[column.seeded(one.seed) for one in runs[: column.runs]] for column in settings.columns]
    networks = iter(engine.map(partial(trained, store), [*chain(*seeded)], threads=settings.threads, label="X3"))
    return [(column, [_layer(next(networks)) for _ in own]) for column, own in zip(settings.columns, seeded)]


def _layer(network: TrainedNetwork) -> Layer:
    numbers, seed = network.numbers, network.plan.training.seed
    epochs = len(numbers["history"]["loss"])
    return Layer(network.head, numbers["accuracy"], seed, network.seconds, numbers["subsets"], epochs)


def _benchmark_layers(settings: WeightSettings, store: Store, engine: Engine) -> list[tuple[Column, list[Layer]]]:
    """X9's networks on CIFAR, as many as X9 has; their time is X9's."""
    if not settings.benchmark:
        return []
    columns = {column.plan.data.name: column for column in _residual(settings.benchmark)}
    lines = measured(BENCHMARK[settings.benchmark], store, engine, tuple(columns))
    every = []
    for name, networks in lines.items():
        layers = [
            Layer(head, own.accuracy, own.seed, 0.0, own.facts["subsets"], own.plan.training.epochs)
            for own in networks
            if (head := own.head) is not None
        ]
        if layers:
            every.append((columns[name], layers))
    return every


_FEW = 2  # untrained layers of 1.3 million weights each


def _published(names: tuple[str, ...]) -> tuple[list[HeadGroup], list[str]]:
    """A column for each published network whose weights are at hand, and a remark on each that has none, or on all."""
    groups, remarks = [], []
    for name in names:
        try:
            groups.append(_imagenet(name))
        except SoftscopeError as error:
            remarks.append(f"{name} on ImageNet is left out: {error}")
    if groups:
        remarks.append(
            "ImageNet's heads are the published ones of EfficientNet-Lite (the paper's: EfficientNetB0), beside "
            f"{_FEW} layers as torch starts them; how theirs started isn't known. Cosines of 1000 classes spread "
            "little, so their rms is small before training too."
        )
    return groups, remarks


def _imagenet(name: str) -> HeadGroup:
    from ...torch_door import nn, torch
    from ..nets.pretrained import pretrained

    network = pretrained(name)
    layer = network.net.classifier
    shape = f"K={layer.out_features}, H={layer.in_features}"
    head = _head(layer, name, network.classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = [_head(nn.Linear(layer.in_features, layer.out_features), "untrained") for _ in range(_FEW)]
    title = name.replace("efficientnet_", "EfficientNet-").replace("lite", "Lite").replace("-b", "B")
    return HeadGroup(f"{title}, ImageNet\npublished weights\n{shape} ({title[12:].lstrip('-')})", [head], untrained)


def _head(layer: Any, name: str, classes: tuple[str, ...] | None = None) -> Head:
    return Head(layer.weight.detach().numpy(), layer.bias.detach().numpy(), classes, name=name)


def cosine_deviation(head: Head) -> float:
    """Root mean square of cos(w_i, w_j) + 1/(K-1) over all pairs: 0 for the optimal structure."""
    return float(np.sqrt(np.mean((pair_cosines(head) + 1 / (head.n_classes - 1)) ** 2)))


def _measures(heads: list[Head]) -> dict[str, Mean]:
    reports = [structure_report(head) for head in heads]
    return {
        "norm": Mean.of([own.norms.mean for own in reports]),
        "spread": Mean.of([100 * own.norms.std / own.norms.mean for own in reports]),
        "bias": Mean.of([100 * own.bias_to_norm for own in reports]),
        "cosine": Mean.of([own.cosines.mean for own in reports]),
        "deviation": Mean.of([cosine_deviation(head) for head in heads]),
        "distance": Mean.of([own.distance for own in reports]),
        "centred": Mean.of([own.centred_distance for own in reports]),
    }


def _rows(group: HeadGroup) -> list[Row]:
    """The numbers of one column; those of untrained weights stand in the labels. What these meet too is hollow."""
    before = {name: mean.value for name, mean in _measures(group.untrained).items()}
    limits = {"spread": ("weights of similar magnitude", 20), "bias": ("small biases", 10)}
    paper = {
        name: Statement(text, most=most, hollow="untrained layers meet it too" if before[name] <= most else "")
        for name, (text, most) in limits.items()
    }
    paper["deviation"] = Statement("evenly distributed", most=round(before["deviation"] / 2, 3))
    optimum = -1 / (group.trained[0].n_classes - 1)
    where = group.title.split("\n")[-1]
    return rows_of("X3", _measures(group.trained), paper, where=where, optimum=optimum, untrained=before)


def _head_row(title: str, head: Head, accuracy: float | None, seed: int) -> dict[str, Any]:
    report = structure_report(head)
    pairs = pair_cosines(head)
    first, second = np.triu_indices(head.n_classes, 1)
    nearest = np.argsort(pairs)[::-1][:3]
    return {
        "network": title.replace("\n", ", "),
        "seed": seed,
        "accuracy": accuracy,
        "classes": head.n_classes,
        "features": head.n_features,
        "norms": head.weight_norms if head.n_classes <= 100 else None,
        "biases": head.bias if head.n_classes <= 100 else None,
        "cosines": pairs if len(pairs) <= 45 else None,
        "skewness": report.cosines.skewness,
        "distance": report.distance,
        "centred_distance": report.centred_distance,
        "similar": [
            {"pair": [head.class_name(int(first[n])), head.class_name(int(second[n]))], "cosine": pairs[n]}
            for n in nearest
        ],
    }
