"""X9 (table_AUROC_bench, top; fig_grid_auroc; fig_cifar_etc): five data sets, each network against the other four."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...estimators import Density
from ...runs import Store
from . import table
from .base import Result
from .judge import judged, record_name
from .judgement import MINOR, Judged, Kept
from .literature import beside, shared_pairs
from .networks import NetworkPlan, TrainedNetwork, is_trained
from .table import COLUMNS, TEMPERATURE, Lines, Table, difference, mean_line, over_runs
from .verdict import Mean, Reported, Row, Statement, printed
from .x09_course import course, recipes
from .x09_course import table as course_table
from .x09_figures import captions, courses_of, figures
from .x09_figures import trained_how as trained_how
from .x09_plans import NAMES, SCALES, FiveSettings, plans, strong_decay

if TYPE_CHECKING:
    pass

__all__ = ["SCALES", "run"]

#: densities beside the paper's, which is "density"
BESIDE = {
    "density-labels": "U_density from labels",
    "density-log": "U_density, log z",
    "density-labels-log": "U_density from labels, log z",
}
HEADINGS = {**COLUMNS, **TEMPERATURE, **BESIDE}


def densities(network: TrainedNetwork) -> dict[str, Density]:
    """U_density as the paper's snippet has it, EM from k-means; and from the classes, each on z and on log z."""
    seed = network.plan.training.seed
    return {
        "density": Density(init="kmeans", seed=seed),
        "density-labels": Density(),
        "density-log": Density(init="kmeans", seed=seed, transform="log"),
        "density-labels-log": Density(transform="log"),
    }


def run(settings: FiveSettings, store: Store, engine: Engine) -> "Result | Iterator[Result]":
    """Train and judge `runs` networks for each data set, and set the paper's table beside them.

    Piecewise, one result after the other: whatever is trained is judged at once, then network after network.
    """
    if settings.piecewise:
        return _piecewise(settings, store, engine)
    return _result(measured(settings, store, engine), [])


def measured(settings: FiveSettings, store: Store, engine: Engine, learned: tuple[str, ...] = ()) -> Lines:
    """The networks of all runs by the data set they learned (all of them, or `learned`), trained and judged."""
    todo = [plan for own in settings.single_runs() for plan in plans(own) if not learned or plan.data.name in learned]
    if settings.piecewise:  # others, who read these networks, take what there is
        todo = [plan for plan in todo if _at_hand(store, plan)]
    return _by_set(engine.map(partial(_judged, store), todo, threads=settings.threads, gpus=1, label="X9"))


def _judged(store: Store, plan: NetworkPlan) -> Judged:
    """Judged from the store, which may have to train it; from the results where they alone have it."""
    if not is_trained(store, plan) and (file := _record_file(store, plan)).is_file():
        return Kept(plan, file)
    own = judged(store, plan, densities=densities)
    # The first run alone: its snapshots tell the course of training.
    return replace(own, further=course(own.network)) if plan.snapshots and plan.training.seed == 0 else own


def _at_hand(store: Store, plan: NetworkPlan) -> bool:
    return is_trained(store, plan) or _record_file(store, plan).is_file()


def _record_file(store: Store, plan: NetworkPlan) -> Path:
    """Where results keep what was judged of a network: named by all that determines it, whatever the scale."""
    return store.results / "X9" / record_name(plan)


def _head_name(record: str) -> str:
    return record.removesuffix(".json") + ".safetensors"


def _by_set(networks: Sequence[Judged]) -> dict[str, list[Judged]]:
    lines: dict[str, list[Judged]] = {}
    for own in networks:
        lines.setdefault(own.name, []).append(own)
    return lines


def _piecewise(settings: FiveSettings, store: Store, engine: Engine) -> Iterator[Result]:
    """What is at hand first; then the others as they are done, run 1 of all data sets, run 2, and so on.

    The longest training of a run starts first: two side by side then end at about the same time.
    """
    every = [plan for own in settings.single_runs() for plan in plans(own)]
    todo = sorted(every, key=lambda plan: (not _at_hand(store, plan), plan.training.seed, -plan.training.epochs))
    others = [_judged(store, plan) for plan in plans(strong_decay(settings)) if _at_hand(store, plan)]
    done: dict[tuple[str, int], Judged] = {}
    for own in engine.as_done(partial(_judged, store), todo, threads=settings.threads, gpus=1):
        done[own.name, own.seed] = own
        left = [plan for plan in every if (plan.data.name, plan.training.seed) not in done]
        if not any(_at_hand(store, plan) for plan in left):  # one result for all that needs no training
            names = [(plan.data.name, plan.training.seed) for plan in every]
            yield _result(_by_set([done[name] for name in names if name in done]), left, others)


