"""X4 (fig_counterfact_structs): the last layer frozen in structures that are worse than the optimal one.

LeNet(16) on three classes of MNIST, 2 epochs, Fashion-MNIST out; trainable, optimal, sandwich, stack, lopsided. Past
the paper: U_density (E4) and nearest neighbours on the same features, which tell a bad boundary (they still detect)
from bad features (they fail as well); how all depends on the scale of the frozen layer; and what happens to a structure
that is aligned with the axes, where features >= 0 lose a class.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...engine import Engine
from ...estimators import estimator
from ...estimators.softmax import softmax
from ...metrics import auroc
from ...runs import Draft, Store
from ..training import TrainSettings
from .base import Mean, Reported, Result, Row, Settings, Statement
from .detection import claim_tables, detection
from .networks import Images, NetworkPlan, TrainedNetwork, subsets, trained
from .structured import MAKERS, StructurePlan
from .x01_mnist import FASHION, MNIST, POINTS

TRAINABLE = "trainable"
#: accuracy, cross-entropy, AUROC of the paper's table, each with its standard error.
PAPER = {
    TRAINABLE: (Reported(99.5, 0.0), Reported(0.011, 0.002), Reported(98.6, 0.4)),
    "optimal": (Reported(99.6, 0.0), Reported(0.014, 0.004), Reported(98.9, 0.1)),
    "sandwich": (Reported(99.5, 0.0), Reported(0.360, 0.002), Reported(71.6, 0.8)),
    "stack": (Reported(99.3, 0.0), Reported(0.276, 0.020), Reported(69.5, 1.3)),
    "lopsided": (Reported(99.2, 0.1), Reported(0.079, 0.008), Reported(73.6, 6.0)),
}


@dataclass(frozen=True, kw_only=True)
class StructureSettings(Settings):
    """`norm` is the scale of the frozen layers; `norms` are the scales at which their dependence on it is shown, one
    run each on `study` training images; `aligned` structures are trained without the random rotation as well, at
    `aligned_norm`.
    """

    data: Images = MNIST
    ood: Images = FASHION
    net: str = "lenet"
    features: int = 16
    epochs: int = 2
    batch: int = 128
    norm: float = 10.0
    norms: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    study: int | None = 6000
    aligned: tuple[str, ...] = ("sandwich",)
    aligned_norm: float = 1.0

    def plan(self, structure: str, norm: float, *, aligned: bool = False) -> NetworkPlan:
        """The network of one run; the trainable one is that of X1b."""
        training = TrainSettings(
            epochs=self.epochs, batch=self.batch, seed=self.seed, precision="float32", threads=self.threads
        )
        common: dict[str, Any] = {
            "data": self.data,
            "ood": (self.ood,),
            "net": self.net,
            "config": {"features": self.features},
            "training": training,
        }
        if structure == TRAINABLE:
            return NetworkPlan(**common)
        return StructurePlan(**common, structure=structure, norm=norm, aligned=aligned)

    def small(self) -> "StructureSettings":
        """The first run on fewer training images."""
        return replace(self, data=replace(self.data, train=self.study), runs=1)


SCALES = {
    "smoke": StructureSettings(
        data=Images("digits", (0, 1, 2)),
        ood=Images("digits", (5, 7, 9)),
        net="small",
        epochs=3,
        batch=32,
        norms=(10.0,),
        study=None,
        aligned=(),
    ),
    "laptop": StructureSettings(data=replace(MNIST, train=6000), runs=3, norms=(1.0, 10.0), study=3000),
    "paper": StructureSettings(runs=3),
}

Found = tuple[TrainedNetwork, dict[str, Any]]
Parts = dict[str, list[Found]]


def run(settings: StructureSettings, store: Store, engine: Engine) -> Result:
    """Train every structure, then the study of scales and the aligned ones; pictures are those of the first run."""
    planned = _plans(settings)
    plans = [plan for _, _, plan in planned]
    every: list[Found] = engine.map(partial(_one, store), plans, threads=settings.threads, label="X4")
    parts: dict[str, Parts] = {"main": {}, "aligned": {}, "scale": {}}
    for (part, name, _), pair in zip(planned, every):
        parts[part].setdefault(name, []).append(pair)
    main, aligned, scales = parts.values()
    return Result(
        rows=[
            *_rows(main),
            *(row for name, pairs in aligned.items() for row in _table_rows(name, f"{name}, aligned", pairs)),
        ],
        figures=_figures(settings, main, aligned, scales),
        captions=_CAPTIONS,
        tables=_tables(settings, main, aligned, scales),
        notes=_notes(settings),
        subsets=subsets([network for network, _ in every]),
        seconds=sum(network.seconds for network, _ in every),
    )


def _plans(settings: StructureSettings) -> list[tuple[str, str, NetworkPlan]]:
    """(part of the experiment, structure, plan) of every network."""
    runs, small = settings.single_runs(), settings.small()
    main = [("main", name, one.plan(name, settings.norm)) for name in PAPER for one in runs]
    aligned = [
        ("aligned", name, one.plan(name, settings.aligned_norm, aligned=True))
        for name in settings.aligned
        for one in runs
    ]
    scale = [("scale", name, small.plan(name, norm)) for name in MAKERS for norm in settings.norms]
    return [*main, *aligned, *scale, ("scale", TRAINABLE, small.plan(TRAINABLE, settings.norm))]


_CAPTIONS = {
    "structures": "Top: the five structures, weights as arrows and confidence (bright) over the plane they span; the "
    "trainable one as learned. Below: AUROC against the OOD data of the paper's softmax score, of ours, and of two "
    "scores that see only the features. Where these stay high and U_entropy falls, the boundary is to blame.",
    "planes": "Final layer of each network on the first two principal components of test and OOD points (100 each); "
    "bright = confident.",
    "scales": "How the result depends on the scale of the frozen layer: one run each on fewer training images. Dashed: "
    "the trainable layer. Grey: the scale of the main table.",
    "losses": "Every network of this experiment: AUROC against cross-entropy, beside the paper's. A sandwich aligned "
    "with the axes loses a class and lands where the paper's does; lopsided networks that are trained little reach the "
    "paper's loss and its AUROC, those trained to the end both of the optimal structure; only the stack stays worse.",
    "histograms": "norm(z) and cosines to the weights, test against OOD inputs, for each structure. Dotted: medians.",
}


def _one(store: Store, plan: NetworkPlan) -> Found:
    network = trained(store, plan)
    found = detection(network, plan.ood[0].name).json()
    nearest = network.run.step("nearest", partial(_nearest, network), inputs={"features": network.made})
    found["auroc"] |= nearest.json()
    return network, found


def _nearest(network: TrainedNetwork, draft: Draft) -> None:
    score = estimator("knn").fit(network.head, network.train).uncertainty
    (ood,) = network.ood.values()
    draft.json({"knn": 100 * auroc(score(network.test), score(ood)).value})


def _over(pairs: list[Found], key: str, estimator: str | None = None) -> Mean:
    return Mean.over([found[key] if estimator is None else found[key][estimator] for _, found in pairs])


def _rows(main: Parts) -> list[Row]:
    rows = []
    for name, pairs in main.items():
        rows += _table_rows(name, name, pairs)
        rows += [
            Row(f"{name}: AUROC of {label} (past the paper)", _over(pairs, "auroc", key), unit="%")
            for label, key in _SHOWN.items()
            if key != "entropy"
        ]
    good, bad = ([_over(main[name], "auroc", "entropy").value for name in names] for names in _SIDES)
    gap = min(good) - max(bad)
    losses = {name: _over(pairs, "cross_entropy").value for name, pairs in main.items()}
    excess = min(losses[name] for name in MAKERS if name != "optimal") - losses["optimal"]
    return [
        *rows,
        Row(
            "AUROC of the worse of trainable and optimal less the best of the others",
            Mean(gap),
            Statement("trainable and optimal above all others", gap > 0),
            "%",
        ),
        Row(
            "cross-entropy of the best other frozen structure less that of optimal",
            Mean(excess),
            Statement("larger for non-optimal structures", excess > 0),
            digits=3,
        ),
    ]


_SIDES = ((TRAINABLE, "optimal"), ("sandwich", "stack", "lopsided"))


def _table_rows(name: str, label: str, pairs: list[Found]) -> list[Row]:
    """The three numbers that the paper's table has."""
    accuracy, loss, area = PAPER[name]
    return [
        Row(f"{label}: accuracy", _over(pairs, "accuracy"), accuracy, "%", tolerance=0.3),
        Row(f"{label}: cross-entropy", _over(pairs, "cross_entropy"), loss, digits=3),
        Row(f"{label}: AUROC of U_entropy", _over(pairs, "auroc", "entropy"), area, "%"),
    ]


