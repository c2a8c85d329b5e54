"""X4 (fig_counterfact_structs): the last layer frozen in structures that are worse than the optimal one.

LeNet(16) on three classes of MNIST, 2 epochs, Fashion-MNIST out; trainable, optimal, sandwich, stack, lopsided. Past
the paper: U_density (E4) and nearest neighbours on the same features, which tell a bad boundary (they still detect)
from bad features (they fail as well); how all depends on the scale of the frozen layer; and what happens to a structure
that is aligned with the axes, where features >= 0 lose a class.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...errors import SoftscopeError
from ...estimators import estimator
from ...estimators.softmax import softmax
from ...geometry import lopsided, optimal_structure, sandwich, stack
from ...head import Head
from ...metrics import auroc
from ...runs import Draft, Store
from ..training import TrainSettings
from .base import Result, Settings
from .judge import Detected, claim_tables, detected
from .networks import Images, NetworkPlan, TrainedNetwork, subsets
from .verdict import Kind, Mean, Reported, Row, Statement, printed
from .x01_mnist import FASHION, MNIST, POINTS

if TYPE_CHECKING:
    from ..nets import Net
    from ..training.loop import AfterStep

TRAINABLE = "trainable"
PAPER: dict[str, dict[str, Reported]] = printed("X4")
MAKERS = {"optimal": optimal_structure, "sandwich": sandwich, "stack": stack, "lopsided": lopsided}


@dataclass(frozen=True, kw_only=True)
class StructurePlan(NetworkPlan):
    """`structure` with weights of norm `norm` (its outermost for the stack), frozen.

    It is embedded in the feature space by a random rotation drawn from the training's seed. `aligned` instead puts it
    into the first coordinates, its first class where no features >= 0 can favour it: what ReLU features do then is
    part of X4. The stack is reached by moving the weights from the optimal structure over the first `moving` of all
    steps; fixed from the start, it fails to train, as in the paper.
    """

    structure: str
    norm: float
    aligned: bool = False
    moving: float = 0.5

    def head(self, classes: int, structure: str | None = None) -> Head:
        """The frozen layer, or another structure in its place and embedding."""
        name = structure or self.structure
        if name not in MAKERS:
            raise SoftscopeError(f"no structure is called {name!r}", f"Choose one of {', '.join(MAKERS)}")
        seed = None if self.aligned else self.training.seed
        made = MAKERS[name](classes, int(self.config["features"]), norm=self.norm, seed=seed)
        order = slice(None, None, -1 if self.aligned else 1)
        return Head(made.weight[order], made.bias[order], name=name)

    def build(self, classes: int) -> "Net":
        """The network with the frozen layer in the place of its own."""
        net = super().build(classes)
        if self.structure == "stack":
            net.replace_classifier(self.head(classes, "optimal").weight, np.zeros(classes))
        else:
            frozen = self.head(classes)
            net.replace_classifier(frozen.weight, frozen.bias if frozen.bias.any() else None)
        return net

    def after_step(self) -> "AfterStep | None":
        """For the stack: move the weights a step further; at the end of the move they are exactly the stack's."""
        return _Move(self) if self.structure == "stack" else None


class _Move:
    """Weights and biases on a straight line from the optimal structure to the plan's."""

    def __init__(self, plan: StructurePlan) -> None:
        self.plan = plan

    def __call__(self, net: Any, step: int, steps: int) -> None:
        import torch

        done = min(1.0, step / max(1.0, self.plan.moving * steps))
        classes = net.classifier.out_features
        start, end = self.plan.head(classes, "optimal"), self.plan.head(classes)
        weight = (1 - done) * start.weight + done * end.weight
        net.classifier.weight.copy_(torch.from_numpy(weight.astype(np.float32)))
        net.classifier.bias.copy_(torch.from_numpy((done * end.bias).astype(np.float32)))


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

Parts = dict[str, list[Detected]]