def time_left(done: Sequence[Judged], left: Sequence[NetworkPlan]) -> float | None:
    """Seconds of training to come, from the speed of the networks that are done: images shown each second."""
    shown = sum(own.plan.training.epochs * own.facts["images"] for own in done)
    spent = sum(own.facts["training"] for own in done)
    known = {own.name: own.facts["images"] for own in done}
    if not spent or not shown:
        return None
    mean = float(np.mean(list(known.values())))
    return float(sum(plan.training.epochs * known.get(plan.data.name, mean) for plan in left) * spent / shown)


def _result(lines: Lines, left: Sequence[NetworkPlan], others: Sequence[Judged] = ()) -> Result:
    """`others` are networks of the same data sets by another recipe: a table of their own."""
    every = [own for runs in lines.values() for own in runs]
    shared = tuple(line for studies in shared_pairs(lines).values() for line in studies)
    tables = _tables(lines) | ({"literature": beside(lines, shared)} if shared else {})
    if compared := recipes(lines, others):
        tables["recipes"] = compared
    seconds = time_left(every, left)
    unfinished = [f"{plan.data.name}, seed {plan.training.seed}" for plan in left]
    missing = [f"Not trained yet, hence left out: {'; '.join(unfinished)}."] if unfinished else []
    return Result(
        rows=rows(lines),
        figures=figures(lines),
        captions=captions(lines),
        tables=tables,
        shown={name: words for name, words in _SHOWN.items() if name in tables},
        notes=[*missing, *_NOTES, *_report_notes(every)],
        subsets=list(dict.fromkeys(line for own in every for line in own.facts["subsets"])),
        seconds=sum(own.facts["seconds"] for own in every),
        part=any(plan.training.seed == min(own.seed for own in every) for plan in left),
        kept=_kept([own for own in every if own.in_store]),
        left=None if not left else f"{len(left)} networks" + (f", about {seconds / 3600:.1f} hours" if seconds else ""),
    )


def _kept(networks: Sequence[Judged]) -> dict[str, dict[str, Any] | Path]:
    """What was judged of each network, and its last layer, which X3 reads."""
    kept: dict[str, dict[str, Any] | Path] = {}
    for own in networks:
        name = record_name(own.plan)
        kept |= {name: own.record(), _head_name(name): own.network.made.path("head.safetensors")}
    return kept


_RULES = (
    "Rules: 'outweighs', 'beats' and 'preferable' hold where the 95 % interval of the difference over runs lies "
    f"above 0; saturation is 'avoided' where rounding to float32 costs U_entropy at most {MINOR:g} points of AUROC "
    "on every pair, and 'absent' where at most 1 % of float32 scores equal another. The first rule for T24 was the "
    "share of equal scores; the rule of lost AUROC was added after numbers had been seen: both stand here. Causes "
    "follow from the AUROCs, so that no count includes them."
)
_NOTES = [
    "The paper trains ResNet18 for 100 epochs on all images, five times, by a public script: SGD with Nesterov "
    "momentum, a one-cycle rate with its peak at 1e-2, weight decay 1e-2, batches of 256. Ours: the same optimiser "
    "and schedule; peak, decay, images and epochs as the settings and the table's lines say. Where training was "
    "shorter, the numbers are those of briefly trained networks.",
    "Each AUROC is of a balanced pair (as many OOD as test images, drawn by the run's seed), OOD positive, averaged "
    "over the OOD sets. U_density: full covariances, K components, ridge 1e-5, on z after the non-linearity, EM from "
    "k-means as in the paper's snippet; from labels and on log z beside it.",
    f"U_cool takes part in causes 1 and 2 only where rounding to float32 costs U_entropy more than {MINOR:g} points, "
    "as in the paper, whose C equals its B in every line; what a temperature gains otherwise is a column of its own.",
    "A Gaussian takes what lies between the classes for likely: where OOD features are weak, so that norm(z) tells "
    "them, it can find them more familiar than test inputs.",
    _RULES,
    "The paper's cause 3 of c10 is printed as 0.7; its own column gives 10.7, which stands here. Its caption calls "
    "cause 1 dominant; its columns say cause 3 (T20).",
]


