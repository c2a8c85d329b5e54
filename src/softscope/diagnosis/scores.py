"""Every estimator on every set, and how well each tells OOD from test inputs, on balanced rows as in the paper (X9)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ..arrays import Floats
from ..estimators import DEFAULT, Estimator, estimator
from ..metrics import auroc, auroc_difference, average_precision, fpr_at_recall
from .model import EstimatorLabel, Score
from .resampling import Rows, bootstrap_interval, independent_mean, mean_of, stretch, widened
from .sets import PRINTED, Observed

#: The four that the causes are defined by, always scored.
REQUIRED = ("max", "entropy", "cool", "density")
#: What is scored unless others are asked for; the default of a guard is among them.
COMPARED = (
    *REQUIRED, "mental", "norm", "familiarity", "margin", "max-logit", "energy",
    "mahalanobis", DEFAULT, "relative-mahalanobis", "knn", "vim", "gen",
)  # fmt: skip


@dataclass(frozen=True)
class Scored:
    """One set, and every estimator's score of each of its rows; `against`: the test rows it compares with, else all."""

    seen: Observed
    values: dict[str, Floats]
    against: Rows | None = None

    def __len__(self) -> int:
        return len(self.seen)


def chosen_estimators(wanted: Sequence[str | Estimator], features: int) -> dict[str, Estimator]:
    """Unfitted estimators by name, the required ones first; of several of one name the last in `wanted` is taken.

    The default reads directions: of a single feature there is none to read, and it is left out.
    """
    made = [estimator(item) if isinstance(item, str) else item.clone() for item in (*REQUIRED, *wanted)]
    return {item.info.name: item for item in made if features > 1 or item.info.name != DEFAULT}


def labels_of(estimators: Mapping[str, Estimator]) -> dict[str, EstimatorLabel]:
    """What the report says of each, the printed ones first."""
    infos = {name: item.info for name, item in estimators.items()}
    printed = {name: replace(infos[of], symbol=f"{infos[of].symbol} in float32") for name, of in PRINTED.items()}
    return {
        name: EstimatorLabel(info.symbol, info.formula, info.needs, info.source)
        for name, info in {**printed, **infos}.items()
    }


def score_set(seen: Observed, estimators: Mapping[str, Estimator]) -> Scored:
    """Scores of all fitted `estimators` and of the printed ones: what the pass left, the others chunk by chunk."""
    values = {name: seen.values[name] for name in PRINTED}
    for name, item in estimators.items():
        values[name] = seen.values[name] if name in seen.values else item.uncertainty(seen.features)
    return Scored(seen, values)


def set_scores(test: Scored, ood: Scored, low: Rows, high: Rows) -> dict[str, Score]:
    """Each estimator on the balanced rows `low` of test and `high` of one OOD set."""
    shown = test.values["plain-max"][low], ood.values["plain-max"][high]
    out = {}
    for name, values in test.values.items():
        sides = values[low], ood.values[name][high]
        compared = auroc_difference(*sides, *shown)
        of_all = auroc_difference(*sides, *shown, comparisons=max(1, len(test.values) - 1))
        out[name] = Score(
            auroc=auroc(*sides),
            average_precision=average_precision(*sides),
            false_alarms_at_95_caught=fpr_at_recall(*sides, positive="unfamiliar"),
            missed_at_95_accepted=fpr_at_recall(*sides, positive="familiar"),
            gain=compared.difference,
            p_value=compared.p_value,
            gain_of_all=of_all.difference,
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
