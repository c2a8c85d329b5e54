"""X5 (fig_activation_mnsit_fashion, fig_ankle_boots): what OOD inputs do to the final layer, and when that fails.

A LeNet with 64 final features learns three classes; heat maps show the features of test and OOD inputs. The paper's
point: OOD features are weaker (norm(z)) or combined as never in training (max cos), so confidence falls. Its failure:
with ankle boots among the classes, digits look like ankle boots. Past the paper: every triple of classes, ranked.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...canonical import LATER
from ...engine import Engine
from ...estimators import scores
from ...estimators.softmax import log_odds
from ...runs import Draft, Store
from ..datasets import find
from ..training import Precision
from . import texts
from .base import Result, Settings, by_runs
from .judge import claim_tables, detected
from .judgement import Detected
from .networks import Images, TrainedNetwork, subsets
from .triples import Search, landing, rank_triples
from .verdict import Row, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..nets import Net


@dataclass(frozen=True)
class Case:
    """A network of the experiment: its name in file names, what it learns, and what it is confronted with."""

    name: str
    data: Images
    ood: Images


@dataclass(frozen=True, kw_only=True)
class ActivationSettings(Settings):
    """`cases` are both directions of fig_activation_mnsit_fashion, then the failure of fig_ankle_boots, in which
    `suspect` (a label of the data set) is the class that the paper blames, then other triples with it; `search` looks
    at every triple."""

    cases: tuple[Case, ...]
    search: Search
    suspect: int = 9
    net: str = "lenet"
    features: int = 64
    epochs: int = 40
    precision: Precision = field(default="float32", metadata=LATER)


#: with the suspect, beside the paper's failure, whose two other classes it does not name
_OTHER_TRIPLES = ((2, 4, 9), (2, 6, 9), (4, 6, 9), (7, 8, 9))


def _cases(train: int | None, test: int | None, further: Sequence[tuple[int, ...]] = ()) -> tuple[Case, ...]:
    def case(name: str, dataset: str, classes: tuple[int, ...], other: str) -> Case:
        return Case(name, Images(dataset, classes, train, test), Images(other, None, None, test))

    return (
        case("mnist", "mnist", (0, 1, 2), "fashion_mnist"),
        case("fashion", "fashion_mnist", (0, 1, 2), "mnist"),
        case("boots", "fashion_mnist", (0, 1, 9), "mnist"),
        *(case("boots " + " ".join(map(str, triple)), "fashion_mnist", triple, "mnist") for triple in further),
    )


_FEW_DIGITS = (
    Case("mnist", Images("digits", (0, 1, 2)), Images("digits", (3, 4, 5))),
    Case("fashion", Images("digits", (3, 4, 5)), Images("digits", (0, 1, 2))),
    Case("boots", Images("digits", (3, 4, 9)), Images("digits", (0, 1, 2))),
)
_EVERY_TRIPLE = Search(Images("fashion_mnist", train=450, test=300), Images("mnist", test=500))

SCALES = {
    "smoke": ActivationSettings(
        cases=_FEW_DIGITS,
        search=Search(Images("digits", (3, 4, 5, 9)), Images("digits", (0, 1, 2)), net="small"),
        net="small",
        epochs=4,
        runs=2,
    ),
    "laptop": ActivationSettings(cases=_cases(2400, 1000), search=_EVERY_TRIPLE, epochs=6, runs=2),
    # LeNets learn 2.7 times as fast in bfloat16.
    "overnight": ActivationSettings(
        cases=_cases(None, None, _OTHER_TRIPLES), search=_EVERY_TRIPLE, precision="auto", runs=3, piecewise=True
    ),
    "paper": ActivationSettings(cases=_cases(None, None), search=_EVERY_TRIPLE, runs=3),
}


def run(settings: ActivationSettings, store: Store, engine: Engine) -> "Result | Iterator[Result]":
    """Rank the triples, then train each case `runs` times; the heat maps are those of the first run."""
    result = partial(_result, store=store, engine=engine)
    return by_runs(result, settings) if settings.piecewise else result(settings)


def _result(settings: ActivationSettings, store: Store, engine: Engine) -> Result:
    from ..plots.benchmark import familiarity_histograms
    from ..plots.layers import heat_map

    triples = rank_triples(settings.search, settings, store, engine)
    suspect = find(settings.search.data.dataset).classes[settings.suspect]
    cases = [*settings.cases, _worst(settings, triples.most_taken_for(suspect))]
    todo = [own.network(case.data, case.ood) for own in settings.single_runs() for case in cases]
    done: list[Detected] = engine.map(
        partial(detected, store, activations=_measure), todo, threads=settings.threads, label="X5"
    )
    runs = {case: done[index :: len(cases)] for index, case in enumerate(cases)}
    rows = [row for case in cases for row in _rows(case, runs[case])]
    figures: dict[str, Figure | bytes] = {}
    figures |= {case.name: heat_map(**_rows_to_show(runs[case][0].network)) for case in (*cases[:3], cases[-1])}
    layers = {own[0].title: own[0].layer for own in runs.values()}
    words = texts("X5", suspect=suspect)
    return Result(
        rows=[*rows, *_failure_rows(cases, runs, suspect), *triples.rows(suspect)],
        figures=figures | {"histograms": familiarity_histograms(layers), "triples": triples.picture(suspect)},
        captions=words["captions"],
        tables={
            "networks": [_flat(one) for case in cases for one in runs[case]],
            "triples": triples.table,
            "classes": triples.effects(),
            **claim_tables([(_named(one.network), one.numbers) for one in done], ("T19",)),
            "T22": [{"network": _named(one.network), **one.numbers["magnified"]} for one in done],
        },
        notes=[*(f"{case.name}: {runs[case][0].title}." for case in cases), *words["notes"]],
        subsets=subsets(done) + triples.subsets,
        seconds=sum(one.seconds for one in done) + triples.seconds,
    )


def _worst(settings: ActivationSettings, labels: tuple[int, ...]) -> Case:
    """The case that the search found, trained as the others are: a new network, so the search's luck doesn't count."""
    failing = settings.cases[-1]
    return Case("worst", replace(failing.data, classes=labels), failing.ood)


def _measure(network: TrainedNetwork, draft: Draft) -> None:
    """Medians of s_max, norm(z) and max cos, in which class OOD inputs land, and what magnified inputs do (T22)."""
    draft.json(
        {
            "medians": {
                name: {column: float(np.median(values)) for column, values in columns.items()}
                for name, columns in _columns(network).items()
            },
            "landing": landing(network),
            "magnified": magnified(network),
        }
    )


def _columns(network: TrainedNetwork) -> dict[str, dict[str, Any]]:
    """s_max, norm(z) and max cos of train, test and OOD inputs."""
    head, (ood,) = network.head, network.ood.values()
    columns = {}
    for name, features in (("train", network.train), ("test", network.test), ("OOD", ood)):
        z = features.array()
        confidence = -scores(head, features, ("max",), plain=True)["max"].astype(np.float64)
        columns[name] = {"s_max": confidence, "norm": head.norms(z), "cos": head.cosines(z).max(axis=1)}
    return columns


def _named(network: TrainedNetwork) -> str:
    plan = network.plan
    return f"{plan.net}({plan.config['features']}) on {plan.data.name}, seed {plan.training.seed}"


def _rows(case: Case, runs: list[Detected]) -> list[Row]:
    every = [one.numbers for one in runs]
    ours = {"accuracy": [own["accuracy"] for own in every], "overlap": [own["causes"]["overlap"] for own in every]}
    ours |= {name: [own["auroc"][name] for own in every] for name in ("norm", "familiarity", "entropy")}
    for column in ("norm", "cos"):
        medians = [own["medians"] for own in every]
        ours[f"{column}_ratio"] = [own["OOD"][column] / own["train"][column] for own in medians]
    return rows_of("X5", ours, case=case.name)


def _failure_rows(cases: list[Case], runs: dict[Case, list[Detected]], suspect: str) -> list[Row]:
    """What the paper says of the failure, for the cases with the suspect class: all after the first two."""
    usual = [one.numbers["auroc"]["entropy"] for one in runs[cases[1]]]
    rows = []
    for case in cases[2:]:
        landed = [own for one in runs[case] for own in one.numbers["landing"] if own["class"] == suspect]
        ours = {name: [own[name] for own in landed] for name in ("share", "confident_share")}
        ours["change"] = [one.numbers["auroc"]["entropy"] - other for one, other in zip(runs[case], usual)]
        rows += rows_of("X5", ours, case=case.name, suspect=suspect, usual=cases[1].name)
    return rows


def _flat(one: Detected) -> dict[str, Any]:
    kept = ("accuracy", "auroc", "causes", "medians", "landing")
    return {"case": one.title, "seed": one.seed, **{name: one.numbers[name] for name in kept}}


def _rows_to_show(network: TrainedNetwork) -> dict[str, Any]:
    """Inputs of the heat map, chosen by no look at them: the first four of each class, the first of each OOD class."""
    plan, head = network.plan, network.head
    own, ood = plan.data.load("test"), plan.ood[0].load("test")
    few = np.concatenate([np.flatnonzero(own.labels == k)[:4] for k in range(head.n_classes)])
    strange = np.array([np.flatnonzero(ood.labels == k)[0] for k in np.unique(ood.labels)])
    columns = _columns(network)
    (ood_features,) = network.ood.values()
    return {
        "head": head,
        "train": network.train,
        "z": np.concatenate([network.test.array()[few], ood_features.array()[strange]]),
        "images": [*own.images[few], *ood.images[strange]],
        "labels": own.labels[few],
        "ood": [ood.class_names[k] for k in ood.labels[strange]],
        "columns": {
            name: np.concatenate([columns["test"][name][few], columns["OOD"][name][strange]]) for name in columns["OOD"]
        },
        "title": f"{plan.data.name} against {plan.ood[0].name}",
    }


FACTORS = (2, 10, 100)
_MAGNIFIED_ROWS = 300


def magnified(network: TrainedNetwork) -> dict[str, Any]:
    """Magnified inputs in a ReLU network (T22), over the first test images x, psi_0 the network without its biases:

    departure_a  norm(psi(a x) / a - psi_0(x)) / norm(psi_0(x)), which tends to 0 as 1/a
    gaining      percentage of inputs whose U_max falls when they are magnified 10 times
    """
    from ...images import fit_images

    net, head = network.net(), network.head
    x = fit_images(network.plan.data.load("test").images[:_MAGNIFIED_ROWS], net.input_shape).astype(np.float32)
    limit = _features(_without_biases(net), x)
    size = float(np.linalg.norm(limit))
    z = {a: _features(net, a * x) for a in (1, *FACTORS)}
    departures = {f"departure_{a}": float(np.linalg.norm(z[a] / a - limit)) / size for a in FACTORS}
    gaining = log_odds(head.logits(z[10])) < log_odds(head.logits(z[1]))
    return {**departures, "gaining": 100 * float(np.mean(gaining)), "inputs": len(x)}


def _without_biases(net: "Net") -> "Net":
    bare = deepcopy(net)
    for name, values in bare.body.named_parameters():
        if name.endswith("bias"):
            values.detach().zero_()
    return bare


def _features(net: "Net", x: NDArray) -> Floats:
    from ...models import extract_features

    return extract_features(net, x).array().astype(np.float64)