def rows(lines: Lines) -> list[Row]:
    """All of them, the mean line and what decides the paper's statements first."""
    paper = table.paper_lines("X9")
    # The paper's mean is over its five data sets: no others compare with it.
    five = set(lines) == set(NAMES)
    headings = {column: heading for column, heading in HEADINGS.items() if column != "accuracy"}
    out = table.cells("mean", partial(mean_line, lines), headings, paper["mean"] if five else {})
    out += [*table.size_rows("mean", lines), *_statements(lines, five), *_beyond(lines)]
    for name, runs in lines.items():
        out += table.cells(name, partial(over_runs, runs), HEADINGS, paper.get(name, {}))
    for learned, others in printed("X9.pairs").items():
        for ood, number in others.items():
            if learned in lines and ood in lines[learned][0].diagnosis.ood:
                ours = Mean.of([own.auroc("plain-max", ood) for own in lines[learned]])
                out.append(Row(f"{learned} against {ood}: U_max", ours, number, "%", kind="AUROC"))
    return out


def _statements(lines: Lines, five: bool) -> list[Row]:
    runs = list(zip(*lines.values()))

    def per_run(of: Any) -> Mean:
        return Mean.of([of(run) for run in runs])

    def where(more: str, less: str) -> Mean:
        return per_run(lambda run: sum(table.value(own, more) > table.value(own, less) for own in run))

    def claims(own: Judged, claim: str, what: str) -> list[float]:
        return [float(by_claim[claim][what]) for by_claim in own.numbers["claims"].values()]

    lowest = per_run(lambda run: min(table.value(o, "plain-entropy") - table.value(o, "plain-max") for o in run))
    lost = per_run(lambda run: 100 * max(c.rounding.value for own in run for c in own.diagnosis.causes.values()))
    equal = per_run(lambda run: 100 * max(max(claims(own, "T24", "equal_share")) for own in run))
    overlap = difference(lines, "overlap", lines, "extrapolation")
    density = difference(lines, "density", lines, "plain-entropy")
    entropy = difference(lines, "plain-entropy", lines, "plain-max")
    mean = table.paper_lines("X9")["mean"]
    together = Reported(mean["saturation"].value + mean["extrapolation"].value) if five else None
    every = f"of {len(lines)} data sets"
    return [
        Row("mean: cause 3 less cause 2", overlap, Statement("overlap outweighs extrapolation", least=0), "points"),
        Row(
            "data sets whose cause 3 exceeds cause 2",
            where("overlap", "extrapolation"),
            printed("X9.overlap_outweighs") if five else None,
            every,
            kind="count",
        ),
        Row("mean: causes 1 and 2 together (D - B)", density, together, "points", kind="AUROC", counts=False),
        Row("mean: U_density less U_entropy", density, Statement("density beats softmax", least=0), "points"),
        Row(
            "data sets where U_density exceeds U_entropy",
            where("density", "plain-entropy"),
            Statement("density beats softmax on each", least=len(lines)),
            every,
        ),
        Row("mean: U_entropy less U_max", entropy, Statement("U_entropy is preferable", least=0), "points", 2),
        Row(
            "U_entropy less U_max, lowest of the data sets",
            lowest,
            Statement("consistently so", least=-MINOR),
            "points",
            2,
        ),
        Row(
            "largest share of equal float32 values of U_max, of all pairs",
            equal,
            Statement("saturation is absent (first rule)", most=1),
            "%",
        ),
        Row(
            "largest loss to rounding to float32, of all pairs",
            lost,
            Statement("saturation is avoided (second rule)", most=MINOR),
            "points",
            2,
        ),
    ]


def _beyond(lines: Lines) -> list[Row]:
    """What the paper does not split."""
    names = {
        "ceiling": "estimated ceiling of any score on this layer",
        "misfit": "of cause 3, misfit of the density (ceiling less D)",
        "overlap_proper": "of cause 3, overlap proper (100 less ceiling)",
        "extrapolation_proper": "of cause 2, 2a extrapolation",
        "ambiguity": "of cause 2, 2b ambiguity",
    }
    out = []
    for part, words in names.items():
        if all(np.isfinite(table.value(own, part)) for runs in lines.values() for own in runs):
            out.append(Row(f"mean: {words}", mean_line(lines, part), unit="%" if part == "ceiling" else "points"))
    return out


