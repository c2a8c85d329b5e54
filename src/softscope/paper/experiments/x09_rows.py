"""The rows of X9: every cell of the paper's table, its mean line, and what the paper says about them in words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .base import Mean, Reported, Row, Statement
from .five_scores import Judged
from .x09_paper import CAUSES, COLUMNS, MEAN, OVERLAP_OUTWEIGHS, PAIRS, TABLE

#: by data set, one network a run
Found = Mapping[str, Sequence[Judged]]

MINOR = 0.05  # points of AUROC that the paper's table, with one decimal, does not show

NOTE = (
    "'Outweighs' and 'beats' hold where the difference exceeds two of its standard errors over runs (a single run: "
    f"0); 'consistently' where U_entropy is higher on the mean and on no data set lower by more than {MINOR:g}; "
    f"saturation is 'avoided' where rounding to float32 costs U_entropy under {MINOR:g} points of AUROC on every pair, "
    "and 'absent' where under 1 % of float32 scores are equal: many can be, all of familiar inputs, and cost nothing."
)


def value(judged: Judged, column: str) -> float:
    """One column of the table for one network."""
    if column == "accuracy":
        return judged.accuracy
    return judged.cause(column) if column in CAUSES else judged.auroc(column)


def over_runs(runs: Sequence[Judged], column: str) -> Mean:
    """A cell of the table."""
    return Mean.over([value(own, column) for own in runs])


def mean_line(found: Found, column: str) -> Mean:
    """The cell of the mean line: in each run the mean over data sets, then over runs."""
    return Mean.over([np.mean([value(own, column) for own in run]) for run in zip(*found.values())])


def rows(found: Found) -> list[Row]:
    """All of them, the mean line and what decides the paper's statements first."""
    out = [_cell("mean", column, mean_line(found, column), MEAN.get(column), found) for column in list(COLUMNS)[1:]]
    out += [*_statements(found), *_beyond(found)]
    for name, runs in found.items():
        out += [
            _cell(name, column, over_runs(runs, column), TABLE.get(name, {}).get(column), found) for column in COLUMNS
        ]
    for (learned, ood), (paper, tolerance) in PAIRS.items():
        if learned in found and ood in {other.name for other in found[learned][0].network.plan.ood}:
            ours = Mean.over([own.auroc("plain-max", ood) for own in found[learned]])
            out.append(Row(f"{learned} against {ood}: U_max", ours, paper, "%", tolerance=tolerance))
    return out


def _cell(name: str, column: str, ours: Mean, paper: Reported | None, found: Found) -> Row:
    # The paper's mean is over its five data sets: no others compare with it.
    known = paper if name != "mean" or set(found) == set(TABLE) else None
    return Row(f"{name}: {COLUMNS[column]}", ours, known, "points" if column in CAUSES else "%")


def _statements(found: Found) -> list[Row]:
    overlap = _difference(found, "overlap", "extrapolation")
    more = _difference(found, "overlap", "extrapolation", "saturation")
    density = _difference(found, "density", "plain-entropy")
    entropy = _difference(found, "plain-entropy", "plain-max")
    outweighs = _sets_where(found, "overlap", "extrapolation")
    beats = _sets_where(found, "density", "plain-entropy")
    lowest = min(over_runs(runs, "plain-entropy").value - over_runs(runs, "plain-max").value for runs in found.values())
    every_run = [own for runs in found.values() for own in runs]
    equal = 100 * max(c["T24"]["equal_share"] for own in every_run for c in own.numbers["claims"].values())
    lost = 100 * max(c.rounding.value for own in every_run for c in own.diagnosis.causes.values())
    five = set(found) == set(TABLE)
    paper_sets = Reported(OVERLAP_OUTWEIGHS) if five else None
    together = Reported(MEAN["saturation"].value + MEAN["extrapolation"].value) if five else None
    every = f"of {len(found)} data sets"
    said = {
        "outweighs": Statement("overlap outweighs extrapolation", _clear(overlap)),
        "beats": Statement("density beats softmax", _clear(density)),
        "each": Statement("density beats softmax on each", beats == len(found)),
        "entropy": Statement("U_entropy is consistently preferable", entropy.value > 0 and lowest >= -MINOR),
        "saturation": Statement("saturation is avoided", lost < MINOR),
        "equal": Statement("saturation is absent", equal < 1),
    }
    return [
        Row("mean: cause 3 less cause 2", overlap, said["outweighs"], "points"),
        Row("data sets whose cause 3 exceeds cause 2", Mean(outweighs), paper_sets, every, 0),
        Row("mean: cause 3 less causes 1 and 2", more, replace(said["outweighs"], holds=_clear(more)), "points"),
        Row("mean: causes 1 and 2 together (D - B)", density, together, "points"),
        Row("mean: U_density less U_entropy", density, said["beats"], "points"),
        Row("data sets where U_density exceeds U_entropy", Mean(beats), said["each"], every, 0),
        Row("mean: U_entropy less U_max", entropy, said["entropy"], "points", 2),
        Row("largest loss to rounding to float32, of all pairs", Mean(lost), said["saturation"], "points", 2),
        Row("largest share of equal float32 values of U_max, of all pairs", Mean(equal), said["equal"], "%"),
    ]


def _beyond(found: Found) -> list[Row]:
    """What the paper does not split."""
    names = {
        "ceiling": "estimated ceiling of any score on this layer",
        "misfit": "of cause 3, misfit of the density (ceiling less D)",
        "overlap_proper": "of cause 3, overlap proper (100 less ceiling)",
        "extrapolation_proper": "of cause 2, 2a extrapolation",
        "ambiguity": "of cause 2, 2b ambiguity",
    }
    out = []
    for part, words in names.items():
        runs = [np.mean([own.cause(part) for own in run]) for run in zip(*found.values())]
        if np.isfinite(runs).all():
            out.append(Row(f"mean: {words}", Mean.over(runs), unit="%" if part == "ceiling" else "points"))
    return out


def _difference(found: Found, more: str, *less: str) -> Mean:
    """On the mean line, run by run."""
    runs = zip(*found.values())
    return Mean.over([np.mean([value(own, more) - sum(value(own, c) for c in less) for own in run]) for run in runs])


def _sets_where(found: Found, more: str, less: str) -> int:
    return sum(over_runs(runs, more).value > over_runs(runs, less).value for runs in found.values())


def _clear(difference: Mean) -> bool:
    return difference.value > 2 * (difference.standard_error or 0.0)
