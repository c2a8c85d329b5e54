"""X11 (table_reported_results): what the literature reports, beside our networks for the pairs of data sets they share.

The networks are those of X9 at the same scale: whatever X9 has trained is read, not trained again.
"""

from ...engine import Engine
from ...runs import Store
from .base import Mean, Reported, Result, Row, Statement
from .five_sets import FiveSettings
from .literature import ALIKE, OURS, Line, beside, literature, ours, shared_pairs
from .networks import subsets
from .x09_benchmark import SCALES as SCALES
from .x09_benchmark import measured
from .x09_rows import Found
from .x09_tables import trained_how


def run(settings: FiveSettings, store: Store, engine: Engine) -> Result:
    """The table, its extremes, and our numbers for each shared pair."""
    pairs = shared_pairs(settings.recipes)
    learned = tuple(dict.fromkeys(learned for learned, _ in pairs))
    found = measured(settings, store, engine, learned) if learned else {}
    every = [own for runs in found.values() for own in runs]
    how = "; ".join(f"{name}: {trained_how(runs[0])}" for name, runs in found.items())
    return Result(
        rows=[*_extremes(), *(row for pair, lines in pairs.items() for row in _rows(found, *pair, lines))],
        tables={"literature": beside(found)},
        shown={"literature": f"AUROC in percent as each study reports it, and ours. {f'Ours: {how}.' if how else ''}"},
        notes=[*_NOTES, *dict.fromkeys(line.citation.full for line in literature())],
        subsets=subsets([own.network for own in every]),
        seconds=sum(own.seconds for own in every),
    )


_NOTES = [
    "Studies differ in networks, training and scores: 'Softmax' is U_max in some and U_entropy in others. U_max stands "
    "beside it, Mahalanobis beside 'Mahalanobis(vanilla)', and U_density, on a network without DDU's constraints, "
    "beside 'DDU'. A range holds where ours lies within it.",
    "The paper says that softmax never drops below 78 % in this table (a study that reports accuracy left out); its "
    "lowest entry is 77.6. Whole percents decide.",
]


def _extremes() -> list[Row]:
    softmax = [line.scores["Softmax"] for line in literature() if line.metric == "AUROC"]
    low, high = min(softmax), max(softmax)
    return [
        Row("lowest AUROC of softmax in the table", Mean(low), Statement("never below 78 %", round(low) >= 78), "%"),
        Row("highest AUROC of softmax in the table", Mean(high), Reported(98.8), "%"),
    ]


def _rows(found: Found, learned: str, ood: str, lines: list[Line]) -> list[Row]:
    """A row for each method of these studies that has its like here."""
    rows = []
    for method, score in ALIKE.items():
        studies = [line for line in lines if method in line.scores]
        if not studies:
            continue
        mean = ours(found, score, learned, ood)
        low, high = (end(line.scores[method] for line in studies) for end in (min, max))
        single = f" ({studies[0].citation.short}: {method})" if len(studies) == 1 else ""
        paper = Statement(f"{low:.1f} to {high:.1f} in {len(studies)} studies", low <= mean.value <= high)
        rows.append(
            Row(f"{learned} against {ood}: {OURS[score]}{single}", mean, Reported(low) if single else paper, "%")
        )
    return rows
