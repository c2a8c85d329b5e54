"""X10 (table_AUROC_bench, bottom; table_transferdatasets): does pre-training remove feature overlap?

A network trained on ImageNet is taken to five data sets, each confronted with the other four: first a new last layer,
then the last blocks. Past the paper: both stages are diagnosed, a network of the same shape is trained on the same
images from nothing, and all sets are shown in grey, so that colour alone doesn't explain the result.

With ten images for each class at H = 1280 a covariance for each class means nothing, so the main density has one
covariance for all classes, shrunk as Ledoit and Wolf do, on log z. The paper's own stands beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...estimators import LOG_OFFSET, Density, log_features
from ...features import FeatureSet
from ...runs import Store
from . import table, texts
from .base import Result, networks_left
from .judge import judged
from .judgement import Judged, record_name
from .networks import NetworkPlan, TrainedNetwork, is_trained, subsets, trained, wall_time
from .table import CAUSES, COLUMNS, TEMPERATURE, Lines, Table, difference, mean_line, over_runs
from .transfer import TransferPlan, activations, transferred
from .verdict import Row, printed, rows_of
from .x10_plans import GREY, LAST, SCALES, SCRATCH, TUNED, TransferSettings, activation_plans, plans

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..plots.plane import Sure

__all__ = ["SCALES", "run"]

PAPER = "paper-density"
BOOTSTRAPS = 200
#: The paper's own density is what its column is compared with; ours, of the causes, stands before it.
HEADINGS = {**COLUMNS, **TEMPERATURE, PAPER: "U_density as the paper's"}
_LITE = "EfficientNet-Lite1"
_FAMILY = {"efficientnet_lite1": _LITE, "efficientnet_lite": _LITE, "efficientnet_b1": "EfficientNetB1"}
#: by kind of network
Kinds = Mapping[str, Lines]


def run(settings: TransferSettings, store: Store, engine: Engine) -> "Result | Iterator[Result]":
    """Every network, judged; the paper's table beside the fine-tuned ones.

    Piecewise, a result after each network, of the runs that are whole; what was judged of one is kept beside the
    result, so that another machine goes on from there.
    """
    if settings.piecewise:
        return _piecewise(settings, store, engine)
    todo = [plan for own in plans(settings).values() for plan in own]
    seconds = _activations(settings, store, engine)
    every: list[Judged] = engine.map(partial(_judged, store), todo, threads=settings.threads, label="X10")
    return _result(settings, every, seconds)


def _piecewise(settings: TransferSettings, store: Store, engine: Engine) -> Iterator[Result]:
    """What is at hand first; then run after run, in each the longest training first."""
    every = sorted((plan for own in plans(settings).values() for plan in own), key=_of_run)
    runs = [list(own) for _, own in groupby(every, key=_of_run)]
    todo = sorted(every, key=lambda plan: (not _at_hand(store, plan), _of_run(plan), -_epochs(plan)))
    seconds = 0.0 if _at_hand(store, todo[-1]) else _activations(settings, store, engine)
    done: dict[str, Judged] = {}
    for own in engine.as_done(partial(_judged, store), todo, threads=settings.threads):
        done[record_name(own.plan)] = own
        whole = [run for run in runs if all(record_name(plan) in done for plan in run)]
        known = [done[record_name(plan)] for run in whole for plan in run]
        result = _result(settings, known, seconds) if known else Result(rows=[], part=True)
        yield replace(
            result,
            kept={name: one.record for name, one in done.items() if one.in_store},
            left=networks_left(len(every) - len(done)),
        )


def _of_run(plan: NetworkPlan) -> int:
    return plan.training.seed


def _epochs(plan: NetworkPlan) -> int:
    """Epochs in which all layers are trained: what takes the time."""
    if not isinstance(plan, TransferPlan):
        return plan.training.epochs
    return plan.tuning.epochs if plan.tuning else 0


def _at_hand(store: Store, plan: NetworkPlan) -> bool:
    return is_trained(store, plan) or Judged.kept(store, "X10", plan) is not None


def _activations(settings: TransferSettings, store: Store, engine: Engine) -> float:
    """Computes what several networks read, each once; returns the wall time of these steps, whenever they ran."""
    seen = engine.map(partial(activations, store), activation_plans(settings), threads=settings.threads, label="images")
    return sum(map(wall_time, seen))


def _result(settings: TransferSettings, every: Sequence[Judged], seconds: float) -> Result:
    titles = {topic.name: topic.title for topic in settings.topics}
    kinds: dict[str, dict[str, list[Judged]]] = {}
    for own in every:
        kinds.setdefault(kind_of(own), {}).setdefault(titles[own.name], []).append(own)
    skipped = sorted({name for own in every for name in own.numbers["skipped"]})
    words = texts("X10", how=how(settings), lr=settings.tuning.lr, batch=settings.tuning.batch)
    drawn = _figures(kinds)
    return Result(
        rows=rows(kinds),
        figures=drawn,
        captions={name: text for name, text in words["captions"].items() if name in drawn},
        tables=tables(kinds),
        shown=words["shown"],
        notes=[
            _weights(settings),
            *_stand_ins(settings),
            *words["notes"],
            f"{len(skipped)} corrupt images were left out{': ' * bool(skipped)}{', '.join(skipped[:5])}.",
            *_report_notes(kinds),
        ],
        subsets=subsets(every),
        seconds=sum(own.seconds for own in every) + seconds,
    )


def _judged(store: Store, plan: NetworkPlan) -> Judged:
    """Judged from the store, which may have to train it; from the results where they alone have it."""
    if (kept := Judged.kept(store, "X10", plan)) is not None:
        return kept
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
    tuned = kinds[TUNED]
    known = _paper_lines(tuned)
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


def _paper_lines(ours: Lines) -> dict[str, dict[str, Any]]:
    """The paper's D belongs to its own density."""
    return {
        title: {PAPER if column == "density" else column: number for column, number in line.items()}
        for title, line in table.paper_lines("X10", ours).items()
    }


