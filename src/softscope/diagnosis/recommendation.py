"""Which score to use instead of confidence, judged on OOD sets that it was not chosen on.

A score that is best on the OOD sets at hand may be worst on the next. So a choice is made on all sets but one and
judged on that one, for each set in turn; it is made by mean and worst AUROC alike; and where there are fewer than
MANY_SETS sets, or a choice so made does not carry over, the evidence is thin and the default of `softscope.estimators`
stands in for it (where it was not scored, the best by mean and worst).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from ..estimators import DEFAULT
from .model import Choice, Score

#: OOD sets from which on a choice is made on them; fewer say too little about others.
MANY_SETS = 3
#: AUROC that is worth the change.
WORTHWHILE = 0.005
_CONFIDENCE = "plain-max"

Scores = Mapping[str, Mapping[str, Score]]


@dataclass(frozen=True)
class Recommendation:
    """The estimator to use, None to keep confidence; `basis` says on what grounds; what each choice did elsewhere."""

    estimator: str | None
    basis: str  # "chosen", "default", "keep"
    choices: tuple[Choice, ...]


def recommend(
    scores: Scores, mean_scores: Mapping[str, Score], needs_train: Mapping[str, bool], *, stand_ins: bool = False
) -> Recommendation:
    """What to use, from the scores by OOD set; `needs_train` says which estimators need training features.

    On `stand_ins` for OOD data nothing is chosen.
    """
    choices = judged_choices(scores, needs_train)
    if len(scores) >= MANY_SETS and not stand_ins:
        best = choose(scores, list(scores), needs_train)
        carried = mean(choice.gain for choice in choices)
        if best is not None and mean_scores[best].gain_of_all.low > 0 and carried > 0 and not _harmful(scores, best):
            return Recommendation(best, "chosen", choices)
    default = DEFAULT if DEFAULT in mean_scores else choose(scores, list(scores), needs_train)
    if default is None or _harmful(scores, default) or _misses_more(scores, list(scores), default):
        return Recommendation(None, "keep", choices)
    gain = mean_scores[default]
    better = gain.gain.value >= WORTHWHILE and gain.gain_of_all.low > 0
    return Recommendation(default if better else None, "default" if better else "keep", choices)


def choose(scores: Scores, sets: Sequence[str], needs_train: Mapping[str, bool]) -> str | None:
    """The estimator with the largest mean of mean and worst AUROC over `sets`, None where confidence has it.

    Only of those that miss no more than confidence does where 95 % of test is accepted, the threshold that is used.
    Among those within WORTHWHILE of the best, one that needs no training features is preferred.
    """
    merits = {
        name: (mean(scores[one][name].auroc.value for one in sets) + min(scores[one][name].auroc.value for one in sets))
        / 2
        for name in scores[sets[0]]
        if name != "plain-entropy" and not _misses_more(scores, sets, name)
    }
    best = max(merits.values())
    close = [name for name, merit in merits.items() if merit >= best - WORTHWHILE]
    chosen = min(close, key=lambda name: (name != _CONFIDENCE, needs_train.get(name, False), -merits[name]))
    return None if chosen == _CONFIDENCE else chosen


def judged_choices(scores: Scores, needs_train: Mapping[str, bool]) -> tuple[Choice, ...]:
    """For each OOD set the choice made on all others (of a single set: on itself), and what it does to that set."""
    out = []
    for name in scores:
        others = [one for one in scores if one != name] or [name]
        chosen = choose(scores, others, needs_train) or _CONFIDENCE
        score, today = scores[name][chosen], scores[name][_CONFIDENCE]
        out.append(
            Choice(
                judged_on=name,
                chosen_on=tuple(others),
                estimator=chosen,
                auroc=score.auroc,
                missed=score.missed_at_95_accepted,
                missed_by_confidence=today.missed_at_95_accepted,
                gain=score.auroc.value - today.auroc.value,
            )
        )
    return tuple(out)


def _misses_more(scores: Scores, sets: Sequence[str], name: str) -> bool:
    """Whether the estimator misses more of `sets` than confidence, on average and by more than WORTHWHILE."""
    ours, today = (mean(scores[one][key].missed_at_95_accepted.value for one in sets) for key in (name, _CONFIDENCE))
    return ours > today + WORTHWHILE


def _harmful(scores: Scores, name: str) -> bool:
    """Whether the estimator is worse than confidence on some set, beyond chance and by more than WORTHWHILE."""
    return any(of[name].gain.high < 0 and of[name].gain.value < -WORTHWHILE for of in scores.values())
