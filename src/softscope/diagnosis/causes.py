"""Scores, ceilings, resamples and causes of all OOD sets against one test set.

Why softmax entropy misses OOD inputs: the paper's three causes, split further, each with an interval. With B the AUROC
of U_entropy in plain float32, E of its exact rank form, C of U_cool, D of U_density and M the ceiling, a lower bound:
cause 1 = C - B = (E - B) rounding + (C - E) temperature; cause 2 = D - C; cause 3 = 1 - D = (M - D) misfit of the
density, at least, + (1 - M) overlap proper, at most.

Cause 2b, ambiguity, is what is left of cause 2 when the ambiguous test inputs (predicted wrongly, or the true class
given less than half) are left out, taken from what is left when as many are left out at random. An AUROC is a mean over
test inputs, so the latter is D - C itself on average over all such choices: nothing needs to be drawn.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ..arrays import Floats
from ..metrics import Interval, auroc, auroc_difference, average_precision, fpr_at_recall
from .ceiling import CeilingScores, find_ceiling
from .model import Causes, Ceiling, Score
from .resampling import (
    Contest,
    Contests,
    bootstrap_interval,
    complement,
    independent_mean,
    mean_of,
    resampled,
    stretch,
    value_of,
    widened,
)
from .sets import Pair, Scored

#: AUROCs that the causes need beyond those of the estimators.
CLEAR = {"cool": "cool on clear inputs", "density": "density on clear inputs"}
CEILING = "ceiling"
#: Cause or part of one -> the AUROCs it is the difference of.
DIFFERENCES = {
    "saturation": ("cool", "plain-entropy"),
    "rounding": ("entropy", "plain-entropy"),
    "temperature": ("cool", "entropy"),
    "extrapolation": ("density", "cool"),
}


def cause_sizes(entropy: float, cool: float, density: float, whole: float = 1.0) -> dict[str, float]:
    """The paper's three causes from B, C and D: C - B, D - C and `whole` - D; a perfect score has `whole`."""
    return {"saturation": cool - entropy, "extrapolation": density - cool, "overlap": whole - density}


@dataclass(frozen=True)
class MeasuredSets:
    """What was measured of each OOD set, and the rows it was measured on."""

    test: Scored
    pairs: dict[str, Pair]
    ceiling_scores: dict[str, CeilingScores]
    scores: dict[str, dict[str, Score]]
    mean_scores: dict[str, Score]
    causes: dict[str, Causes]
    mean_causes: Causes
    ambiguity_missing: str

    @property
    def ceilings(self) -> dict[str, Ceiling]:
        """By OOD set; where a classifier came out below the best estimator it is raised to it."""
        out = {}
        for name, own in self.ceiling_scores.items():
            best = max(score.auroc.value for score in self.scores[name].values())
            raised = best > own.ceiling.auroc.value
            out[name] = replace(own.ceiling, auroc=self.causes[name].ceiling, raised=raised)
        return out

    @property
    def mistakes(self) -> dict[str, Interval]:
        """AUROC of each estimator at finding wrong test predictions; {} without labels, or where all are right."""
        correct = self.test.seen.correct
        if correct is None or correct.all() or not correct.any():
            return {}
        return {name: auroc(values[correct], values[~correct]) for name, values in self.test.values.items()}


def measure(
    test: Scored, ood: dict[str, Scored], seed: int, bootstraps: int, step: Callable[[str], None]
) -> MeasuredSets:
    """Everything on the same balanced rows and the same resamples; `step` is told what comes next."""
    pairs = {name: Pair.balanced(test, scored, seed) for name, scored in ood.items()}
    ceilings = {}
    for name, pair in pairs.items():
        step(f"ceiling of {name}")
        ceilings[name] = find_ceiling(pair, seed)
    step("resampling")
    missing = why_no_ambiguity(test, pairs.values())
    contests: dict[tuple[str, str], Contests] = {}
    for name, pair in pairs.items():
        own = contests_of(pair, split=not missing) | {CEILING: ceilings[name].contests}
        contests |= {(name, key): contest for key, contest in own.items()}
    draws = resampled(contests, len(test), {name: len(scored) for name, scored in ood.items()}, bootstraps, seed)
    scores = {name: set_scores(pair) for name, pair in pairs.items()}
    means = mean_scores(scores, draws)
    causes = {}
    for name, pair in pairs.items():
        values = {key: value_of(contest) for (of, key), contest in contests.items() if of == name}
        own_draws = {key: drawn for (of, key), drawn in draws.items() if of == name}
        causes[name] = causes_of(pair, scores[name], ceilings[name], values, own_draws)
    return MeasuredSets(test, pairs, ceilings, scores, means, causes, mean_causes(causes, means, draws), missing)


