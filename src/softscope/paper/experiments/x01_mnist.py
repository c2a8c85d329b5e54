"""X1b (fig_2d b): a LeNet that learned three digits maps Fashion-MNIST to where its softmax is unsure.

As in the paper: LeNet(16), 2 epochs; 100 test and 100 OOD points on the first two principal components of both, with
U_entropy over a grid on that plane. Past the paper: the same for other triples of classes.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...engine import Engine
from ...features import FeatureSet
from ...runs import Store
from . import texts
from .base import Result, Settings
from .judge import claim_tables, detected
from .judgement import Detected
from .networks import Images, NetworkPlan, subsets
from .verdict import Mean, Row, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 100
MNIST, FASHION = Images("mnist", (0, 1, 2)), Images("fashion_mnist")


@dataclass(frozen=True, kw_only=True)
class PlaneSettings(Settings):
    """`runs` networks on the classes of `data`, and one on each of `others` further triples, drawn by the seed."""

    data: Images = MNIST
    ood: Images = FASHION
    others: int = 5
    net: str = "lenet"
    features: int = 16
    epochs: int = 2
    batch: int = 128

    def plan(self, classes: tuple[int, ...], seed: int) -> NetworkPlan:
        """The network of one run."""
        return replace(self, seed=seed).network(replace(self.data, classes=classes), self.ood)


SCALES = {
    "smoke": PlaneSettings(
        data=Images("digits", (0, 1, 2)), ood=Images("digits", (5, 7, 9)), others=1, net="small", epochs=5, batch=32
    ),
    "laptop": PlaneSettings(data=replace(MNIST, train=6000), runs=3),
    "paper": PlaneSettings(runs=3),
}


def run(settings: PlaneSettings, store: Store, engine: Engine) -> Result:
    """Train the networks; the picture is that of the first run."""
    chosen = settings.data.classes or ()
    plans = [settings.plan(chosen, one.seed) for one in settings.single_runs()]
    plans += [settings.plan(triple, settings.seed) for triple in other_triples(settings)]
    every: list[Detected] = engine.map(partial(detected, store), plans, threads=settings.threads, label="X1b")
    own, others = every[: settings.runs], every[settings.runs :]
    named = [(f"{one.network.plan.net} on {one.network.plan.data.name}, seed {one.seed}", one.numbers) for one in every]
    from ..plots.benchmark import familiarity_histograms

    first = own[0]
    return Result(
        rows=_rows(own, others),
        figures={
            "plane": _picture(settings, first),
            "triples": _spread(own, others),
            "histograms": familiarity_histograms({first.title: first.layer}),
        },
        tables={"networks": [_network_row(one) for one in every], **claim_tables(named, ("T19", "T21", "T23"))},
        **texts("X1b"),
        subsets=subsets(every),
        seconds=sum(one.seconds for one in every),
    )


def other_triples(settings: PlaneSettings) -> list[tuple[int, ...]]:
    """`others` triples of the ten classes besides the chosen one, drawn by the seed; none that the OOD set contains."""
    taken = set(settings.ood.classes or ()) if settings.ood.dataset == settings.data.dataset else set()
    free = [k for k in range(10) if k not in taken]
    every = [triple for triple in combinations(free, 3) if triple != settings.data.classes]
    drawn = np.random.default_rng([settings.seed, 1]).permutation(len(every))[: settings.others]
    return [every[number] for number in sorted(drawn)]


def _rows(own: list[Detected], others: list[Detected]) -> list[Row]:
    triples = [one.numbers for one in [*own[:1], *others]]
    spread = [numbers["auroc"]["entropy"] for numbers in triples]
    ours: dict[str, Any] = {
        name: [one.numbers[name] for one in own] for name in ("accuracy", "more_confident", "norm_ratio")
    }
    ours |= {name: [one.numbers["auroc"][name] for one in own] for name in ("entropy", "max", "density")}
    ours["triples"] = Mean.of(spread, "triples")
    ours |= {"deviation": Mean(float(np.std(spread, ddof=1))), "worst": Mean(min(spread))}
    ours["more_confident_triples"] = [numbers["more_confident"] for numbers in triples]
    return rows_of("X1b", ours, triples=len(triples))


def _network_row(one: Detected) -> dict[str, Any]:
    kept = ("accuracy", "cross_entropy", "auroc", "causes", "more_confident", "norm_ratio")
    classes = one.network.plan.data.classes
    return {"classes": classes, "seed": one.seed, **{name: one.numbers[name] for name in kept}}


def _spread(own: list[Detected], others: list[Detected]) -> "Figure":
    from ..plots.plane import triple_spread

    groups = [own, *([one] for one in others)]
    names = [", ".join(group[0].network.head.classes or ()) for group in groups]
    entropy, density = (
        [float(np.mean([one.numbers["auroc"][name] for one in group])) for group in groups]
        for name in ("entropy", "density")
    )
    return triple_spread(names, entropy, density, chosen=0)


def drawn_rows(seed: int, *sets: FeatureSet) -> list[NDArray[np.int64]]:
    """At most `POINTS` rows of each set to show, drawn by the seed."""
    rng = np.random.default_rng([seed, 2])
    return [np.sort(rng.permutation(len(rows))[:POINTS]) for rows in sets]


def _picture(settings: PlaneSettings, one: Detected) -> "Figure":
    from ...estimators import scores
    from ..plots.plane import examples_and_plane

    network, numbers = one.network, one.numbers
    shown = drawn_rows(settings.seed, network.test, one.ood)
    images = [source.load("test").images[rows] for source, rows in zip((network.plan.data, settings.ood), shown)]
    printed = scores(network.head, network.train, ("entropy",), plain=True)["entropy"]
    remark = (
        f"This network: AUROC of U_entropy {numbers['auroc']['entropy']:.1f} %; {numbers['more_confident']:.1f} % of "
        "OOD are more confident than the median of training"
    )
    test = network.test.take(shown[0])
    return examples_and_plane(
        network.head,
        (images[0], images[1]),
        (test.array(), np.asarray(test.labels), one.ood.rows(shown[1])),
        float(np.quantile(printed, 0.95)),
        (f"Test data: {settings.data.name}", f"OOD data: {settings.ood.name}"),
        remark,
    )
