"""The page's tables and bars: AUROCs, causes, and the classes OOD inputs are taken for."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from ..diagnosis.model import Causes, ClassRow, Diagnosis
from ..metrics import Interval
from .charts import cause_bar, excess

_MOST_CLASSES = 8
_NEGLIGIBLE = 0.0005  # of an AUROC: not a pixel
_STARTS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True)
class Cell:
    """An AUROC, whether its interval lies above all others of its column, and how strongly it is shaded."""

    auroc: Interval
    best: bool

    @property
    def heat(self) -> float:
        """From 0 at chance to 1 at perfect, slow at first: the last points are the hardest."""
        return max(0.0, 2 * self.auroc.value - 1) ** 3


@dataclass(frozen=True)
class EstimatorRow:
    """One estimator's AUROC on the mean and on each OOD set, and at finding the network's own mistakes."""

    name: str
    cells: list[Cell]
    mistakes: Cell | None


@dataclass(frozen=True)
class CauseRow:
    name: str
    bar: Markup
    causes: Causes


@dataclass(frozen=True)
class CauseTable:
    """Bars on one axis from `low` to `high`, and the marks below them as (value, share of the width).

    `high` is beyond 1 where some cause is negative, so that its bar has a strip below.
    """

    low: float
    high: float
    marks: list[tuple[float, float]]
    rows: list[CauseRow]


def score_table(diagnosis: Diagnosis) -> list[EstimatorRow]:
    """AUROC of every estimator on the mean and by OOD set, the best mean first."""
    columns = [diagnosis.mean_scores, *diagnosis.scores.values()]
    shown = [key for key in diagnosis.mean_scores if not _folded(diagnosis, key)]
    order = sorted(shown, key=lambda key: -diagnosis.mean_scores[key].auroc.value)
    rows = []
    for key in order:
        cells = [
            Cell(scores[key].auroc, _stands_out({name: scores[name].auroc for name in shown}, key))
            for scores in columns
        ]
        own = diagnosis.mistakes.get(key)
        among = {name: item for name, item in diagnosis.mistakes.items() if name in shown}
        mistakes = None if own is None else Cell(own, _stands_out(among, key))
        rows.append(EstimatorRow(key, cells, mistakes))
    return rows


#: A score as networks print it, and its exact twin.
_TWINS = {"max": "plain-max", "plain-entropy": "entropy"}


def _folded(diagnosis: Diagnosis, key: str) -> bool:
    """Whether the row would repeat that of its twin to a tenth of a point, on every set."""
    twin = _TWINS.get(key)
    if twin is None or key == diagnosis.advice.recommended:
        return False
    columns = [diagnosis.mean_scores, *diagnosis.scores.values()]
    return all(
        twin in scores and abs(scores[key].auroc.value - scores[twin].auroc.value) < 0.0005 for scores in columns
    )


def _stands_out(aurocs: Mapping[str, Interval], key: str) -> bool:
    """Whether the whole interval lies above the value of every other score."""
    return all(aurocs[key].low > other.value for name, other in aurocs.items() if name != key)


def class_table(diagnosis: Diagnosis) -> list[tuple[str, ClassRow]]:
    """Classes by name, the most false alarms of confidence first."""
    rows = sorted(diagnosis.by_class, key=lambda row: -row.false_alarms["plain-max"].value)
    return [(diagnosis.classes[row.number], row) for row in rows]


def cause_table(diagnosis: Diagnosis) -> CauseTable:
    """The mean and each OOD set, on an axis that starts at a round number below them all."""
    named = [("mean", diagnosis.mean_causes), *diagnosis.causes.items()]
    lowest = min(min(causes.entropy.low, causes.cool.low, causes.density.low) for _, causes in named)
    low = max((start for start in _STARTS if start < lowest - 0.1 * (1 - lowest)), default=0.0)
    beyond = max(excess(causes) for _, causes in named)
    high = 1.0 + (beyond if beyond > _NEGLIGIBLE else 0.0)
    rows = [CauseRow(name, cause_bar(name, causes, low, high), causes) for name, causes in named]
    marks = [(low + step * (1 - low), step * (1 - low) / (high - low)) for step in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    return CauseTable(low, high, marks, rows)


def confusions(diagnosis: Diagnosis) -> dict[str, list[tuple[str, float, float]]]:
    """The classes that each OOD set is most often taken for: name, share of all inputs, share let through of it."""
    out = {}
    for name, inputs in diagnosis.inputs.items():
        total = max(1, sum(inputs.taken_for))
        order = sorted(range(len(diagnosis.classes)), key=lambda k: -inputs.taken_for[k])[:_MOST_CLASSES]
        out[name] = [
            (diagnosis.classes[k], inputs.taken_for[k] / total, inputs.let_through[k] / total)
            for k in order
            if inputs.taken_for[k]
        ]
    return out
