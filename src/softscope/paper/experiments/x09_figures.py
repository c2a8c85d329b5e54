"""The pictures of X9: fig_grid_auroc, fig_cifar_etc, and the causes beside the paper's."""

from typing import TYPE_CHECKING

import numpy as np

from ...arrays import Floats
from .five_scores import Judged
from .x09_paper import CAUSES, MEAN, TABLE
from .x09_rows import Found
from .x09_tables import trained_how

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...diagnosis.model import Histogram
    from ..plots.causes import CauseLine

GRIDS = {
    "plain-max": "U_max", "plain-entropy": "U_entropy", "density": "U_density", "familiarity": "max cos",
    "norm": "norm(z)",
}  # fmt: skip
PANELS = {
    "saturation": "1 saturation", "extrapolation": "2 extrapolation", "overlap": "3 overlap",
    "overlap_proper": "of 3: overlap proper",
}  # fmt: skip


def figures(found: Found) -> "dict[str, Figure | bytes]":
    """By name, the experiment's own picture first."""
    from ..plots.causes import causes_beside
    from ..plots.familiarity import familiarity_by_set
    from ..plots.grids import auroc_grids

    names = list(found)
    first = {f"{name} ({trained_how(runs[0])})": runs[0] for name, runs in found.items()}
    return {
        "grids": auroc_grids(names, {title: _grid(found, score) for score, title in GRIDS.items()}),
        "causes": causes_beside(PANELS, _cause_lines(found)),
        "histograms": familiarity_by_set({title: _histograms(own) for title, own in first.items()}),
    }


def captions(found: Found) -> dict[str, str]:
    """What each picture shows, and of which networks."""
    how = "; ".join(f"{name} {trained_how(runs[0])}" for name, runs in found.items())
    runs = len(next(iter(found.values())))
    mean = f"mean over {runs} runs" if runs > 1 else "a single run"
    return {
        "grids": f"AUROC of a network trained on each data set (rows) against every other (columns), balanced pairs, "
        f"{mean}. Trained with: {how}.",
        "causes": "Points of AUROC lost to each cause, mean over the OOD sets. The last panel is what is left of cause "
        f"3 when the misfit of the density is taken off: 100 less the ceiling. Ours: {mean}, {how}; the paper's: 100 "
        "epochs on all images.",
        "histograms": "norm(z), the cosines to the weights other than the largest, and the largest, for each training "
        f"set (filled) and the other data sets (lines), first run. Trained with: {how}.",
    }


def _grid(found: Found, score: str) -> Floats:
    names = list(found)
    values = np.full((len(names), len(names)), np.nan)
    for row, learned in enumerate(names):
        for column, ood in enumerate(names):
            if ood != learned:
                values[row, column] = np.mean([own.auroc(score, ood) for own in found[learned]])
    return values


def _histograms(judged: Judged) -> "tuple[Histogram, Histogram, Histogram]":
    found = judged.diagnosis
    return found.strength, found.other_cosines, found.familiarity


def _cause_lines(found: Found) -> "dict[str, CauseLine]":
    from ..plots.causes import CauseLine

    lines = {}
    for name, runs in found.items():
        paper = {part: TABLE[name][part].value for part in CAUSES} if name in TABLE else {}
        lines[name] = CauseLine({part: [own.cause(part) for own in runs] for part in PANELS}, paper)
    every = list(zip(*found.values()))
    means = {part: [float(np.mean([own.cause(part) for own in run])) for run in every] for part in PANELS}
    known = {part: MEAN[part].value for part in CAUSES} if set(found) == set(TABLE) else {}
    return lines | {"mean": CauseLine(means, known)}