def _statements(kinds: Kinds) -> list[Row]:
    tuned, scratch = kinds[TUNED], kinds[SCRATCH]
    scores = [mean_line(tuned, score) for score in list(COLUMNS)[1:5]]
    ours = {column: mean_line(tuned, column) for column in (*CAUSES, "overlap_proper")}
    return rows_of(
        "X10",
        {
            **ours,
            "lowest": min(scores, key=lambda mean: mean.value),
            "density_less": difference(tuned, "density", tuned, "plain-entropy"),
            "entropy_less": difference(tuned, "plain-entropy", tuned, "plain-max"),
            "equal": [100 * max(max(own.equal_shares()) for own in run) for run in zip(*tuned.values())],
            "overlap_scratch": difference(scratch, "overlap", tuned, "overlap"),
            "proper_scratch": difference(scratch, "overlap_proper", tuned, "overlap_proper"),
            "overlap_last": difference(kinds[LAST], "overlap", tuned, "overlap"),
            "overlap_grey": difference(kinds[GREY], "overlap", kinds[LAST], "overlap"),
        },
    )


def tables(kinds: Kinds) -> dict[str, Table]:
    """By name; those with words of their own (`shown`) are for people, the others for programs."""
    tuned = kinds[TUNED]
    every = [own for lines in kinds.values() for runs in lines.values() for own in runs]
    theirs = f"paper, {table.runs_of(printed('X10.runs'))}"
    return {
        "benchmark": table.benchmark(tuned, _paper_lines(tuned), HEADINGS, _line_title, theirs),
        "kinds": [_kind(kind, lines) for kind, lines in kinds.items()],
        "causes": [
            {"network": kind, "data set": topic, **_causes(runs[0])}
            for kind, lines in kinds.items()
            for topic, runs in lines.items()
        ],
        "data": [_data(topic, runs[0]) for topic, runs in tuned.items()],
        "commands": table.commands(every, network_name, report_name),
        "pairs": table.pairs(every, network_name),
        **table.claims(every, network_name, ("T23", "T24")),
    }


def kind_of(own: Judged) -> str:
    """How the network was trained, read off its plan."""
    plan = own.plan
    if not isinstance(plan, TransferPlan):
        return SCRATCH
    if plan.tuning is not None:
        return TUNED
    return GREY if getattr(plan.data, "grey", False) else LAST


