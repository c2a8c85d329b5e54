"""X9's pictures: grids of AUROC, causes, histograms of norm(z) and cosines, the course of training."""

from typing import TYPE_CHECKING

from . import table
from .judgement import Judged
from .table import Lines
from .x09_plans import NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def trained_how(own: Judged) -> str:
    """'8 epochs, 20,000 images'."""
    epochs = own.plan.training.epochs
    return f"{epochs} epoch{'s' * (epochs > 1)}, {own.facts['images']:,} images"


def courses_of(lines: Lines) -> dict[str, list[dict[str, float]]]:
    """The course of training by data set, where the snapshots of a run were measured."""
    return {name: own.course for name, runs in lines.items() for own in runs if own.course}


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

    paper = table.paper_lines("X9")
    first = {f"{name} ({trained_how(runs[0])})": runs[0].diagnosis for name, runs in lines.items()}
    drawn = {name: table.cause_line({name: runs}, list(_PANELS), paper.get(name, {})) for name, runs in lines.items()}
    known = paper["mean"] if set(lines) == set(NAMES) else {}
    drawn["mean"] = table.cause_line(lines, list(_PANELS), known)
    courses = courses_of(lines)
    return {
        "grids": auroc_grids(list(lines), {title: table.grid(lines, score) for score, title in _GRIDS.items()}),
        "causes": causes_beside(_PANELS, drawn),
        "histograms": familiarity_by_set(
            {title: (own.strength, own.other_cosines, own.familiarity) for title, own in first.items()}
        ),
        **({"course": training_course(courses)} if courses else {}),
    }


def captions(lines: Lines) -> dict[str, str]:
    """What each picture shows, and of which networks."""
    how = "; ".join(f"{name} {trained_how(runs[0])}" for name, runs in lines.items())
    counts = sorted({len(runs) for runs in lines.values()})
    mean = "a single run" if counts == [1] else f"mean over {' or '.join(map(str, counts))} runs"
    return {
        "grids": f"AUROC of a network trained on each data set (rows) against every other (columns), balanced pairs, "
        f"{mean}. Trained with: {how}.",
        "causes": "Points of AUROC lost to each cause, mean over the OOD sets. The last panel is what is left of cause "
        f"3 when the misfit of the density is taken off: 100 less the ceiling. Ours: {mean}, {how}; the paper's: 100 "
        "epochs on all images.",
        "histograms": "norm(z), the cosines to the weights other than the largest, and the largest, for each training "
        f"set (filled) and the other data sets (lines), first run. Trained with: {how}.",
        **(
            {
                "course": "The course of training, first run, measured on part of the images; weights are those of the "
                "moment, not averaged."
            }
            if courses_of(lines)
            else {}
        ),
    }