def run(settings: StructureSettings, store: Store, engine: Engine) -> Result:
    """Train every structure, then the study of scales and the aligned ones; pictures are those of the first run."""
    planned = _plans(settings)
    plans = [plan for _, _, plan in planned]
    every: list[Detected] = engine.map(
        partial(detected, store, nearest=_nearest), plans, threads=settings.threads, label="X4"
    )
    parts: dict[str, Parts] = {"main": {}, "aligned": {}, "scale": {}}
    for (part, name, _), one in zip(planned, every):
        parts[part].setdefault(name, []).append(one)
    main, aligned, scales = parts.values()
    return Result(
        rows=[
            *_rows(main),
            *(
                row
                for name, pairs in aligned.items()
                for row in _table_rows(name, f"{name}, aligned", pairs, counts=False)
            ),
        ],
        figures=_figures(settings, main, aligned, scales),
        captions=_CAPTIONS,
        tables=_tables(settings, main, aligned, scales),
        notes=_notes(settings),
        subsets=subsets([one.network for one in every]),
        seconds=sum(one.seconds for one in every),
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


def _nearest(network: TrainedNetwork, draft: Draft) -> None:
    score = estimator("knn").fit(network.head, network.train).uncertainty
    (ood,) = network.ood.values()
    draft.json({"knn": 100 * auroc(score(network.test), score(ood)).value})


def _over(networks: list[Detected], key: str, estimator: str | None = None) -> Mean:
    """Of accuracy, cross-entropy, or with `estimator` of its AUROC."""
    return Mean.of([_aurocs(one)[estimator] if estimator else one.numbers[key] for one in networks])


def _aurocs(one: Detected) -> dict[str, float]:
    return {**one.numbers["auroc"], "knn": one.numbers["knn"]}


def _rows(main: Parts) -> list[Row]:
    rows = []
    for name, pairs in main.items():
        rows += _table_rows(name, name, pairs)
        rows += [
            Row(f"{name}: AUROC of {label} (past the paper)", _over(pairs, "auroc", key), unit="%")
            for label, key in _SHOWN.items()
            if key != "entropy"
        ]
    return [
        *rows,
        Row(
            "AUROC of the worse of trainable and optimal less the best of the others",
            Mean.of([_gap(run) for run in _runs(main)]),
            Statement("trainable and optimal above all others", least=0),
            "%",
        ),
        Row(
            "cross-entropy of the best other frozen structure less that of optimal",
            Mean.of([_excess(run) for run in _runs(main)]),
            Statement("larger for non-optimal structures", least=0),
            digits=3,
        ),
    ]


def _runs(main: Parts) -> list[dict[str, dict[str, Any]]]:
    """What was detected in each run, by structure."""
    return [dict(zip(main, [one.numbers for one in run])) for run in zip(*main.values())]


def _gap(run: dict[str, dict[str, Any]]) -> float:
    good, bad = ([run[name]["auroc"]["entropy"] for name in names] for names in _SIDES)
    return float(min(good) - max(bad))


def _excess(run: dict[str, dict[str, Any]]) -> float:
    others = [run[name]["cross_entropy"] for name in MAKERS if name != "optimal"]
    return float(min(others) - run["optimal"]["cross_entropy"])


_SIDES = ((TRAINABLE, "optimal"), ("sandwich", "stack", "lopsided"))


def _table_rows(name: str, label: str, pairs: list[Detected], *, counts: bool = True) -> list[Row]:
    """The three numbers that the paper's table has."""
    paper = PAPER[name]
    loss: Kind = "loss"
    return [
        Row(f"{label}: accuracy", _over(pairs, "accuracy"), paper["accuracy"], "%", kind="accuracy", counts=counts),
        Row(f"{label}: cross-entropy", _over(pairs, "cross_entropy"), paper["cross_entropy"], "", 3, loss, counts),
        Row(f"{label}: AUROC of U_entropy", _over(pairs, "auroc", "entropy"), paper["auroc"], "%", 1, "AUROC", counts),
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
    named = [(f"{settings.net}, {name}", one.numbers) for name, pairs in main.items() for one in pairs]
    return {
        "networks": [_table_row(name, one) for name, pairs in main.items() for one in pairs],
        "aligned": [_table_row(name, one) for name, pairs in aligned.items() for one in pairs],
        "scales": [_table_row(name, one) for name, pairs in scales.items() for one in pairs],
        **claim_tables(named, ("T19", "T21", "T23")),
    }


def _table_row(name: str, one: Detected) -> dict[str, Any]:
    network = one.network
    plan, z = network.plan, network.train.array()
    labels = np.asarray(network.test.labels)
    logits = network.head.logits(network.test.array())
    right, confidence = logits.argmax(axis=1) == labels, softmax(logits).max(axis=1)
    classes = range(network.head.n_classes)
    return {
        "structure": name,
        "norm": plan.norm if isinstance(plan, StructurePlan) else float(network.head.weight_norms.mean()),
        "seed": one.seed,
        "median_norm_z": float(np.median(network.head.norms(z))),
        "dead_features": int((z.max(axis=0) == 0).sum()),
        "class_accuracy": [100 * float(right[labels == k].mean()) for k in classes],
        "class_confidence": [float(np.median(confidence[labels == k])) for k in classes],
        **{key: one.numbers[key] for key in ("accuracy", "cross_entropy", "causes", "more_confident")},
        "auroc": _aurocs(one),
    }


def _figures(settings: StructureSettings, main: Parts, aligned: Parts, scales: Parts) -> dict[str, Any]:
    from ..plots.benchmark import familiarity_histograms
    from ..plots.structures import Outcome, flattened, loss_figure, scale_figure, structure_figure, structure_planes

    outcomes, planes, histograms = [], {}, {}
    for name, pairs in main.items():
        first, ood = pairs[0].network, pairs[0].ood
        shape = MAKERS[name](3, 2) if name in MAKERS else flattened(first.head)
        accuracy, loss = _over(pairs, "accuracy"), _over(pairs, "cross_entropy")
        theirs = PAPER[name]["cross_entropy"].value
        words = f"accuracy {accuracy.value:.1f} %\ncross-entropy {loss.value:.3f}\n(paper: {theirs:.3f})"
        area = {label: _over(pairs, "auroc", key) for label, key in _SHOWN.items()}
        paper = PAPER[name]["auroc"]
        values = {"the paper": (paper.value, paper.standard_error)}
        values |= {label: (mean.value, mean.standard_error) for label, mean in area.items()}
        outcomes.append(Outcome(name, shape, words, values))
        rng = np.random.default_rng([settings.seed, 2])
        some, few = (np.sort(rng.permutation(len(rows))[:POINTS]) for rows in (first.test, ood))
        shown = first.test.take(some)
        planes[name] = (first.head, shown.array(), np.asarray(shown.labels), ood.rows(few))
        histograms[name] = (first.head, first.test.array(), ood.array())
    lines = {name: [_line(one) for one in pairs] for name, pairs in scales.items()}
    every = {name: [*map(_line, pairs), *lines[name]] for name, pairs in main.items()}
    printed_points = {
        name: (line["cross_entropy"].value, line["auroc"].value, line["auroc"].standard_error)
        for name, line in PAPER.items()
    }
    return {
        "structures": structure_figure(outcomes),
        "planes": structure_planes(planes),
        "scales": scale_figure({name: lines[name] for name in MAKERS}, settings.norm, lines[TRAINABLE][0]),
        "losses": loss_figure(every, [_line(one) for pairs in aligned.values() for one in pairs], printed_points),
        "histograms": familiarity_histograms(histograms),
    }


_SHOWN = {"U_entropy": "entropy", "U_density": "density", "kNN": "knn"}


def _line(one: Detected) -> dict[str, float]:
    plan = one.network.plan
    kept = {key: one.numbers[key] for key in ("accuracy", "cross_entropy")}
    norm = plan.norm if isinstance(plan, StructurePlan) else 1.0
    return {"norm": norm, **kept, "entropy": one.numbers["auroc"]["entropy"]}
