"""X9 (table_AUROC_bench, top; fig_grid_auroc; fig_cifar_etc): five data sets, each network against the other four."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...estimators import Density
from ...runs import Store
from . import table, texts
from .base import Result, networks_left
from .judge import judged
from .judgement import MINOR, Judged, record_name
from .literature import beside, shared_pairs
from .networks import NetworkPlan, TrainedNetwork, is_trained, subsets
from .table import COLUMNS, TEMPERATURE, Lines, Table, difference, mean_line, over_runs
from .verdict import Reported, Row, Statement, printed, rows_of
from .x09_course import course, courses_of, recipes
from .x09_course import table as course_table
from .x09_plans import SCALES, FiveSettings, half_as_long, plans, strong_decay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    if (kept := Judged.kept(store, "X9", plan)) is not None:
        return kept
    own = judged(store, plan, densities=densities)
    if not plan.snapshots or plan.training.seed:
        return own
    # The first run alone: its snapshots tell the course of training.
    return replace(own, record={**own.record, "course": course(own.network).json()})


def _at_hand(store: Store, plan: NetworkPlan) -> bool:
    """Trained, or kept by a result, whatever its scale."""
    return is_trained(store, plan) or (store.results / "X9" / record_name(plan)).is_file()


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
    beside = half_as_long(settings)
    others = [plan for plan in plans(strong_decay(settings)) if _at_hand(store, plan)] + beside

    def order(plan: NetworkPlan) -> tuple[bool, bool, int, int]:
        return not _at_hand(store, plan), plan in beside, plan.training.seed, -plan.training.epochs

    todo = sorted([*every, *others], key=order)
    done: dict[str, Judged] = {}
    for own in engine.as_done(partial(_judged, store), todo, threads=settings.threads, gpus=1):
        done[record_name(own.plan)] = own
        left, later = ([plan for plan in some if record_name(plan) not in done] for some in (every, beside))
        if not any(_at_hand(store, plan) for plan in (*left, *later)):  # one result for all that needs no training
            known, compared = ([done[n] for n in map(record_name, some) if n in done] for some in (every, others))
            yield _result(_by_set(known), left, compared, later)


def time_left(done: Sequence[Judged], left: Sequence[NetworkPlan]) -> float | None:
    """Seconds of training to come, from the speed of the networks that are done: images shown each second."""
    shown = sum(own.plan.training.epochs * own.facts["images"] for own in done)
    spent = sum(own.facts["training"] for own in done)
    known = {own.name: own.facts["images"] for own in done}
    if not spent or not shown:
        return None
    mean = float(np.mean(list(known.values())))
    return float(sum(plan.training.epochs * known.get(plan.data.name, mean) for plan in left) * spent / shown)


def _result(
    lines: Lines, left: Sequence[NetworkPlan], others: Sequence[Judged] = (), later: Sequence[NetworkPlan] = ()
) -> Result:
    """`others` are networks of the same data sets by other recipes, a table of their own; `left` and `later` are the
    plans of lines and of other recipes that are not trained yet."""
    every = [own for runs in lines.values() for own in runs]
    shared = tuple(line for studies in shared_pairs(lines).values() for line in studies)
    tables = _tables(lines) | ({"literature": beside(lines, shared)} if shared else {})
    if compared := recipes(lines, others):
        tables["recipes"] = compared
    to_come = [*left, *later]
    seconds = time_left(every, to_come)
    unfinished = [f"{plan.data.name}, {_epochs(plan)}, seed {plan.training.seed}" for plan in to_come]
    missing = [f"Not trained yet, hence left out: {'; '.join(unfinished)}."] if unfinished else []
    drawn = figures(lines)
    counts = sorted({len(runs) for runs in lines.values()})
    words = texts(
        "X9",
        how="; ".join(f"{name} {trained_how(runs[0])}" for name, runs in lines.items()),
        mean="a single run" if counts == [1] else f"mean over {' or '.join(map(str, counts))} runs",
        minor=MINOR,
    )
    return Result(
        rows=rows(lines),
        figures=drawn,
        captions={name: text for name, text in words["captions"].items() if name in drawn},
        tables=tables,
        shown={name: text for name, text in words["shown"].items() if name in tables},
        notes=[*missing, *words["notes"], *_report_notes(every)],
        subsets=subsets(every),
        seconds=sum(own.seconds for own in every),
        part=any(plan.training.seed == min(own.seed for own in every) for plan in left),
        kept=_kept([own for own in (*every, *others) if own.in_store]),
        left=networks_left(len(to_come), f", about {seconds / 3600:.1f} hours" if seconds else ""),
    )


def _kept(networks: Sequence[Judged]) -> dict[str, dict[str, Any] | Path]:
    """What was judged of each network, and its last layer, which X3 reads."""
    kept: dict[str, dict[str, Any] | Path] = {}
    for own in networks:
        name = record_name(own.plan)
        head = name.removesuffix(".json") + ".safetensors"
        kept |= {name: own.record, head: own.network.made.path("head.safetensors")}
    return kept


def rows(lines: Lines) -> list[Row]:
    """All of them, the mean line and what decides the paper's statements first."""
    paper = table.paper_lines("X9", lines)
    mean = paper.get("mean", {})
    headings = {column: heading for column, heading in HEADINGS.items() if column != "accuracy"}
    out = table.cells("mean", partial(mean_line, lines), headings, mean)
    out += [*table.size_rows("mean", lines), *_statements(lines, mean)]
    for name, runs in lines.items():
        out += table.cells(name, partial(over_runs, runs), HEADINGS, paper.get(name, {}))
    for learned, others in printed("X9.pairs").items():
        for ood, number in others.items():
            if learned in lines and ood in lines[learned][0].diagnosis.ood:
                ours = {"pair": [own.auroc("plain-max", ood) for own in lines[learned]]}
                out += rows_of("X9", ours, {"pair": number}, learned=learned, ood=ood)
    return out