def network_name(own: Judged) -> str:
    """'EfficientNet-Lite1 on beans, fine-tuned'; T24 reads the family from it."""
    plan = own.plan
    source = plan.source if isinstance(plan, TransferPlan) else plan.net
    named = source if isinstance(source, str) else source.net
    return f"{_FAMILY.get(named, named)} on {own.name}, {kind_of(own)}"


def report_name(own: Judged) -> str:
    """The folder of its report: 'report-beans-fine-tuned'."""
    return f"report-{own.name}-{kind_of(own).replace(' ', '-')}"


def _line_title(topic: str, runs: Sequence[Judged]) -> str:
    return f"{topic} ({runs[0].name}), {table.runs_of(len(runs))}"


def _kind(kind: str, lines: Lines) -> dict[str, Any]:
    runs = len(next(iter(lines.values())))
    line = table.benchmark(lines, {}, {**COLUMNS, **TEMPERATURE}, _line_title, "")[-1]
    del line["data set"]
    return {"network": f"{kind}, {table.runs_of(runs)}"} | line


def _causes(own: Judged) -> dict[str, str]:
    parts = {
        "rounding": "1 rounding", "temperature": "1 temperature", "extrapolation": "2 extrapolation (D - C)",
        "overlap": "3 overlap", "misfit": "of 3, misfit", "overlap_proper": "of 3, overlap proper",
    }  # fmt: skip
    return {words: table.interval([getattr(own.diagnosis.mean_causes, part)]) for part, words in parts.items()}


def _data(topic: str, own: Judged) -> dict[str, Any]:
    plan, paper, seen = own.plan, printed("X10.data"), own.diagnosis
    tuned = plan.tuning.epochs if isinstance(plan, TransferPlan) and plan.tuning else 0
    size = getattr(plan.data, "size", None) or "-"
    ours = (seen.train.rows, seen.test.rows, len(seen.classes), size, plan.training.epochs, tuned)
    words = "{:,} {:,} {} {} {}+{}"
    line = {"data set": f"{topic}: {own.name}", "ours": words.format(*ours)}
    return line | {"the paper": words.format(*paper[topic])} if topic in paper else line


def _report_notes(kinds: Kinds) -> list[str]:
    """How to open the first run of each topic as a report; the table `commands` has every network."""
    return [
        f"{topic}, fine-tuned, as a report: `{runs[0].network.diagnose_command(report_name(runs[0]))}`"
        for topic, runs in kinds[TUNED].items()
        if runs[0].in_store
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

    tuned = kinds[TUNED]
    paper = table.paper_lines("X10", tuned)
    shown = {"fine-tuned": TUNED, "last layer": LAST, "scratch": SCRATCH}
    grids = {
        f"{title}, {kind}": table.grid(kinds[name], score)
        for score, title in {"plain-entropy": "U_entropy", "density": "U_density"}.items()
        for kind, name in shown.items()
    }
    panels = list(_PANELS)
    lines = {topic: table.cause_line({topic: runs}, panels, paper.get(topic, {})) for topic, runs in tuned.items()}
    for kind in (TUNED, LAST, GREY, SCRATCH):
        lines[f"mean, {kind}"] = table.cause_line(kinds[kind], panels, paper.get("mean", {}) if kind == TUNED else {})
    drawn: dict[str, Figure | bytes] = {
        "causes": causes_beside(_PANELS, lines),
        "grids": auroc_grids(list(tuned), grids),
    }
    first = {kind: {topic: runs[0] for topic, runs in kinds[name].items()} for kind, name in shown.items()}
    if not all(own.in_store for topics in first.values() for own in topics.values()):
        return drawn  # the others show features, which results don't keep
    layers = {kind: {topic: own.layer for topic, own in topics.items()} for kind, topics in first.items()}
    sure = {topic: surest_of(own) for topic, own in first["fine-tuned"].items()}
    return drawn | {"planes": few_colours(final_layers(layers)), "surest": few_colours(surest(sure))}


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
