"""The tables of X9: the paper's table with its line under each of ours, and what stands beneath it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...metrics import Interval
from .base import Mean
from .ensemble import together
from .five_scores import Judged
from .x09_paper import COLUMNS, MEAN, RUNS, TABLE
from .x09_rows import Found, mean_line, over_runs

Table = list[dict[str, Any]]

#: estimator -> heading, beneath the paper's four
REFERENCES = {
    "mahalanobis": "Mahalanobis", "relative-mahalanobis": "relative Mah.", "knn": "kNN", "vim": "ViM", "gen": "GEN",
    "energy": "energy", "max-logit": "max-logit", "familiarity": "max cos", "norm": "norm(z)", "mental": "U_mental",
}  # fmt: skip
FINER = {
    "entropy": "B, U_entropy", "rounding": "1 rounding", "temperature": "1 temperature",
    "extrapolation_proper": "2a extrapolation", "ambiguity": "2b ambiguity", "misfit": "3 misfit",
    "overlap_proper": "3 overlap proper", "ceiling": "ceiling",
}  # fmt: skip
NET_NAMES = {"resnet18": "ResNet18"}

SHOWN = {
    "benchmark": "The paper's table: each of ours above the paper's line. AUROC in percent, mean over the OOD sets, "
    "± 1 standard error over runs; U_max (A) and U_entropy (B) as float32 prints them, U_cool (C), U_density (D); "
    "cause 1 = C - B, 2 = D - C, 3 = 100 - D.",
    "references": "Scores of the literature on the same features, mean AUROC in percent, and the ceiling: about what "
    "the best score on this layer could reach.",
    "causes": "Causes split further, in points of AUROC: B and all parts add up to 100. In brackets the 95 % interval "
    "over inputs (mean of the runs' ends).",
    "mental": "The mental model (T19): its rank agreement with U_max over test and OOD inputs (lowest of the OOD "
    "sets), how far the head is from the optimal structure, and the cosines of z. If both assumptions held, the "
    "deviations would be 0 and the largest cosine 1.",
    "literature": "What the literature reports for the same pairs (X11), AUROC in percent.",
}


def tables(found: Found) -> dict[str, Table]:
    """By name; those of `SHOWN` are for people, the others for programs."""
    every = [own for runs in found.values() for own in runs]
    out: dict[str, Table] = {
        "benchmark": _benchmark(found),
        "references": _side_by_side("score", {name: _references(runs) for name, runs in found.items()}),
        "causes": _side_by_side("part", {name: _finer(runs) for name, runs in found.items()}),
        "mental": _side_by_side("of", {name: _mental(runs) for name, runs in found.items()}),
        "commands": [_command(own) for own in every],
        "pairs": [_pair(own, ood) for own in every for ood in own.diagnosis.ood],
        **{claim: [_claim(own, ood, claim) for own in every for ood in own.diagnosis.ood] for claim in _CLAIMS},
    }
    if min(map(len, found.values())) > 1:
        out["T26"] = [_alike(runs, ood) for runs in found.values() for ood in runs[0].diagnosis.ood]
    return out


_CLAIMS = ("T19", "T21", "T23", "T24")


def report_notes(found: Found) -> list[str]:
    """How to open the first run of each line as a report; the table `commands` has every run."""
    return [f"{name}, as a report: {_command(runs[0])['report']}" for name, runs in found.items()]


def trained_how(judged: Judged) -> str:
    """'8 epochs, 20,000 images'."""
    epochs = judged.network.plan.training.epochs
    return f"{epochs} epoch{'s' * (epochs > 1)}, {len(judged.network.train):,} images"


def network_name(judged: Judged) -> str:
    """'ResNet18 on cifar10'."""
    net = judged.network.plan.net
    return f"{NET_NAMES.get(net, net)} on {judged.name}"


def _side_by_side(first: str, columns: dict[str, dict[str, str]]) -> Table:
    """A column a data set, a line a quantity."""
    lines = next(iter(columns.values()))
    return [{first: line} | {name: column[line] for name, column in columns.items()} for line in lines]


def _benchmark(found: Found) -> Table:
    lines = []
    for name, runs in found.items():
        ours = {heading: over_runs(runs, column).show(1) for column, heading in COLUMNS.items()}
        lines.append({"data set": f"{name} ({trained_how(runs[0])}, {_runs(len(runs))})", **ours})
        if name in TABLE:
            lines.append({"data set": f"paper (100 epochs, all images, {_runs(RUNS)})", **_paper(TABLE[name])})
    means = {heading: mean_line(found, column).show(1) for column, heading in COLUMNS.items()}
    lines.append({"data set": "mean", **means})
    if set(found) == set(TABLE):
        lines.append({"data set": "paper, mean", "accuracy": "", **_paper(MEAN)})
    return lines


def _paper(line: dict[str, Any]) -> dict[str, str]:
    return {heading: line[column].show(1) for column, heading in COLUMNS.items() if column in line}


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count > 1)}"


def _references(runs: Sequence[Judged]) -> dict[str, str]:
    headings = {"entropy": "U_entropy", "density": "U_density", **REFERENCES}
    scores = {heading: over_runs(runs, column).show(1) for column, heading in headings.items()}
    return scores | {"ceiling": Mean.over([own.cause("ceiling") for own in runs]).show(1)}


def _finer(runs: Sequence[Judged]) -> dict[str, str]:
    return {heading: _interval(runs, part) for part, heading in FINER.items()}


def _interval(runs: Sequence[Judged], part: str) -> str:
    parts: list[Interval | None] = [getattr(own.diagnosis.mean_causes, part) for own in runs]
    known = [found for found in parts if found is not None]
    if len(known) < len(parts):
        return "not known"
    ends = (100 * np.mean([getattr(found, end) for found in known]) for end in ("value", "low", "high"))
    value, low, high = (round(end, 1) + 0.0 for end in ends)  # no -0.0
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def _mental(runs: Sequence[Judged]) -> dict[str, str]:
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
    spread = [mean("sets", other, "others_deviation") for other in ood]
    return {
        "rank agreement": f"{agreement:.2f}",
        "-1/(K-1)": f"{-1 / (runs[0].network.head.n_classes - 1):.2f}",
        "norm(w): std / mean": f"{mean('head', 'norm_spread'):.2f}",
        "abs(b) / norm(w)": f"{mean('head', 'bias_share'):.2f}",
        "cos(w, w): deviation": f"{mean('head', 'cosine_deviation'):.2f}",
        "distance to optimum (centred)": f"{mean('head', 'distance'):.2f} ({mean('head', 'centred_distance'):.2f})",
        "largest cos, test": f"{mean('sets', 'test', 'largest'):.2f}",
        "largest cos, OOD": f"{np.mean([mean('sets', other, 'largest') for other in ood]):.2f}",
        "other cos: deviation, test": f"{mean('sets', 'test', 'others_deviation'):.2f}",
        "other cos: deviation, OOD": f"{np.mean(spread):.2f}",
    }


def _command(judged: Judged) -> dict[str, Any]:
    return {
        "data set": judged.name,
        "seed": judged.seed,
        "training": trained_how(judged),
        "accuracy": f"{judged.accuracy:.1f}",
        "report": f"`{judged.network.diagnose_command(f'report-{judged.name}')}`",
    }


def _pair(judged: Judged, ood: str) -> dict[str, Any]:
    found = judged.diagnosis
    causes = {
        part: None if (own := getattr(found.causes[ood], part)) is None else own.to_dict()
        for part in ("saturation", "rounding", "temperature", "extrapolation", "extrapolation_proper", "ambiguity",
                     "overlap", "misfit", "overlap_proper", "ceiling")
    }  # fmt: skip
    return {
        "learned": judged.name,
        "ood": ood,
        "seed": judged.seed,
        "rows": min(found.test.rows, found.ood[ood].rows),
        "auroc": {name: judged.auroc(name, ood) for name in found.scores[ood]},
        "causes": causes,
    }


def _claim(judged: Judged, ood: str, claim: str) -> dict[str, Any]:
    known = {"network": f"{network_name(judged)}, seed {judged.seed}", "ood": ood}
    found = {**known, **judged.numbers["claims"][ood][claim]}
    return found | {"lost": judged.diagnosis.causes[ood].rounding.value} if claim == "T24" else found


def _alike(runs: Sequence[Judged], ood: str) -> dict[str, Any]:
    return {"network": network_name(runs[0]), "ood": ood} | together([own.network for own in runs], ood)