def _statements(lines: Lines, paper: Mapping[str, Reported]) -> list[Row]:
    """What decides the paper's statements, then what the paper does not split; `paper` is its mean line, if any."""
    runs = list(zip(*lines.values()))

    def where(more: str, less: str) -> list[int]:
        return [sum(table.value(own, more) > table.value(own, less) for own in run) for run in runs]

    density = difference(lines, "density", lines, "plain-entropy")
    ours: dict[str, Any] = {
        "overlap_less": difference(lines, "overlap", lines, "extrapolation"),
        "overlap_more": where("overlap", "extrapolation"),
        "together": density,
        "density_less": density,
        "density_more": where("density", "plain-entropy"),
        "entropy_less": difference(lines, "plain-entropy", lines, "plain-max"),
        "lowest": [min(table.value(o, "plain-entropy") - table.value(o, "plain-max") for o in run) for run in runs],
        "equal": [100 * max(share for own in run for share in own.equal_shares()) for run in runs],
        "lost": [100 * max(c.rounding.value for own in run for c in own.diagnosis.causes.values()) for run in runs],
    }
    for part in ("ceiling", "misfit", "overlap_proper", "extrapolation_proper", "ambiguity"):
        if all(np.isfinite(table.value(own, part)) for own_runs in lines.values() for own in own_runs):
            ours[part] = mean_line(lines, part)
    theirs: dict[str, Any] = {"density_more": Statement("density beats softmax on each", least=len(lines))}
    if paper:
        theirs["together"] = Reported(paper["saturation"].value + paper["extrapolation"].value)
    else:
        theirs["overlap_more"] = None
    return rows_of("X9", ours, theirs, sets=len(lines))


def _tables(lines: Lines) -> dict[str, Table]:
    """By name; those with words of their own are for people, the others for programs."""
    every = [own for runs in lines.values() for own in runs]
    paper = table.paper_lines("X9", lines)
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


def trained_how(own: Judged) -> str:
    """'8 epochs, 20,000 images'."""
    return f"{_epochs(own.plan)}, {own.facts['images']:,} images"


def _epochs(plan: NetworkPlan) -> str:
    epochs = plan.training.epochs
    return f"{epochs} epoch{'s' * (epochs > 1)}"


def _line_title(name: str, runs: Sequence[Judged]) -> str:
    return f"{name} ({trained_how(runs[0])}, {table.runs_of(len(runs))})"


def network_name(own: Judged) -> str:
    """'ResNet18 on cifar10'; T24 reads the family from it."""
    net = own.plan.net
    return f"{'ResNet18' if net == 'resnet18' else net} on {own.name}"


def mental(runs: Sequence[Judged]) -> dict[str, str]:
    """T19's agreement and assumptions, mean over runs."""
    known = [own.numbers["mental"] for own in runs]
    agreement = min(claims["T19"]["spearman"] for own in runs for claims in own.numbers["claims"].values())

    def head(what: str) -> str:
        return f"{np.mean([np.nan if own['head'][what] is None else own['head'][what] for own in known]):.2f}"

    def sets(what: str, *names: str) -> str:
        return f"{np.mean([[own['sets'][name][what] for own in known] for name in names]):.2f}"

    ood = list(runs[0].diagnosis.ood)
    return {
        "rank agreement": f"{agreement:.2f}",
        "-1/(K-1)": f"{-1 / (runs[0].facts['classes'] - 1):.2f}",
        "norm(w): std / mean": head("norm_spread"),
        "abs(b) / norm(w)": head("bias_share"),
        "cos(w, w): deviation": head("cosine_deviation"),
        "distance to optimum (centred)": f"{head('distance')} ({head('centred_distance')})",
        "largest cos, train": sets("largest", "train"),
        "largest cos, test": sets("largest", "test"),
        "largest cos, OOD": sets("largest", *ood),
        "other cos: deviation, test": sets("others_deviation", "test"),
        "other cos: deviation, OOD": sets("others_deviation", *ood),
    }


_GRIDS = {
    "plain-max": "U_max", "plain-entropy": "U_entropy", "density": "U_density", "familiarity": "max cos",
    "norm": "norm(z)",
}  # fmt: skip
_PANELS = {
    "saturation": "1 saturation", "extrapolation": "2 extrapolation", "overlap": "3 overlap",
    "overlap_proper": "of 3: overlap proper",
}  # fmt: skip


def figures(lines: Lines) -> "dict[str, Figure | bytes]":
    """By name, the experiment's own picture first."""
    from ..plots.benchmark import auroc_grids, causes_beside, familiarity_by_set, training_course

    paper = table.paper_lines("X9", lines)
    first = {f"{name} ({trained_how(runs[0])})": runs[0].diagnosis for name, runs in lines.items()}
    drawn = {name: table.cause_line({name: runs}, list(_PANELS), paper.get(name, {})) for name, runs in lines.items()}
    drawn["mean"] = table.cause_line(lines, list(_PANELS), paper.get("mean", {}))
    courses = courses_of(lines)
    return {
        "grids": auroc_grids(list(lines), {title: table.grid(lines, score) for score, title in _GRIDS.items()}),
        "causes": causes_beside(_PANELS, drawn),
        "histograms": familiarity_by_set(
            {title: (own.strength, own.other_cosines, own.familiarity) for title, own in first.items()}
        ),
        **({"course": training_course(courses)} if courses else {}),
    }
