"""The paper's table_AUROC_bench and what stands around it: one code for X9 (top), X10 (bottom) and X11.

A line is a data set (X9) or a topic (X10) with one judged network for each run. Every cell is a mean over runs; the
mean line takes, in each run, the mean over the lines. AUROCs in percent, causes in points.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import Floats
from ...metrics import Interval
from .judge import together
from .judgement import Judged
from .verdict import Kind, Mean, Reported, Row, printed

if TYPE_CHECKING:
    from ..plots.benchmark import CauseLine

#: by line, one network for each run
Lines = Mapping[str, Sequence[Judged]]
Table = list[dict[str, Any]]
Name = Callable[[Judged], str]

#: column -> heading, as the paper has them
SCORES = {"plain-max": "U_max", "plain-entropy": "U_entropy", "cool": "U_cool", "density": "U_density"}
CAUSES = {"saturation": "cause 1", "extrapolation": "cause 2", "overlap": "cause 3"}
COLUMNS = {"accuracy": "accuracy", **SCORES, **CAUSES}
#: ours alone
TEMPERATURE = {"temperature": "temperature gain"}
#: columns that repeat or follow from others, so that no count includes them: causes are differences of the AUROCs.
DERIVED = (*CAUSES, *TEMPERATURE)
PARTS = {
    "entropy": "B, U_entropy", "rounding": "1 rounding", "temperature": "1 temperature",
    "extrapolation_proper": "2a extrapolation", "ambiguity": "2b ambiguity", "misfit": "3 misfit",
    "overlap_proper": "3 overlap proper", "ceiling": "ceiling",
}  # fmt: skip


def paper_lines(name: str, ours: Collection[str] = ()) -> dict[str, dict[str, Reported]]:
    """The paper's lines of 'X9' or 'X10' by column, and 'mean', which compares only if `ours` are the same lines."""
    lines = {}
    for title, line in printed(f"{name}.lines").items():
        columns = ("accuracy", *SCORES)[-len(line["scores"]) :]
        errors = line.get("errors", [None] * len(columns))
        lines[title] = {c: Reported(v, e) for c, v, e in zip(columns, line["scores"], errors)}
        lines[title] |= {c: Reported(v) for c, v in zip(CAUSES, line["causes"])}
    if ours and set(ours) != set(lines) - {"mean"}:
        del lines["mean"]
    return lines


def value(judged: Judged, column: str) -> float:
    """One column of the table for one network. U_cool is the paper's C: U_entropy where nothing saturates."""
    if column == "accuracy":
        return judged.accuracy
    if column == "cool":
        return judged.auroc("plain-entropy") + judged.cause("saturation")
    return judged.cause(column) if column in (*CAUSES, *PARTS) and column != "entropy" else judged.auroc(column)


def over_runs(runs: Sequence[Judged], column: str) -> Mean:
    """A cell of the table."""
    return Mean.of([value(own, column) for own in runs])


def each_run(lines: Lines, column: str, size: Callable[[float], float] = float) -> list[float]:
    """One value per run, the mean over the lines, as far as all lines have runs; `size` is taken of each number."""
    return [float(np.mean([size(value(own, column)) for own in run])) for run in zip(*lines.values())]


def mean_line(lines: Lines, column: str) -> Mean:
    """The cell of the mean line: in each run the mean over lines, then over runs."""
    return Mean.of(each_run(lines, column))


def mean_size(lines: Lines, column: str) -> Mean | None:
    """The same of the numbers without their sign; None where all have one sign, as far as the table shows."""
    shown = [round(over_runs(runs, column).value, 1) for runs in lines.values()]
    return None if min(shown) >= 0 or max(shown) <= 0 else Mean.of(each_run(lines, column, abs))


def difference(more: Lines, first: str, less: Lines, second: str) -> Mean:
    """Mean over lines of one column less another, run by run, as far as both have runs."""
    return Mean.of([a - b for a, b in zip(each_run(more, first), each_run(less, second))])


