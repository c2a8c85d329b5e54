"""What to do, in plain words derived from the figures and with them.

The verdict is on the confidence that networks print (U_max in float32), at the threshold that accepts 95 % of test
inputs: "trust" where it lets through at most 10 % of an OOD set, "do not trust" where more than half, "caution" in
between, "undecided" where the 95 % interval of that share crosses a border. The worst OOD set decides for all.

Another estimator is recommended only if its AUROC, averaged over the OOD sets, gains at least half a point, with an
interval above 0 after Bonferroni's correction for the number of estimators compared. Among those within half a point of
the best, one that needs no training features is preferred.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

from ..metrics import Interval
from .model import Advice, Causes, EstimatorLabel, Score, Sentence, SetSummary, Verdict

TRUSTED, DISTRUSTED = 0.10, 0.50
WORTHWHILE = 0.005
_LEVELS: tuple[Verdict, ...] = ("trust", "caution", "do not trust")
_SHOWN = "plain-max"


@dataclass(frozen=True)
class Facts:
    """What the advice is derived from."""

    labels: Mapping[str, EstimatorLabel]
    test: SetSummary
    ood: Mapping[str, SetSummary]
    scores: Mapping[str, Mapping[str, Score]]
    mean_scores: Mapping[str, Score]
    causes: Mapping[str, Causes]
    mean_causes: Causes
    mistakes: Mapping[str, Interval]


def advise(facts: Facts) -> Advice:
    """Verdict, headline, recommendation and sentences."""
    missed = {name: scores[_SHOWN].missed_at_95_accepted for name, scores in facts.scores.items()}
    verdict = _joint([_levels(found) for found in missed.values()])
    recommended = recommend(facts)
    return Advice(
        verdict=verdict,
        headline=_headline(verdict, missed),
        verdicts={name: _joint([_levels(found)]) for name, found in missed.items()},
        recommended=recommended,
        sentences=(
            *_on_confidence(facts),
            *_on_estimator(facts, recommended),
            *_on_causes(facts),
            *_on_help(facts),
            *_on_mistakes(facts, recommended),
            *_on_samples(facts, missed),
        ),
    )


def recommend(facts: Facts) -> str | None:
    """The estimator to use instead of the confidence, None where none is better beyond chance."""
    better = {
        name: score
        for name, score in facts.mean_scores.items()
        if name not in (_SHOWN, "plain-entropy")
        and score.gain.value >= WORTHWHILE
        and corrected(score.gain, _compared(facts)).low > 0
    }
    if not better:
        return None
    best = max(score.auroc.value for score in better.values())
    close = [name for name, score in better.items() if score.auroc.value >= best - WORTHWHILE]
    return min(close, key=lambda name: ("train" in facts.labels[name].needs, -better[name].auroc.value))


def corrected(gain: Interval, compared: int) -> Interval:
    """`gain` with its interval widened from 95 % for one comparison to 95 % for `compared` at once (Bonferroni)."""
    stretch = NormalDist().inv_cdf(1 - 0.025 / compared) / NormalDist().inv_cdf(0.975)
    below, above = stretch * (gain.value - gain.low), stretch * (gain.high - gain.value)
    return Interval(gain.value, max(-1.0, gain.value - below), min(1.0, gain.value + above))


def rows_to_settle(missed: Interval, rows: int) -> int | None:
    """How many rows of each side would bring the interval clear of the border it crosses; None for beyond a million.

    The width of an interval falls with the root of the number of rows.
    """
    borders = [border for border in (TRUSTED, DISTRUSTED) if missed.low < border < missed.high]
    if not borders:
        return rows
    needed = 0.0
    for border in borders:
        distance = abs(missed.value - border)
        half = (missed.high - missed.value) if border > missed.value else (missed.value - missed.low)
        needed = max(needed, math.inf if distance == 0 else rows * (half / distance) ** 2)
    return None if needed > 1e6 else _round_up(needed)


def _levels(missed: Interval) -> tuple[int, int]:
    """The best and the worst verdict that the interval allows, as places in _LEVELS."""
    best, worst = (sum(share > border for border in (TRUSTED, DISTRUSTED)) for share in (missed.low, missed.high))
    return best, worst


def _joint(levels: list[tuple[int, int]]) -> Verdict:
    best, worst = (max(found) for found in zip(*levels))
    return _LEVELS[worst] if best == worst else "undecided"


def _headline(verdict: Verdict, missed: Mapping[str, Interval]) -> str:
    name = max(missed, key=lambda one: missed[one].value)
    worst = f"the worst of {len(missed)} OOD sets" if len(missed) > 1 else "the OOD set"
    shares = f"{_percent(missed[name])} of {name}, {worst}, where 95 % of test inputs are accepted"
    opening = {
        "trust": "Softmax confidence can be trusted here: it lets through only",
        "caution": "Use softmax confidence with caution here: it lets through",
        "do not trust": "Do not trust softmax confidence here: it lets through",
        "undecided": "Too few inputs to say whether softmax confidence can be trusted here: it lets through",
    }
    return f"{opening[verdict]} {shares}."


def _on_confidence(facts: Facts) -> Iterator[Sentence]:
    for name, scores in facts.scores.items():
        found = scores[_SHOWN]
        yield Sentence(
            "confidence",
            f"{name}: confidence ranks an OOD input below a test input in {_percent(found.auroc)} of pairs (AUROC); "
            f"where 95 % of test inputs are accepted, {_percent(found.missed_at_95_accepted)} of {name} are too.",
            name,
        )
    accuracy, mean = facts.test.accuracy, facts.test.mean_confidence
    if accuracy is not None and not accuracy.contains(mean) and abs(mean - accuracy.value) > 0.01:
        direction = "more" if mean > accuracy.value else "less"
        yield Sentence(
            "confidence",
            f"On test inputs the mean confidence is {mean:.1%} and the accuracy {_percent(accuracy)}: the network is "
            f"{direction} sure than it should be. Calibrate it (temperature scaling on held-out inputs) before its "
            "confidence is read as a probability.",
        )


def _on_estimator(facts: Facts, recommended: str | None) -> Iterator[Sentence]:
    compared = _compared(facts)
    if recommended is None:
        yield Sentence(
            "estimator",
            f"None of {compared} other scores is better than confidence by half a point of AUROC or more, beyond what "
            "the best of so many gains by chance. Keep confidence.",
        )
        return
    score, label = facts.mean_scores[recommended], facts.labels[recommended]
    needs = "It needs the training features." if "train" in label.needs else "It needs nothing but the logits or head."
    over = f"averaged over {len(facts.scores)} OOD sets" if len(facts.scores) > 1 else f"on {next(iter(facts.scores))}"
    yield Sentence(
        "estimator",
        f"Use {label.symbol} ({recommended}) instead: AUROC {_percent(score.auroc)} {over}, "
        f"{_points(corrected(score.gain, compared))} more than confidence (interval corrected for {compared} "
        f"comparisons). {needs}",
    )
    for name, scores in facts.scores.items():
        if len(facts.scores) > 1 and scores[recommended].gain.high < 0:
            loss = scores[recommended].gain
            text = f"On {name} alone {label.symbol} is worse than confidence: {_points(loss)}."
            yield Sentence("estimator", text, name)


def _on_causes(facts: Facts) -> Iterator[Sentence]:
    words = {
        "saturation": "softmax saturates (cause 1)",
        "extrapolation": "softmax extrapolates, or takes OOD for ambiguous inputs (cause 2)",
        "misfit": "the density does not fit (cause 3, misfit), though the features tell OOD from test",
        "overlap_proper": "OOD features lie among those of test (cause 3, overlap proper)",
    }
    for name, causes in facts.causes.items():
        parts: dict[str, Interval] = {part: getattr(causes, part) for part in words}
        largest = max(parts, key=lambda part: parts[part].value)
        if 1.0 - causes.entropy.value < WORTHWHILE:
            yield Sentence("cause", f"{name}: nothing to explain, entropy reaches {_percent(causes.entropy)}.", name)
            continue
        listed = ", ".join(f"{part.replace('_', ' ')} {_points(found)}" for part, found in parts.items())
        yield Sentence(
            "cause",
            f"{name}: entropy reaches {_percent(causes.entropy)}. What it lacks is mostly that {words[largest]}. "
            f"In points of AUROC: {listed}.",
            name,
        )
        if causes.extrapolation.high < 0:
            yield Sentence(
                "cause",
                f"{name}: U_density is {_points(_negative(causes.extrapolation))} worse than U_cool, so it is no good "
                "measure of what softmax loses by extrapolation: read cause 2 and misfit together.",
                name,
            )


def _on_help(facts: Facts) -> Iterator[Sentence]:
    causes = facts.mean_causes
    remedies = {
        "rounding": "are lost because float32 prints the same confidence for many inputs. Rank by logits or by the "
        "exact forms here; it costs nothing.",
        "temperature": "are lost to softmax at temperature 1. Divide the logits by a temperature (U_cool).",
        "extrapolation_proper": "are lost because softmax is confident where no training input lies. A density on the "
        "features (U_density) or a distance to them brings it back.",
        "ambiguity": "are lost because OOD inputs and ambiguous test inputs look equally unsure. A density keeps the "
        "two apart.",
        "overlap_proper": "are out of reach on this layer, whatever the score. Better features would help: "
        "pre-training, more varied training data, or another layer.",
    }
    for name, remedy in remedies.items():
        found: Interval | None = getattr(causes, name)
        if found is not None and found.value >= WORTHWHILE and found.low > 0:
            yield Sentence("help", f"{_points(found)} of AUROC {remedy}")
    best = max(facts.mean_scores, key=lambda name: facts.mean_scores[name].auroc.value)
    reached = facts.mean_scores[best].auroc
    if causes.ceiling.low - reached.high > WORTHWHILE:
        yield Sentence(
            "help",
            f"The features would allow more: a classifier that learned from such OOD inputs reaches "
            f"{_percent(causes.ceiling)} (the ceiling), the best score here, {facts.labels[best].symbol}, "
            f"{_percent(reached)}. Tune the density (components, log features, ridge), or learn from OOD examples.",
        )


def _on_mistakes(facts: Facts, recommended: str | None) -> Iterator[Sentence]:
    if recommended is None or recommended not in facts.mistakes:
        return
    ours, theirs = facts.mistakes[recommended], facts.mistakes[_SHOWN]
    if theirs.low > ours.high:
        yield Sentence(
            "mistakes",
            f"To find wrong predictions on known classes keep confidence: AUROC {_percent(theirs)} against "
            f"{_percent(ours)} of {facts.labels[recommended].symbol}. The two answer different questions.",
        )


def _on_samples(facts: Facts, missed: Mapping[str, Interval]) -> Iterator[Sentence]:
    for name, found in missed.items():
        best, worst = _levels(found)
        if best == worst:
            continue
        rows = rows_to_settle(found, min(facts.test.rows, facts.ood[name].rows))
        border = (
            "at the border" if rows is None else f"about {rows:,} test inputs and as many of {name} would settle it"
        )
        yield Sentence(
            "samples",
            f"{name}: between '{_LEVELS[best]}' and '{_LEVELS[worst]}' with the inputs given; {border}.",
            name,
        )


def _compared(facts: Facts) -> int:
    return len(facts.mean_scores) - 1


def _negative(found: Interval) -> Interval:
    return Interval(-found.value, -found.high, -found.low)


def _percent(found: Interval) -> str:
    return f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"


def _points(found: Interval) -> str:
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}] points"


def _round_up(rows: float) -> int:
    """To two significant digits, upwards."""
    step = 10 ** max(0, math.floor(math.log10(max(1.0, rows))) - 1)
    return int(step * math.ceil(rows / step))