def _notes(settings: StructureSettings) -> list[str]:
    return [
        "The paper gives no coordinates; its words and pictures are read as: sandwich, weights over a half circle; "
        "stack, parallel boundaries; lopsided, two weights 45 degrees apart and the third opposite. Its AUROC is that "
        "of softmax confidence; ours is U_entropy (U_max in the table).",
        f"Frozen weights have norm {settings.norm:g} (the paper is silent) and lie in a plane of R^{settings.features} "
        f"drawn at random in each run; 'aligned' ones lie in the first two coordinates, with norm "
        f"{settings.aligned_norm:g}.",
        "Aligned, features >= 0 can't favour the first class: its inputs end at z = 0, where each class gets 1/3, so "
        "that cross-entropy is log 3 times the class's share, about 0.36, and a third of the test inputs look OOD "
        "(table `aligned`: accuracy and median confidence of each class).",
        "The stack's weights move from the optimal structure over the first half of the training.",
        "The paper states no optimiser; ours: Adam at 1e-3. OOD images are those of the test split, all classes.",
    ]


def _tables(settings: StructureSettings, main: Parts, aligned: Parts, scales: Parts) -> dict[str, list[dict[str, Any]]]:
    named = [(f"{settings.net}, {name}", found) for name, pairs in main.items() for _, found in pairs]
    return {
        "networks": [_table_row(name, *pair) for name, pairs in main.items() for pair in pairs],
        "aligned": [_table_row(name, *pair) for name, pairs in aligned.items() for pair in pairs],
        "scales": [_table_row(name, *pair) for name, pairs in scales.items() for pair in pairs],
        **claim_tables(named, ("T19", "T21", "T23")),
    }


