"""X10 (table_AUROC_bench, bottom; table_transferdatasets): does pre-training remove feature overlap?

A network trained on ImageNet is taken to five data sets, each confronted with the other four: first a new last layer,
then the last blocks. Past the paper: both stages are diagnosed, a network of the same shape is trained on the same
images from nothing, and all sets are shown in grey, so that colour alone doesn't explain the result.

With ten images for each class at H = 1280 a covariance for each class means nothing, so the main density has one
covariance for all classes, shrunk as Ledoit and Wolf do, on log z. The paper's own stands beside it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...estimators import LOG_OFFSET, Density, log_features
from ...features import FeatureSet
from ...runs import Store
from . import table, texts
from .base import Result
from .judge import judged
from .judgement import Judged
from .networks import NetworkPlan, TrainedNetwork, subsets, trained
from .table import CAUSES, COLUMNS, TEMPERATURE, Lines, Table, difference, mean_line, over_runs
from .transfer import TransferPlan, activations, transferred
from .verdict import Mean, Row, Statement, printed
from .x10_plans import GREY, LAST, SCALES, SCRATCH, TUNED, TransferSettings, activation_plans, plans

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..plots.plane import Layer, Sure

__all__ = ["SCALES", "run"]

PAPER = "paper-density"
BOOTSTRAPS = 200
SMALL = 1.0  # points of AUROC
HIGH = 95.0  # percent
#: The paper's own density is what its column is compared with; ours, of the causes, stands before it.
HEADINGS = {**COLUMNS, **TEMPERATURE, PAPER: "U_density as the paper's"}
_FAMILY = {"efficientnet_lite1": "EfficientNet-Lite1", "efficientnet_b1": "EfficientNetB1"}
#: by kind of network
Kinds = Mapping[str, Lines]


def run(settings: TransferSettings, store: Store, engine: Engine) -> Result:
    """Activations first, then every network, each judged; the paper's table beside the fine-tuned ones."""
    seen = engine.map(partial(activations, store), activation_plans(settings), threads=settings.threads, label="images")
    todo = plans(settings)
    every: list[Judged] = engine.map(
        partial(_judged, store), [plan for own in todo.values() for plan in own], threads=settings.threads, label="X10"
    )
    kinds: dict[str, dict[str, list[Judged]]] = {}
    done = iter(every)
    for kind, own in todo.items():
        kinds[kind] = {topic.title: [] for topic in settings.topics}
        for _ in range(len(own) // len(settings.topics)):
            for topic in settings.topics:
                kinds[kind][topic.title].append(next(done))
    skipped = sorted({name for step in seen for name in step.json()["skipped"]})
    words = texts("X10", how=how(settings), lr=settings.tuning.lr, batch=settings.tuning.batch, small=SMALL, high=HIGH)
    return Result(
        rows=rows(kinds),
        figures=_figures(kinds),
        captions=words["captions"],
        tables=tables(kinds),
        shown=words["shown"],
        notes=[
            _weights(settings),
            *_stand_ins(settings),
            *words["notes"],
            f"{len(skipped)} corrupt images were left out{': ' * bool(skipped)}{', '.join(skipped[:5])}.",
            *_report_notes(kinds),
        ],
        subsets=subsets([own.network for own in every]),
        seconds=sum(own.facts["seconds"] for own in every)
        + sum(float(step.provenance.get("seconds", 0.0)) for step in seen),
    )


def _judged(store: Store, plan: NetworkPlan) -> Judged:
    network_of = transferred if isinstance(plan, TransferPlan) else trained
    return judged(store, plan, network_of, densities, bootstraps=BOOTSTRAPS)


def densities(network: TrainedNetwork) -> dict[str, Density]:
    """Ours, and for the networks that the paper has, the fine-tuned ones, its own: with many classes it takes long."""
    plan, ours = network.plan, {"density": shrunk_density(network.train)}
    if not isinstance(plan, TransferPlan) or plan.tuning is None:
        return ours
    return ours | {PAPER: Density(transform="log", ridge=1e-3)}


def shrunk_density(train: FeatureSet) -> Density:
    """Class means and one covariance on log z, with the ridge that makes it Ledoit and Wolf's shrunk one.

    Theirs is (1 - s) S + s m I with m = tr(S) / H, in proportion to S + s m / (1 - s) I, S that of rows about their
    class's mean and s from their formula.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    if train.labels is None:
        raise AssertionError("training features have labels")
    rows = log_features(train.array(), LOG_OFFSET).astype(np.float64)
    for label in np.unique(train.labels):
        own = train.labels == label
        rows[own] -= rows[own].mean(axis=0)
    share = min(float(ledoit_wolf_shrinkage(rows, assume_centered=True)), 1 - 1e-9)
    ridge = share / (1 - share) * float(np.square(rows).mean())
    return Density(covariance="tied", transform="log", ridge=ridge, one_per_class=True)


def rows(kinds: Kinds) -> list[Row]:
    """All of them: statements and the mean line first, then topic by topic, then the other kinds."""
    tuned, paper = kinds[TUNED], table.paper_lines("X10")
    # The paper's lines are of its five data sets: no others compare with them.
    known = _with_own_density(paper) if set(tuned) == set(paper) - {"mean"} else {}
    headings = {column: heading for column, heading in HEADINGS.items() if column != "accuracy"}
    out = [*_statements(kinds), *table.cells("mean", partial(mean_line, tuned), headings, known.get("mean", {}))]
    out += table.size_rows("fine-tuned, mean", tuned)
    for topic, runs in tuned.items():
        out += table.cells(topic, partial(over_runs, runs), HEADINGS, known.get(topic, {}))
    few = {column: HEADINGS[column] for column in ("accuracy", "plain-entropy", "density", *CAUSES)}
    for kind in (LAST, GREY, SCRATCH):
        out += table.cells(f"{kind}, mean", partial(mean_line, kinds[kind]), few, {})
        out += table.size_rows(f"{kind}, mean", kinds[kind])
    return out


def _with_own_density(paper: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The paper's D belongs to its own density."""
    return {
        title: {PAPER if column == "density" else column: number for column, number in line.items()}
        for title, line in paper.items()
    }


def _statements(kinds: Kinds) -> list[Row]:
    tuned, scratch = kinds[TUNED], kinds[SCRATCH]
    causes = {cause: mean_line(tuned, cause) for cause in CAUSES}
    lowest = min((mean_line(tuned, score) for score in list(COLUMNS)[1:5]), key=lambda mean: mean.value)
    entropy = difference(tuned, "plain-entropy", tuned, "plain-max")
    density = difference(tuned, "density", tuned, "plain-entropy")
    equal = Mean.of([100 * max(share for own in run for share in _equal_shares(own)) for run in zip(*tuned.values())])
    lost = difference(scratch, "overlap", tuned, "overlap")

    def small(cause: str) -> Statement:
        return Statement(f"{CAUSES[cause]} is small", -SMALL, SMALL)

    beats = Statement("density beats softmax", least=0)
    gone = Statement("largely eliminates feature overlap", most=SMALL)
    less = Statement("pre-training reduces overlap", least=0)
    return [
        Row("fine-tuned, mean: cause 3", causes["overlap"], gone, "points"),
        Row("fine-tuned, mean: of cause 3, overlap proper", mean_line(tuned, "overlap_proper"), unit="points"),
        Row("fine-tuned, mean: cause 1", causes["saturation"], small("saturation"), "points"),
        Row("fine-tuned, mean: cause 2", causes["extrapolation"], small("extrapolation"), "points"),
        Row("fine-tuned, mean: lowest AUROC of the four", lowest, Statement("high for all", least=HIGH), "%"),
        Row("fine-tuned, mean: U_density less U_entropy", density, beats, "points", counts=False),
        Row("fine-tuned, mean: U_entropy less U_max", entropy, Statement("preferable", least=0), "points", 2),
        Row("largest share of equal float32 values of U_max", equal, Statement("saturation is minor", most=20), "%"),
        Row("cause 3, from scratch less fine-tuned", lost, less, "points"),
        Row(
            "overlap proper, from scratch less fine-tuned",
            difference(scratch, "overlap_proper", tuned, "overlap_proper"),
            unit="points",
        ),
        Row("cause 3, last layer less fine-tuned", difference(kinds[LAST], "overlap", tuned, "overlap"), unit="points"),
        Row(
            "cause 3, in grey less in colour", difference(kinds[GREY], "overlap", kinds[LAST], "overlap"), unit="points"
        ),
    ]


def _equal_shares(own: Judged) -> list[float]:
    return [float(claims["T24"]["equal_share"]) for claims in own.numbers["claims"].values()]


def tables(kinds: Kinds) -> dict[str, Table]:
    """By name; those with words of their own (`shown`) are for people, the others for programs."""
    tuned = kinds[TUNED]
    by_kind = [(kind, own) for kind, lines in kinds.items() for runs in lines.values() for own in runs]
    every = [own for _, own in by_kind]
    names = {id(own): network_name(kind, own) for kind, own in by_kind}
    reports = {id(own): f"report-{own.name}-{kind.split(',')[0].replace(' ', '-')}" for kind, own in by_kind}

    def name(own: Judged) -> str:
        return names[id(own)]

    theirs = f"paper, {table.runs_of(printed('X10.runs'))}"
    paper = _with_own_density(table.paper_lines("X10"))
    return {
        "benchmark": table.benchmark(tuned, paper, HEADINGS, _line_title, theirs),
        "kinds": [_kind(kind, lines) for kind, lines in kinds.items()],
        "causes": [
            {"network": kind, "data set": topic, **_causes(runs[0])}
            for kind, lines in kinds.items()
            for topic, runs in lines.items()
        ],
        "data": [_data(topic, runs[0]) for topic, runs in tuned.items()],
        "commands": table.commands(every, name, lambda own: reports[id(own)]),
        "pairs": table.pairs(every, name),
        **table.claims(every, name, ("T23", "T24")),
    }


def network_name(kind: str, own: Judged) -> str:
    """'EfficientNet-Lite1 on beans, fine-tuned'; T24 reads the family from it."""
    plan = own.network.plan
    source = plan.source if isinstance(plan, TransferPlan) else plan.net
    named = source if isinstance(source, str) else source.net
    family = "EfficientNet-Lite1" if named == "efficientnet_lite" else _FAMILY.get(named, named)
    return f"{family} on {own.name}, {kind}"


def _line_title(topic: str, runs: Sequence[Judged]) -> str:
    return f"{topic} ({runs[0].name}), {table.runs_of(len(runs))}"


def _kind(kind: str, lines: Lines) -> dict[str, Any]:
    runs = len(next(iter(lines.values())))
    line = table.benchmark(lines, {}, {**COLUMNS, **TEMPERATURE}, _line_title, "")[-1]
    return {"network": f"{kind}, {table.runs_of(runs)}"} | {
        name: cell for name, cell in line.items() if name != "data set"
    }


def _causes(own: Judged) -> dict[str, str]:
    parts = {
        "rounding": "1 rounding", "temperature": "1 temperature", "extrapolation": "2 extrapolation (D - C)",
        "overlap": "3 overlap", "misfit": "of 3, misfit", "overlap_proper": "of 3, overlap proper",
    }  # fmt: skip
    return {words: table.interval([getattr(own.diagnosis.mean_causes, part)]) for part, words in parts.items()}


def _data(topic: str, own: Judged) -> dict[str, Any]:
    plan, paper = own.network.plan, printed("X10.data")
    tuned = plan.tuning.epochs if isinstance(plan, TransferPlan) and plan.tuning else 0
    size = getattr(plan.data, "size", None) or "-"
    network = own.network
    ours = (len(network.train), len(network.test), network.head.n_classes, size, plan.training.epochs, tuned)
    words = "{:,} {:,} {} {} {}+{}"
    line = {"data set": f"{topic}: {own.name}", "ours": words.format(*ours)}
    return line | {"the paper": words.format(*paper[topic])} if topic in paper else line


def _report_notes(kinds: Kinds) -> list[str]:
    """How to open the first run of each topic as a report; the table `commands` has every network."""
    return [
        f"{topic}, fine-tuned, as a report: `{runs[0].network.diagnose_command(f'report-{runs[0].name}-fine-tuned')}`"
        for topic, runs in kinds[TUNED].items()
    ]


_PANELS = {
    "saturation": "1 saturation", "extrapolation": "2 extrapolation", "overlap": "3 overlap",
    "overlap_proper": "of 3: proper",
}  # fmt: skip
_SURE = 7  # images of each network


def _figures(kinds: Kinds) -> "dict[str, Figure | bytes]":
    """By name, the experiment's own picture first."""
    from ..plots.benchmark import auroc_grids, causes_beside
    from ..plots.plane import few_colours, final_layers, surest

    tuned, paper = kinds[TUNED], table.paper_lines("X10")
    shown = {"fine-tuned": TUNED, "last layer": LAST, "scratch": SCRATCH}
    grids = {
        f"{title}, {kind}": table.grid(kinds[name], score)
        for score, title in {"plain-entropy": "U_entropy", "density": "U_density"}.items()
        for kind, name in shown.items()
    }
    layers = {kind: {topic: _layer(runs[0]) for topic, runs in kinds[name].items()} for kind, name in shown.items()}
    panels = list(_PANELS)
    lines = {topic: table.cause_line({topic: runs}, panels, paper.get(topic, {})) for topic, runs in tuned.items()}
    known = paper["mean"] if set(tuned) == set(paper) - {"mean"} else {}
    for kind in (TUNED, LAST, GREY, SCRATCH):
        lines[f"mean, {kind}"] = table.cause_line(kinds[kind], panels, known if kind == TUNED else {})
    return {
        "causes": causes_beside(_PANELS, lines),
        "grids": auroc_grids(list(tuned), grids),
        "planes": few_colours(final_layers(layers)),
        "surest": few_colours(surest({topic: surest_of(runs[0]) for topic, runs in tuned.items()})),
    }


def surest_of(own: Judged, count: int = _SURE) -> "list[Sure]":
    """Of each class the OOD image taken for it with most confidence; of these the `count` surest."""
    from ..plots.plane import Sure

    best: dict[int, tuple[float, str, int]] = {}
    for name, features in own.network.ood.items():
        logits = own.network.head.logits(features.array()).astype(np.float64)
        top = np.exp(logits.max(axis=1) - np.logaddexp.reduce(logits, axis=1))
        for row, (label, sure) in enumerate(zip(logits.argmax(axis=1).tolist(), top.tolist())):
            if sure > best.get(label, (0.0, "", 0))[0]:
                best[label] = (sure, name, row)
    chosen = sorted(best.items(), key=lambda item: -item[1][0])[:count]
    images = {ood.name: ood.load("test").images for ood in own.network.plan.ood}
    return [Sure(images[name][row], own.network.head.class_name(label), sure) for label, (sure, name, row) in chosen]


def _layer(own: Judged) -> "Layer":
    from ..plots.plane import Layer

    ood = np.concatenate([features.array() for features in own.network.ood.values()])
    return Layer(own.network.head, own.network.test.array(), ood)


def how(settings: TransferSettings) -> str:
    """One sentence for captions: which network, how large the images, how long it was trained."""
    sizes = sorted({topic.images.size for topic in settings.topics if topic.images.size})
    pixels = f", {' and '.join(map(str, sizes))} pixels" if sizes else ""
    tail = "all layers" if settings.tail is None else f"the last {settings.tail} modules"
    epochs = sorted({topic.epochs for topic in settings.topics})
    name = settings.source if isinstance(settings.source, str) else f"{settings.source.net} of our own"
    return (
        f"{name}{pixels}: last layer {settings.last.epochs} epochs, then {tail} "
        f"{' or '.join(map(str, epochs))}; from scratch {settings.scratch.training.epochs} epochs"
        + (f" at {settings.scratch.size} pixels." if settings.scratch.size else ".")
    )


def _weights(settings: TransferSettings) -> str:
    if not isinstance(settings.source, str):
        return (
            "The pre-trained network is a small one of our own, trained on all digits: a check of the code, not of X10."
        )
    from ..nets.pretrained import pretrained

    weights = pretrained(settings.source).weights
    return f"Weights: {weights.source}, {weights.file}, {weights.bytes:,} bytes, sha256 {weights.sha256}."


def _stand_ins(settings: TransferSettings) -> list[str]:
    out = []
    if settings.source == "efficientnet_lite1":
        out.append(
            "EfficientNet-Lite1 stands in for the paper's EfficientNetB1: the same blocks and H = 1280, with ReLU6 in "
            "place of swish and without squeeze-and-excitation."
        )
    for topic in settings.topics:
        if topic.title == "Cancer" and topic.name != "colorectal_histology":
            out.append(f"Cancer is {topic.name} here: the paper's tiles and classes as a greyscale copy at 128 pixels.")
    return out
