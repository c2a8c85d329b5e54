"""What the literature reports (X11, table_reported_results), from `printed.toml`, beside our numbers."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .table import Lines, Table
from .verdict import Mean, printed

#: what a study calls its method -> the estimator here that does the same to a network trained in the usual way
ALIKE = {"Softmax": "plain-max", "Mahalanobis(vanilla)": "mahalanobis", "DDU": "density"}
OURS = {"plain-max": "U_max", "plain-entropy": "U_entropy", "mahalanobis": "Mahalanobis", "density": "U_density"}


@dataclass(frozen=True)
class Citation:
    """A study of the table."""

    short: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    arxiv: str

    @property
    def full(self) -> str:
        """As a list of references has it."""
        return f"{', '.join(self.authors)}: {self.title}. {self.venue} {self.year}, arXiv {self.arxiv}"


@dataclass(frozen=True)
class Line:
    """A line of the table: the percent of `metric` that each method reaches."""

    citation: Citation
    learned: str
    ood: str
    scores: dict[str, float] = field(hash=False)
    metric: str = "AUROC"


@cache
def literature() -> tuple[Line, ...]:
    """All lines, in the order of the paper's table."""
    studies = printed("X11.citations").items()
    known = {key: Citation(**{**study, "authors": tuple(study["authors"])}) for key, study in studies}
    return tuple(Line(**{**line, "citation": known[line["citation"]]}) for line in printed("X11.table"))


def shared_pairs(names: Any) -> dict[tuple[str, str], list[Line]]:
    """The lines about two of the data sets `names`, by (learned, OOD)."""
    pairs: dict[tuple[str, str], list[Line]] = {}
    for line in literature():
        if line.learned in names and line.ood in names:
            pairs.setdefault((line.learned, line.ood), []).append(line)
    return pairs


def ours(networks: Lines, score: str, learned: str, ood: str) -> Mean:
    """AUROC of our networks for a pair, in percent, over runs."""
    return Mean.of([own.auroc(score, ood) for own in networks[learned]])


def beside(networks: Lines, lines: tuple[Line, ...] | None = None) -> Table:
    """The lines with our AUROCs beside them, empty where we have no network for the pair."""
    out = []
    for line in literature() if lines is None else lines:
        known = line.learned in networks and any(line.ood in own.diagnosis.ood for own in networks[line.learned])
        pair = line.learned, line.ood
        cells = [f"{words} {ours(networks, score, *pair).show(1)}" for score, words in OURS.items() if known]
        reported = ", ".join(f"{method} {value:.1f}" for method, value in line.scores.items())
        out.append(
            {
                "learned": line.learned,
                "OOD": line.ood,
                "study": line.citation.short,
                "reported": reported if line.metric == "AUROC" else f"{reported} ({line.metric})",
                "ours": ", ".join(cells),
            }
        )
    return out