def set_scores(pair: Pair) -> dict[str, Score]:
    """Each estimator on the balanced rows of one OOD set."""
    shown, names = pair.sides("plain-max"), list(pair.test.values)
    out = {}
    for name in names:
        sides = pair.sides(name)
        compared = auroc_difference(*sides, *shown)
        out[name] = Score(
            auroc=auroc(*sides),
            average_precision=average_precision(*sides),
            false_alarms_at_95_caught=fpr_at_recall(*sides, positive="unfamiliar"),
            missed_at_95_accepted=fpr_at_recall(*sides, positive="familiar"),
            gain=compared.difference,
            p_value=compared.p_value,
            gain_of_all=auroc_difference(*sides, *shown, comparisons=max(1, len(names) - 1)).difference,
        )
    return out


def mean_scores(by_set: Mapping[str, Mapping[str, Score]], draws: Mapping[tuple[str, str], Floats]) -> dict[str, Score]:
    """Averages over the OOD sets. They share the test inputs, so that the AUROCs' intervals are the bootstrap's.

    Those of average precision and of the rates hold for whatever correlation between the sets.
    """
    names = next(iter(by_set.values()))
    averaged = {name: np.mean([draws[ood, name] for ood in by_set], axis=0) for name in names}
    return {name: _mean_score([scores[name] for scores in by_set.values()], averaged, name) for name in names}


def _mean_score(by_set: Sequence[Score], draws: Mapping[str, Floats], name: str) -> Score:
    if len(by_set) == 1:
        return by_set[0]
    value, gain = (float(np.mean([getattr(score, what).value for score in by_set])) for what in ("auroc", "gain"))
    spread = draws[name] - draws["plain-max"]
    error = float(np.nanstd(spread))
    own = bootstrap_interval(gain, spread)
    stretched = stretch(own, NormalDist().inv_cdf(1 - 0.025 / max(1, len(draws) - 1)) / NormalDist().inv_cdf(0.975))
    return Score(
        auroc=widened(bootstrap_interval(value, draws[name]), independent_mean([score.auroc for score in by_set])),
        average_precision=mean_of(score.average_precision for score in by_set),
        false_alarms_at_95_caught=mean_of(score.false_alarms_at_95_caught for score in by_set),
        missed_at_95_accepted=mean_of(score.missed_at_95_accepted for score in by_set),
        gain=widened(own, independent_mean([score.gain for score in by_set]), least=-1.0),
        p_value=math.erfc(abs(gain) / error / math.sqrt(2)) if error > 0 else float(gain == 0),
        gain_of_all=widened(stretched, independent_mean([score.gain_of_all for score in by_set]), least=-1.0),
    )


def why_no_ambiguity(test: Scored, pairs: Iterable[Pair]) -> str:
    """Why causes 2a and 2b can't be told apart, "" where they can."""
    unclear = test.seen.ambiguous
    if unclear is None:
        return "the test features have no labels, so that ambiguous test inputs are not known"
    if any(unclear[pair.low].all() for pair in pairs):
        return "the head gets every test input wrong or gives its true class less than half"
    return ""


def contests_of(pair: Pair, *, split: bool) -> dict[str, Contests]:
    """What is resampled for one OOD set on its balanced rows: each estimator, and C and D on clear inputs."""

    def contest(on: Pair, name: str) -> Contests:
        return (Contest.of(on.test.values[name], on.ood.values[name], on.low, on.high),)

    out = {name: contest(pair, name) for name in pair.test.values}
    if split and pair.clear is not None:
        out |= {CLEAR[name]: contest(pair.clear, name) for name in CLEAR}
    return out


