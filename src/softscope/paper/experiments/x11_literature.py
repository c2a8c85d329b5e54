"""X11 (table_reported_results): what the literature reports, beside our networks for the pairs of data sets they share.

The networks are those of X9 at the same scale: whatever X9 has trained is read, not trained again.
"""

from ...engine import Engine
from ...runs import Store
from . import texts
from .base import Result
from .literature import ALIKE, OURS, Line, beside, literature, ours, shared_pairs
from .table import Lines
from .verdict import Mean, Reported, Row, Statement, printed
from .x09_five_sets import measured, trained_how
from .x09_plans import SCALES as SCALES
from .x09_plans import FiveSettings


def run(settings: FiveSettings, store: Store, engine: Engine) -> Result:
    """The table, its extremes, and our numbers for each shared pair."""
    pairs = shared_pairs(settings.recipes)
    learned = tuple(dict.fromkeys(learned for learned, _ in pairs))
    networks = measured(settings, store, engine, learned) if learned else {}
    every = [own for runs in networks.values() for own in runs]
    how = "; ".join(f"{name}: {trained_how(runs[0])}" for name, runs in networks.items())
    known = {pair: lines for pair, lines in pairs.items() if pair[0] in networks}
    return Result(
        rows=[*_extremes(), *(row for pair, lines in known.items() for row in _rows(networks, *pair, lines))],
        tables={"literature": beside(networks)},
        shown={"literature": f"AUROC in percent as each study reports it, and ours. {f'Ours: {how}.' if how else ''}"},
        notes=[*texts("X11")["notes"], *dict.fromkeys(line.citation.full for line in literature())],
        subsets=list(dict.fromkeys(line for own in every for line in own.facts["subsets"])),
        seconds=sum(own.facts["seconds"] for own in every),
    )


def _extremes() -> list[Row]:
    softmax = [line.scores["Softmax"] for line in literature() if line.metric == "AUROC"]
    low, high = Mean.exact(min(softmax)), Mean.exact(max(softmax))
    return [
        Row("lowest AUROC of softmax in the table", low, Statement("never below 78 %", least=77.5), "%"),
        Row("highest AUROC of softmax in the table", high, printed("X11.highest"), "%"),
    ]


def _rows(networks: Lines, learned: str, ood: str, lines: list[Line]) -> list[Row]:
    """A row for each method of these studies that has its like here."""
    rows = []
    for method, score in ALIKE.items():
        studies = [line for line in lines if method in line.scores]
        if not studies:
            continue
        low, high = (end(line.scores[method] for line in studies) for end in (min, max))
        single = f" ({studies[0].citation.short}: {method})" if len(studies) == 1 else ""
        within = Statement(f"{low:.1f} to {high:.1f} in {len(studies)} studies", low, high)
        label = f"{learned} against {ood}: {OURS[score]}{single}"
        paper = Reported(low) if single else within
        rows.append(Row(label, ours(networks, score, learned, ood), paper, "%", kind="AUROC"))
    return rows