_SHOWN = {
    "benchmark": "The paper's table: each of ours above the paper's line. AUROC in percent, mean over the OOD sets, "
    "± 1 standard error over runs; U_max (A) and U_entropy (B) as float32 prints them, U_cool (C; B where nothing "
    "saturates), U_density (D); cause 1 = C - B, 2 = D - C, 3 = 100 - D.",
    "scores": "Every score of the registry on all pairs of data sets, AUROC in percent: mean over pairs, and the worst "
    "pair (mean over runs).",
    "causes": "Causes split further, in points of AUROC: B and all parts add up to 100. In brackets the 95 % interval "
    "over inputs (mean of the runs' ends).",
    "mental": "The mental model (T19): its rank agreement with U_max over test and OOD inputs (lowest of the OOD "
    "sets), how far the head is from the optimal structure, and the cosines of z. If both assumptions held, the "
    "deviations would be 0 and the largest cosine 1.",
    "course": "The course of training, first run: snapshots measured on 10,000 training and 2,000 images of each test "
    "set, weights not averaged. AUROC in percent, mean over the OOD sets; cause 2 = U_density less U_entropy, cause 3 "
    "= 100 less U_density; mean of the largest cosine.",
    "recipes": "Two recipes at the same number of epochs, one run each: peak rate and weight decay, accuracy, AUROC in "
    "percent (mean over the OOD sets), causes in points, mean of the largest cosine. The first was chosen by "
    "accuracy alone. With decay 1e-2 the weights of the last quarter are averaged, else the last ones are taken.",
    "literature": "What the literature reports for the same pairs (X11), AUROC in percent.",
}


def _tables(lines: Lines) -> dict[str, Table]:
    """By name; those of `_SHOWN` are for people, the others for programs."""
    every = [own for runs in lines.values() for own in runs]
    paper = table.paper_lines("X9")
    theirs = f"paper (100 epochs, all images, {table.runs_of(printed('X9.runs'))})"
    out = {
        "benchmark": table.benchmark(lines, paper, HEADINGS, _line_title, theirs),
        "scores": table.every_score(lines),
        "causes": table.side_by_side("part", {name: table.parts(runs) for name, runs in lines.items()}),
        "mental": table.side_by_side("of", {name: mental(runs) for name, runs in lines.items()}),
        "commands": table.commands(every, network_name, lambda own: f"report-{own.name}"),
        "pairs": table.pairs(every, network_name),
        **table.claims(every, network_name, ("T19", "T21", "T23", "T24")),
    }
    if courses := courses_of(lines):
        out["course"] = course_table(courses)
    if min(map(len, lines.values())) > 1 and all(own.in_store for own in every):
        out["T26"] = table.ensembles(lines, network_name)
    return out


def _report_notes(every: Sequence[Judged]) -> list[str]:
    """How to open the first run of each line as a report; the table `commands` has every run."""
    first = {own.name: own for own in reversed(every)}
    opened = table.commands([first[name] for name in reversed(first)], network_name, lambda own: f"report-{own.name}")
    return [f"{line['network']}, as a report: {line['report']}" for line in opened]


def _line_title(name: str, runs: Sequence[Judged]) -> str:
    return f"{name} ({trained_how(runs[0])}, {table.runs_of(len(runs))})"


def network_name(own: Judged) -> str:
    """'ResNet18 on cifar10'; T24 reads the family from it."""
    net = own.plan.net
    return f"{'ResNet18' if net == 'resnet18' else net} on {own.name}"


def mental(runs: Sequence[Judged]) -> dict[str, str]:
    """T19's agreement and assumptions, mean over runs."""

    def mean(*keys: str) -> float:
        values = []
        for own in runs:
            at = own.numbers["mental"]
            for key in keys:
                at = at[key]
            values.append(np.nan if at is None else at)
        return float(np.mean(values))

    ood = list(runs[0].diagnosis.ood)
    agreement = min(claims["T19"]["spearman"] for own in runs for claims in own.numbers["claims"].values())
    largest, spread = ([mean("sets", other, what) for other in ood] for what in ("largest", "others_deviation"))
    return {
        "rank agreement": f"{agreement:.2f}",
        "-1/(K-1)": f"{-1 / (runs[0].facts['classes'] - 1):.2f}",
        "norm(w): std / mean": f"{mean('head', 'norm_spread'):.2f}",
        "abs(b) / norm(w)": f"{mean('head', 'bias_share'):.2f}",
        "cos(w, w): deviation": f"{mean('head', 'cosine_deviation'):.2f}",
        "distance to optimum (centred)": f"{mean('head', 'distance'):.2f} ({mean('head', 'centred_distance'):.2f})",
        "largest cos, train": f"{mean('sets', 'train', 'largest'):.2f}",
        "largest cos, test": f"{mean('sets', 'test', 'largest'):.2f}",
        "largest cos, OOD": f"{np.mean(largest):.2f}",
        "other cos: deviation, test": f"{mean('sets', 'test', 'others_deviation'):.2f}",
        "other cos: deviation, OOD": f"{np.mean(spread):.2f}",
    }