def causes_of(
    pair: Pair,
    scores: Mapping[str, Score],
    ceiling: CeilingScores,
    values: Mapping[str, float],
    draws: Mapping[str, Floats],
) -> Causes:
    """The causes of one OOD set on its balanced rows; `values` and `draws` are its AUROCs and their resamples."""
    sizes = {cause: _difference(pair, plus, minus) for cause, (plus, minus) in DIFFERENCES.items()}
    proper = ambiguity = None
    if CLEAR["cool"] in values and pair.clear is not None:
        # 2a is D - C on clear inputs, 2b the rest of it: a share of test inputs times how these inputs differ.
        proper = _difference(pair.clear, "density", "cool")
        rest = values["density"] - values["cool"] - proper.value
        rest_draws = (draws["density"] - draws["cool"]) - (draws[CLEAR["density"]] - draws[CLEAR["cool"]])
        ambiguity = bootstrap_interval(rest, rest_draws)
    return _causes(scores, sizes, proper, ambiguity, *_reached(pair, scores, ceiling))


def _difference(pair: Pair, plus: str, minus: str) -> Interval:
    return auroc_difference(*pair.sides(plus), *pair.sides(minus)).difference


def _causes(
    scores: Mapping[str, Score],
    sizes: Mapping[str, Interval],
    proper: Interval | None,
    ambiguity: Interval | None,
    reached: Interval,
    misfit: Interval,
) -> Causes:
    """What follows from D and the ceiling joins the other causes; misfit is bounded by all that D lacks."""
    density = scores["density"].auroc
    return Causes(
        entropy=scores["plain-entropy"].auroc,
        cool=scores["cool"].auroc,
        density=density,
        **sizes,
        extrapolation_proper=proper,
        ambiguity=ambiguity,
        overlap=complement(density),
        misfit=Interval(misfit.value, max(0.0, misfit.low), max(misfit.value, 1.0 - density.low)),
        overlap_proper=complement(reached),
        ceiling=reached,
    )


def _reached(pair: Pair, scores: Mapping[str, Score], ceiling: CeilingScores) -> tuple[Interval, Interval]:
    """The ceiling, never below the best estimator, and by how much it exceeds U_density."""
    best = max(scores, key=lambda name: scores[name].auroc.value)
    own = ceiling.ceiling.auroc
    value = max(own.value, scores[best].auroc.value)
    # The best of many is lucky: its lower end is the one that holds for all of them at once.
    of_all = auroc(*pair.sides(best), comparisons=len(scores))
    reached = Interval(value, min(value, max(own.low, of_all.low)), 1.0)
    raised = scores[best].auroc.value > own.value
    top = pair.sides(best) if raised else (ceiling.test[pair.low], ceiling.ood[pair.high])
    difference = auroc_difference(*top, *pair.sides("density"), comparisons=len(scores) if raised else 2).difference
    misfit = max(0.0, value - scores["density"].auroc.value)
    return reached, Interval(misfit, max(0.0, min(misfit, difference.low)), 1.0)


def mean_causes(
    by_set: Mapping[str, Causes], scores: Mapping[str, Score], draws: Mapping[tuple[str, str], Floats]
) -> Causes:
    """The mean over the OOD sets, which share the test inputs: intervals of the bootstrap, and never narrower than
    independent sets would have."""
    each = list(by_set.values())
    if len(each) == 1:
        return each[0]

    def mean(part: str, drawn: Floats | None = None) -> Interval:
        apart = independent_mean([getattr(causes, part) for causes in each])
        together = apart if drawn is None else bootstrap_interval(apart.value, drawn)
        return widened(together, apart, least=-1.0)

    def drawn(key: str) -> Floats:
        whole: Floats = np.mean([draws[name, key] for name in by_set], axis=0)
        return whole

    sizes = {cause: mean(cause, drawn(plus) - drawn(minus)) for cause, (plus, minus) in DIFFERENCES.items()}
    proper = ambiguity = None
    if all(causes.ambiguity is not None for causes in each):
        clear = drawn(CLEAR["density"]) - drawn(CLEAR["cool"])
        proper = mean("extrapolation_proper", clear)
        ambiguity = mean("ambiguity", drawn("density") - drawn("cool") - clear)
    reached = mean("ceiling")
    return _causes(scores, sizes, proper, ambiguity, Interval(reached.value, reached.low, 1.0), mean("misfit"))
