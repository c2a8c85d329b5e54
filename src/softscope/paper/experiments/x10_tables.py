"""The tables of X10: the paper's table with its line under each of ours, every kind, the data, and the claims' rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...metrics import Interval
from .transfer import TransferPlan
from .x09_paper import CAUSES, COLUMNS
from .x09_rows import mean_line, over_runs
from .x10_paper import DATA, MEAN, RUNS, TABLE
from .x10_plans import TUNED
from .x10_rows import OURS, Found, Topics
from .x10_scores import PAPER, Compared

Table = list[dict[str, Any]]
_FAMILY = {"efficientnet_lite1": "EfficientNet-Lite1", "efficientnet_b1": "EfficientNetB1"}

SHOWN = {
    "benchmark": "The paper's table: each of ours, fine-tuned, above the paper's line. AUROC in percent, mean over the "
    "OOD sets, ± 1 standard error over runs; causes with our main density.",
    "kinds": "Every kind of network, mean over the data sets.",
    "causes": "Causes and their parts in points of AUROC, mean over the OOD sets; in brackets the 95 % interval over "
    "inputs, first run.",
    "data": "What was learned, beside the paper's table_transferdatasets (training images, test images, classes, "
    "pixels, epochs of the last layer + of fine-tuning).",
}


def tables(found: Found) -> dict[str, Table]:
    """By name; those of `SHOWN` are for people, the others for programs."""
    every = [(kind, topic, own) for kind, topics in found.items() for topic, runs in topics.items() for own in runs]
    return {
        "benchmark": _benchmark(found[TUNED]),
        "kinds": [_kind(kind, topics) for kind, topics in found.items()],
        "causes": [_causes(kind, topic, runs[0]) for kind, topics in found.items() for topic, runs in topics.items()],
        "data": [_data(topic, runs[0]) for topic, runs in found[TUNED].items()],
        "commands": [_command(*one) for one in every],
        "pairs": [_pair(*one, ood) for one in every for ood in one[2].diagnosis.ood],
        **{claim: [_claim(*one, ood, claim) for one in every for ood in one[2].diagnosis.ood] for claim in _CLAIMS},
    }


_CLAIMS = ("T23", "T24")


def network_name(kind: str, own: Compared) -> str:
    """'EfficientNet-Lite1 on beans, fine-tuned'; T24 reads the family from it."""
    plan = own.network.plan
    source = plan.source if isinstance(plan, TransferPlan) else plan.net
    named = source if isinstance(source, str) else source.net
    family = "EfficientNet-Lite1" if named == "efficientnet_lite" else _FAMILY.get(named, named)
    return f"{family} on {own.name}, {kind}"


def _benchmark(tuned: Topics) -> Table:
    lines: Table = []
    for topic, runs in tuned.items():
        ours = {heading: over_runs(runs, column).show(1) for column, heading in OURS.items()}
        lines.append({"data set": f"{topic} ({runs[0].name}), {len(runs)} runs", **ours})
        if topic in TABLE:
            lines.append({"data set": f"paper, {RUNS} runs"} | _shown(TABLE[topic]))
    lines.append({"data set": "mean"} | {heading: mean_line(tuned, column).show(1) for column, heading in OURS.items()})
    return [*lines, {"data set": "paper, mean"} | _shown(MEAN)] if set(tuned) == set(TABLE) else lines


def _shown(line: dict[str, Any]) -> dict[str, str]:
    return {heading: line[column].show(1) if column in line else "" for column, heading in OURS.items()}


def _kind(kind: str, topics: Topics) -> dict[str, Any]:
    runs = len(next(iter(topics.values())))
    means = {heading: mean_line(topics, column).show(1) for column, heading in COLUMNS.items()}
    return {"network": f"{kind}, {runs} run{'s' * (runs > 1)}", **means}


def _causes(kind: str, topic: str, own: Compared) -> dict[str, Any]:
    parts = {
        "saturation": "cause 1", "extrapolation": "cause 2", "overlap": "cause 3", "misfit": "of 3, misfit",
        "overlap_proper": "of 3, overlap proper",
    }  # fmt: skip
    found = own.diagnosis.mean_causes
    return {"network": kind, "data set": topic} | {words: _brackets(getattr(found, p)) for p, words in parts.items()}


def _brackets(found: Interval) -> str:
    value, low, high = (round(100 * end, 1) + 0.0 for end in (found.value, found.low, found.high))  # no -0.0
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def _data(topic: str, own: Compared) -> dict[str, Any]:
    plan = own.network.plan
    last = plan.training.epochs
    tuned = plan.tuning.epochs if isinstance(plan, TransferPlan) and plan.tuning else 0
    size = getattr(plan.data, "size", None)
    ours = (len(own.network.train), len(own.network.test), own.network.head.n_classes, size or "-", last, tuned)
    line = {"data set": f"{topic}: {own.name}", "ours": _words(ours)}
    return line | {"the paper": _words(DATA[topic])} if topic in DATA else line


def _words(line: Sequence[Any]) -> str:
    return "{:,} {:,} {} {} {}+{}".format(*line)


def _command(kind: str, topic: str, own: Compared) -> dict[str, Any]:
    report = own.network.diagnose_command(f"report-{own.name}-{kind.split(',')[0].replace(' ', '-')}")
    return {"network": network_name(kind, own), "seed": own.seed, "accuracy": own.accuracy, "report": f"`{report}`"}


def _pair(kind: str, topic: str, own: Compared, ood: str) -> dict[str, Any]:
    found = own.diagnosis
    return {
        "network": network_name(kind, own),
        "seed": own.seed,
        "ood": ood,
        "rows": min(found.test.rows, found.ood[ood].rows),
        "auroc": {name: round(own.auroc(name, ood), 3) for name in (*found.scores[ood], *([PAPER] * (kind == TUNED)))},
        "causes": {part: _ends(getattr(found.causes[ood], part)) for part in (*CAUSES, "misfit", "overlap_proper")},
    }


def _ends(found: Interval) -> list[float]:
    return [round(100 * float(np.float64(end)), 3) for end in (found.value, found.low, found.high)]


def _claim(kind: str, topic: str, own: Compared, ood: str, claim: str) -> dict[str, Any]:
    known = {"network": f"{network_name(kind, own)}, seed {own.seed}", "ood": ood, **own.numbers["claims"][ood][claim]}
    return known | {"lost": own.diagnosis.causes[ood].rounding.value} if claim == "T24" else known


def report_notes(found: Found) -> list[str]:
    """How to open the first run of each topic as a report; the table `commands` has every network."""
    return [
        f"{topic}, fine-tuned, as a report: {_command(TUNED, topic, runs[0])['report']}"
        for topic, runs in found[TUNED].items()
    ]