def cells(
    title: str, mean: Callable[[str], Mean], headings: Mapping[str, str], paper: Mapping[str, Reported]
) -> list[Row]:
    """The rows of one line."""
    rows = []
    for column, heading in headings.items():
        kind: Kind = "accuracy" if column == "accuracy" else "AUROC"
        unit = "points" if column in DERIVED else "%"
        known = paper.get(column)
        counts = known is not None and column not in DERIVED
        rows.append(Row(f"{title}: {heading}", mean(column), known, unit, kind=kind, counts=counts))
    return rows


def size_rows(title: str, lines: Lines) -> list[Row]:
    """What keeps a signed mean from standing alone: the mean size of causes whose signs differ between lines."""
    sizes = {heading: mean_size(lines, column) for column, heading in (CAUSES | TEMPERATURE).items()}
    return [Row(f"{title}: mean size of {name}, whatever its sign", m, unit="points") for name, m in sizes.items() if m]


def benchmark(
    lines: Lines,
    paper: Mapping[str, Mapping[str, Reported]],
    headings: Mapping[str, str],
    ours: Callable[[str, Sequence[Judged]], str],
    theirs: str,
) -> Table:
    """The paper's table: each of ours, titled by `ours`, above the paper's line, titled `theirs`."""
    table = []
    for title, runs in lines.items():
        own = {heading: over_runs(runs, column).show(1) for column, heading in headings.items()}
        table.append({"data set": ours(title, runs), **own})
        if title in paper:
            table.append({"data set": theirs, **_shown(paper[title], headings)})
    table.append({"data set": "mean"} | {heading: _mean_cell(lines, column) for column, heading in headings.items()})
    if "mean" in paper:
        table.append({"data set": "paper, mean", **_shown(paper["mean"], headings)})
    return table


def _shown(line: Mapping[str, Reported], headings: Mapping[str, str]) -> dict[str, str]:
    return {heading: line[column].show(1) if column in line else "" for column, heading in headings.items()}


def _mean_cell(lines: Lines, column: str) -> str:
    size = mean_size(lines, column) if column in DERIVED else None
    return mean_line(lines, column).show(1) + (f" (size {size.value:.1f})" if size else "")


def runs_of(count: int) -> str:
    """'1 run', '3 runs'."""
    return f"{count} run{'s' * (count != 1)}"


def side_by_side(first: str, columns: Mapping[str, Mapping[str, str]]) -> Table:
    """A column for each line of the benchmark, a line for each quantity."""
    names = next(iter(columns.values()))
    return [{first: name} | {title: column[name] for title, column in columns.items()} for name in names]


def parts(runs: Sequence[Judged]) -> dict[str, str]:
    """Causes split further: the mean over the OOD sets and its 95 % interval over inputs, mean of the runs' ends."""
    return {
        heading: interval([getattr(own.diagnosis.mean_causes, part) for own in runs]) for part, heading in PARTS.items()
    }


def interval(intervals: Sequence[Interval | None]) -> str:
    """'83.5 [79.2, 86.5]', in percent."""
    known = [own for own in intervals if own is not None]
    if len(known) < len(intervals):
        return "not known"
    ends = (100 * np.mean([getattr(own, end) for own in known]) for end in ("value", "low", "high"))
    middle, low, high = (round(float(end), 1) + 0.0 for end in ends)  # no -0.0
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


