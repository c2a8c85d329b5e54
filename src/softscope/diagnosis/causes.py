"""Why softmax entropy misses OOD inputs: the paper's three causes, split further, each with an interval.

With B the AUROC of U_entropy in plain float32, E of its exact rank form, C of U_cool, D of U_density and M the ceiling:
cause 1 = C - B = (E - B) rounding + (C - E) temperature; cause 2 = D - C; cause 3 = 1 - D = (M - D) misfit of the
density + (1 - M) overlap proper.

Cause 2b, ambiguity, is what is left of cause 2 when the ambiguous test inputs (predicted wrongly, or the true class
given less than half) are left out, taken from what is left when as many are left out at random. An AUROC is a mean over
test inputs, so the latter is D - C itself on average over all such choices: nothing needs to be drawn.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..metrics import Interval
from .model import Causes, Score
from .resampling import Contest, Contests, Rows, bootstrap_interval, complement, widened
from .scores import Scored

#: AUROCs that the causes need beyond those of the estimators.
CLEAR = {"cool": "cool on clear inputs", "density": "density on clear inputs"}
CEILING = "ceiling"


def cause_sizes(entropy: float, cool: float, density: float, whole: float = 1.0) -> dict[str, float]:
    """The paper's three causes from B, C and D: C - B, D - C and `whole` - D; a perfect score has `whole`."""
    return {"saturation": cool - entropy, "extrapolation": density - cool, "overlap": whole - density}


def ambiguous(test: Scored) -> NDArray[np.bool_] | None:
    """Test inputs that the head gets wrong or whose true class it gives less than half; None without labels."""
    correct, probability = test.seen.correct, test.seen.true_probability
    return None if correct is None or probability is None else ~correct | (probability < 0.5)


def why_no_ambiguity(test: Scored, low: Mapping[str, Rows]) -> str:
    """Why causes 2a and 2b can't be told apart, "" where they can."""
    unclear = ambiguous(test)
    if unclear is None:
        return "the test features have no labels, so that ambiguous test inputs are not known"
    if any(unclear[rows].all() for rows in low.values()):
        return "the head gets every test input wrong or gives its true class less than half"
    return ""


def contests_of(test: Scored, ood: Scored, low: Rows, high: Rows, *, split: bool) -> dict[str, Contests]:
    """What is resampled for one OOD set on its balanced rows: each estimator, and C and D on clear inputs."""
    out: dict[str, Contests] = {
        name: (Contest.of(values, ood.values[name], low, high),) for name, values in test.values.items()
    }
    unclear = ambiguous(test)
    if split and unclear is not None:
        clear = low[~unclear[low]]
        out |= {CLEAR[name]: (Contest.of(test.values[name], ood.values[name], clear, high),) for name in CLEAR}
    return out


def raise_ceilings(values: dict[tuple[str, str], float], draws: dict[tuple[str, str], Floats]) -> None:
    """Where the ceiling of an OOD set comes out below D, which any score may equal, D takes its place."""
    for name, key in values:
        if key == CEILING:
            values[name, CEILING] = max(values[name, CEILING], values[name, "density"])
            draws[name, CEILING] = np.maximum(draws[name, CEILING], draws[name, "density"])


def causes_of(
    values: Mapping[str, float], draws: Mapping[str, Floats], scores: Mapping[str, Score], ceiling: Interval
) -> Causes:
    """The causes of one OOD set, or of their mean, from AUROCs and their resamples with ceilings raised.

    `ceiling` is the ceiling's own interval, for where no resample differs.
    """

    def difference(plus: str, minus: str) -> Interval:
        return bootstrap_interval(values[plus] - values[minus], draws[plus] - draws[minus])

    cause2 = difference("density", "cool")
    proper, ambiguity = _split_extrapolation(values, draws)
    highest = widened(bootstrap_interval(values[CEILING], draws[CEILING]), ceiling)
    density = widened(bootstrap_interval(values["density"], draws["density"]), scores["density"].auroc)
    return Causes(
        entropy=scores["plain-entropy"].auroc,
        cool=scores["cool"].auroc,
        density=scores["density"].auroc,
        saturation=difference("cool", "plain-entropy"),
        rounding=difference("entropy", "plain-entropy"),
        temperature=difference("cool", "entropy"),
        extrapolation=cause2,
        extrapolation_proper=proper,
        ambiguity=ambiguity,
        overlap=complement(density),
        misfit=difference(CEILING, "density"),
        overlap_proper=complement(highest),
        ceiling=highest,
    )


def _split_extrapolation(
    values: Mapping[str, float], draws: Mapping[str, Floats]
) -> tuple[Interval, Interval] | tuple[None, None]:
    if CLEAR["cool"] not in values:
        return None, None
    # 2a is D - C on clear inputs, 2b the rest of it.
    proper = values[CLEAR["density"]] - values[CLEAR["cool"]]
    proper_draws = draws[CLEAR["density"]] - draws[CLEAR["cool"]]
    rest = values["density"] - values["cool"] - proper
    rest_draws = draws["density"] - draws["cool"] - proper_draws
    return bootstrap_interval(proper, proper_draws), bootstrap_interval(rest, rest_draws)