def _table_row(name: str, network: TrainedNetwork, found: dict[str, Any]) -> dict[str, Any]:
    plan, z = network.plan, network.train.array()
    labels = np.asarray(network.test.labels)
    logits = network.head.logits(network.test.array())
    right, confidence = logits.argmax(axis=1) == labels, softmax(logits).max(axis=1)
    classes = range(network.head.n_classes)
    return {
        "structure": name,
        "norm": plan.norm if isinstance(plan, StructurePlan) else float(network.head.weight_norms.mean()),
        "seed": plan.training.seed,
        "median_norm_z": float(np.median(network.head.norms(z))),
        "dead_features": int((z.max(axis=0) == 0).sum()),
        "class_accuracy": [100 * float(right[labels == k].mean()) for k in classes],
        "class_confidence": [float(np.median(confidence[labels == k])) for k in classes],
        **{key: found[key] for key in ("accuracy", "cross_entropy", "auroc", "causes", "more_confident")},
    }


def _figures(settings: StructureSettings, main: Parts, aligned: Parts, scales: Parts) -> dict[str, Any]:
    from ..plots.familiarity import familiarity_histograms
    from ..plots.structures import Outcome, flattened, loss_figure, scale_figure, structure_figure, structure_planes

    outcomes, planes, histograms = [], {}, {}
    for name, pairs in main.items():
        first, ood = pairs[0][0], settings.ood.name
        shape = MAKERS[name](3, 2) if name in MAKERS else flattened(first.head)
        accuracy, loss = _over(pairs, "accuracy"), _over(pairs, "cross_entropy")
        words = f"accuracy {accuracy.value:.1f} %\ncross-entropy {loss.value:.3f}\n(paper: {PAPER[name][1].value:.3f})"
        area = {label: _over(pairs, "auroc", key) for label, key in _SHOWN.items()}
        paper = PAPER[name][2]
        values = {"the paper": (paper.value, paper.standard_error)}
        values |= {label: (mean.value, mean.standard_error) for label, mean in area.items()}
        outcomes.append(Outcome(name, shape, words, values))
        rng = np.random.default_rng([settings.seed, 2])
        some, few = (np.sort(rng.permutation(len(rows))[:POINTS]) for rows in (first.test, first.ood[ood]))
        shown = first.test.take(some)
        planes[name] = (first.head, shown.array(), np.asarray(shown.labels), first.ood[ood].rows(few))
        histograms[name] = (first.head, first.test.array(), first.ood[ood].array())
    lines = {name: [_line(pair) for pair in pairs] for name, pairs in scales.items()}
    every = {name: [*map(_line, pairs), *lines[name]] for name, pairs in main.items()}
    printed = {name: (lost.value, area.value, area.standard_error) for name, (_, lost, area) in PAPER.items()}
    return {
        "structures": structure_figure(outcomes),
        "planes": structure_planes(planes),
        "scales": scale_figure({name: lines[name] for name in MAKERS}, settings.norm, lines[TRAINABLE][0]),
        "losses": loss_figure(every, [_line(pair) for pairs in aligned.values() for pair in pairs], printed),
        "histograms": familiarity_histograms(histograms),
    }


_SHOWN = {"U_entropy": "entropy", "U_density": "density", "kNN": "knn"}


def _line(pair: Found) -> dict[str, float]:
    network, found = pair
    norm = network.plan.norm if isinstance(network.plan, StructurePlan) else 1.0
    kept = {key: found[key] for key in ("accuracy", "cross_entropy")}
    return {"norm": norm, **kept, "entropy": found["auroc"]["entropy"]}