def every_score(lines: Lines) -> Table:
    """Each score of the registry and each density on every pair of data sets: mean over pairs, worst pair."""
    first = next(iter(lines.values()))[0]
    names = [*first.diagnosis.mean_scores, *first.numbers["densities"]]
    table = []
    for name in names:
        pairs = {
            (title, ood): float(np.mean([own.auroc(name, ood) for own in runs]))
            for title, runs in lines.items()
            for ood in runs[0].diagnosis.ood
        }
        worst = min(pairs, key=lambda pair: pairs[pair])
        mean = Mean.of([np.mean([own.auroc(name) for own in run]) for run in zip(*lines.values())])
        labels = first.diagnosis.estimators
        symbol = labels[name].symbol if name in labels else name
        table.append(
            {"score": symbol, "mean": mean.show(1), "worst pair": f"{pairs[worst]:.1f} ({worst[0]} against {worst[1]})"}
        )
    return sorted(table, key=lambda line: -float(line["mean"].split()[0]))


def pairs(networks: Sequence[Judged], name: Name) -> Table:
    """Every pair of data sets of every network: AUROCs of all scores with their causes, and intervals over inputs."""
    return [_pair(own, name(own), ood) for own in networks for ood in own.diagnosis.ood]


def _pair(own: Judged, network: str, ood: str) -> dict[str, Any]:
    diagnosis = own.diagnosis
    shown = (*CAUSES, *(part for part in PARTS if part != "entropy"))
    ends = {part: getattr(diagnosis.causes[ood], part) for part in shown}
    scores = (*diagnosis.scores[ood], *own.numbers["densities"])
    return {
        "network": network,
        "learned": own.name,
        "ood": ood,
        "seed": own.seed,
        "rows": min(diagnosis.test.rows, diagnosis.ood[ood].rows),
        "auroc": {score: round(own.auroc(score, ood), 3) for score in scores},
        "causes": {part: None if own_part is None else _ends(own_part) for part, own_part in ends.items()},
    }


def _ends(around: Interval) -> list[float]:
    return [round(100 * float(end), 3) for end in (around.value, around.low, around.high)]


def claims(networks: Sequence[Judged], name: Name, wanted: Sequence[str]) -> dict[str, Table]:
    """The rows that `softscope claims` reads, by claim."""
    tables: dict[str, Table] = {claim: [] for claim in wanted}
    for own in networks:
        for ood in own.diagnosis.ood:
            known = {"network": f"{name(own)}, seed {own.seed}", "ood": ood}
            for claim in wanted:
                row = {**known, **own.numbers["claims"][ood][claim]}
                lost = {"lost": own.diagnosis.causes[ood].rounding.value} if claim == "T24" else {}
                tables[claim].append(row | lost)
    return tables


def ensembles(lines: Lines, name: Name) -> Table:
    """T26: the runs of each line taken together."""
    return [
        {"network": name(runs[0]), "ood": ood} | together([own.network for own in runs], ood)
        for runs in lines.values()
        for ood in runs[0].diagnosis.ood
    ]


def commands(networks: Sequence[Judged], name: Name, report: Name) -> Table:
    """How to open each network as a report."""
    return [
        {
            "network": name(own),
            "seed": own.seed,
            "accuracy": f"{own.accuracy:.1f}",
            "report": f"`{own.network.diagnose_command(report(own))}`",
        }
        for own in networks
        if own.in_store
    ]


def grid(lines: Lines, score: str) -> Floats:
    """AUROC of each line (rows) against each line's data set (columns), mean over runs; nan on the diagonal."""
    places = {runs[0].name: place for place, runs in enumerate(lines.values())}
    values = np.full((len(places), len(places)), np.nan)
    for row, runs in enumerate(lines.values()):
        for ood in runs[0].diagnosis.ood:
            if ood in places:
                values[row, places[ood]] = np.mean([own.auroc(score, ood) for own in runs])
    return values


def cause_line(lines: Lines, panels: Sequence[str], paper: Mapping[str, Reported]) -> "CauseLine":
    """One line of the figure of causes, each panel's value over runs: of a single data set, or the mean of several."""
    from ..plots.benchmark import CauseLine

    ours = {part: each_run(lines, part) for part in panels}
    return CauseLine(ours, {part: paper[part].value for part in CAUSES if part in paper})
