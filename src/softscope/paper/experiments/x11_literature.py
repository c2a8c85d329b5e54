"""X11 (table_reported_results): what the literature reports, beside our networks for the pairs of data sets they share.

The networks are those of X9 at the same scale: whatever X9 has trained is read, not trained again.
"""

from ...engine import Engine
from ...runs import Store
from . import texts
from .base import Result
from .literature import ALIKE, OURS, Line, beside, literature, ours, shared_pairs
from .networks import subsets
from .table import Lines
from .verdict import Mean, Reported, Row, Statement, rows_of
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
    words = texts("X11", how=f"Ours: {how}." if how else "")
    known = {pair: lines for pair, lines in pairs.items() if pair[0] in networks}
    return Result(
        rows=[*_extremes(), *(row for pair, lines in known.items() for row in _rows(networks, *pair, lines))],
        tables={"literature": beside(networks)},
        shown=words["shown"],
        notes=[*words["notes"], *dict.fromkeys(line.citation.full for line in literature())],
        subsets=subsets(every),
        seconds=sum(own.seconds for own in every),
    )


def _extremes() -> list[Row]:
    softmax = [line.scores["Softmax"] for line in literature() if line.metric == "AUROC"]
    return rows_of("X11", {"low": Mean.exact(min(softmax)), "high": Mean.exact(max(softmax))})


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
        own, paper = ours(networks, score, learned, ood), Reported(low) if single else within
        words = {"learned": learned, "ood": ood, "score": OURS[score], "study": single}
        rows += rows_of("X11", {"score": own}, {"score": paper}, **words)
    return rows
