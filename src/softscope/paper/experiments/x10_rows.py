"""The rows of X10: the paper's table beside the fine-tuned networks, then what the other kinds say about overlap."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from .base import Mean, Reported, Row, Statement
from .x09_paper import CAUSES, COLUMNS
from .x09_rows import mean_line, over_runs, value
from .x10_paper import MEAN, TABLE
from .x10_plans import GREY, LAST, SCRATCH, TUNED
from .x10_scores import PAPER, Compared

#: by topic, one network a run
Topics = Mapping[str, Sequence[Compared]]
#: by kind
Found = Mapping[str, Topics]

SMALL = 1.0  # points of AUROC
HIGH = 95.0  # percent
OURS = {**COLUMNS, PAPER: "U_density as the paper's"}

NOTE = (
    f"'Small' and 'largely eliminates' hold where the mean over the data sets is under {SMALL:g} point; 'high' where "
    f"the lowest of the four means is above {HIGH:g} %; 'minor' where under 20 % of any pair's float32 values of U_max "
    "equal another; 'reduces overlap' where cause 3 of the network from scratch is larger by more than two "
    "standard errors over the runs at hand (a single run: by any amount)."
)


def rows(found: Found) -> list[Row]:
    """All of them: statements and the mean line first, then topic by topic, then the other kinds."""
    tuned = found[TUNED]
    out = [*_statements(found), *(_cell("mean", c, mean_line(tuned, c), MEAN, tuned) for c in list(OURS)[1:])]
    for topic, runs in tuned.items():
        out += [_cell(topic, column, over_runs(runs, column), TABLE.get(topic, {}), tuned) for column in OURS]
    for kind in (LAST, GREY, SCRATCH):
        for column in ("accuracy", "plain-entropy", "density", *CAUSES):
            unit = "points" if column in CAUSES else "%"
            out.append(Row(f"{kind}, mean: {OURS[column]}", mean_line(found[kind], column), unit=unit))
    return out


def _cell(name: str, column: str, ours: Mean, paper: Mapping[str, Reported], tuned: Topics) -> Row:
    # The paper's mean is over its five data sets: no others compare with it.
    known = paper.get("density" if column == PAPER else column) if set(tuned) == set(TABLE) else None
    return Row(f"{name}: {OURS[column]}", ours, known, "points" if column in CAUSES else "%")


def _statements(found: Found) -> list[Row]:
    tuned = found[TUNED]
    causes = {cause: mean_line(tuned, cause) for cause in CAUSES}
    lowest = min((mean_line(tuned, score) for score in list(COLUMNS)[1:5]), key=lambda mean: mean.value)
    entropy = _difference(tuned, "plain-entropy", tuned, "plain-max")
    gone = Statement("largely eliminates feature overlap", causes["overlap"].value < SMALL)
    equal = max(chain(*(_equal_shares(own) for runs in tuned.values() for own in runs)))
    lost = _difference(found[SCRATCH], "overlap", tuned, "overlap")
    less = Statement("pre-training reduces overlap", lost.value > 2 * (lost.standard_error or 0.0))
    proper = _difference(found[SCRATCH], "overlap_proper", tuned, "overlap_proper")
    return [
        Row("fine-tuned, mean: cause 3", causes["overlap"], gone, "points"),
        Row("fine-tuned, mean: of cause 3, overlap proper", mean_line_of(tuned, "overlap_proper"), unit="points"),
        Row("fine-tuned, mean: cause 1", causes["saturation"], _small("cause 1", causes["saturation"]), "points"),
        Row("fine-tuned, mean: cause 2", causes["extrapolation"], _small("cause 2", causes["extrapolation"]), "points"),
        Row("fine-tuned, mean: lowest AUROC of the four", lowest, Statement("high for all", lowest.value > HIGH), "%"),
        Row("fine-tuned, mean: U_entropy less U_max", entropy, Statement("preferable", entropy.value > 0), "points", 2),
        Row(
            "largest share of equal float32 values of U_max",
            Mean(100 * equal),
            Statement("saturation is minor", equal < 0.2),
            "%",
        ),
        Row("cause 3, from scratch less fine-tuned", lost, less, "points"),
        Row("overlap proper, from scratch less fine-tuned", proper, unit="points"),
        Row(
            "cause 3, last layer less fine-tuned", _difference(found[LAST], "overlap", tuned, "overlap"), unit="points"
        ),
        Row(
            "cause 3, in grey less in colour",
            _difference(found[GREY], "overlap", found[LAST], "overlap"),
            unit="points",
        ),
    ]


def mean_line_of(topics: Topics, part: str) -> Mean:
    """A part of a cause: in each run the mean over data sets, then over runs."""
    return Mean.over([np.mean([own.cause(part) for own in run]) for run in zip(*topics.values())])


def _difference(more: Topics, first: str, less: Topics, second: str) -> Mean:
    """Mean over data sets of the one less the other, run by run, as far as both have runs."""

    def line(run: tuple[Compared, ...], column: str) -> float:
        return float(np.mean([own.cause(column) if column == "overlap_proper" else value(own, column) for own in run]))

    return Mean.over([line(a, first) - line(b, second) for a, b in zip(zip(*more.values()), zip(*less.values()))])


def _small(name: str, mean: Mean) -> Statement:
    return Statement(f"{name} is small", mean.value < SMALL)


def _equal_shares(own: Compared) -> list[float]:
    return [float(claims["T24"]["equal_share"]) for claims in own.numbers["claims"].values()]
