"""What to do, in plain words derived from the figures and with them.

The verdict is on the confidence that networks print (U_max in float32), at the threshold that accepts 95 % of test
inputs: "trust" where it lets through at most 10 % of an OOD set, "do not trust" where more than half, "caution" in
between, "undecided" where the 95 % interval of that share crosses a border. The worst OOD set decides for all.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..metrics import Interval
from .held_out import HELD_OUT
from .model import Advice, Causes, EstimatorLabel, Finding, Score, Sentence, SetSummary, Verdict
from .recommendation import MANY_SETS, WORTHWHILE, Recommendation, recommend

TRUSTED, DISTRUSTED = 0.10, 0.50
_LEVELS: tuple[Verdict, ...] = ("trust", "caution", "do not trust")
_SHOWN = "plain-max"
#: Words of a finding that refutes advice: features, labels or head are wrong, not the confidence.
_REFUTING = (
    "if classes are renumbered", "guessing for", "the nearest class mean for", "states an accuracy",
    "before the last non-linearity", "as probabilities do", "the largest is the label's: logits",
)  # fmt: skip


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
    findings: tuple[Finding, ...] = ()

    @property
    def refuted(self) -> bool:
        """Whether the self-check found that features, labels and head don't belong together."""
        return any(words in finding.what for finding in self.findings for words in _REFUTING)

    @property
    def stand_ins(self) -> bool:
        """Whether no OOD data was given."""
        return any(one.stand_in for one in self.ood.values())

    @property
    def needs_train(self) -> dict[str, bool]:
        """Which estimators need training features."""
        return {name: "train" in label.needs for name, label in self.labels.items()}


def advise(facts: Facts) -> Advice:
    """Verdict, headline, recommendation and sentences."""
    missed = {name: scores[_SHOWN].missed_at_95_accepted for name, scores in facts.scores.items()}
    verdict = _joint([_levels(share) for share in missed.values()])
    if facts.stand_ins and verdict == "trust":  # stand-ins are easy: they can refute confidence, not confirm it
        verdict = "undecided"
    recommendation = recommend(facts.scores, facts.mean_scores, facts.needs_train, stand_ins=facts.stand_ins)
    return Advice(
        verdict=verdict,
        headline=_headline(verdict, missed, stand_ins=facts.stand_ins),
        verdicts={name: _joint([_levels(share)]) for name, share in missed.items()},
        recommended=recommendation.estimator,
        sentences=(
            *_on_stand_ins(facts),
            *_on_confidence(facts),
            *_on_estimator(facts, recommendation),
            *_on_causes(facts),
            *_on_help(facts),
            *_on_mistakes(facts, recommendation.estimator),
            *_on_samples(facts, missed),
        ),
        basis=recommendation.basis,
        choices=recommendation.choices,
    )


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
    best, worst = (max(places) for places in zip(*levels))
    return _LEVELS[worst] if best == worst else "undecided"


def _headline(verdict: Verdict, missed: Mapping[str, Interval], *, stand_ins: bool) -> str:
    name = max(missed, key=lambda one: missed[one].value)
    kind = "stand-in" if stand_ins else "OOD set"
    worst = f"the worst of {len(missed)} {kind}s" if len(missed) > 1 else f"the {kind}"
    shares = f"{_percent(missed[name])} of {name}, {worst}, where 95 % of test inputs are accepted"
    if stand_ins and verdict == "undecided" and max(_levels(share)[1] for share in missed.values()) == 0:
        return f"Without OOD data nobody can say that softmax confidence can be trusted: it lets through only {shares}."
    opening = {
        "trust": "Softmax confidence can be trusted here: it lets through only",
        "caution": "Use softmax confidence with caution here: it lets through",
        "do not trust": "Do not trust softmax confidence here: it lets through",
        # The interval crosses the upper border alone: that confidence can't simply be trusted is certain.
        "undecided": "At best use softmax confidence with caution here: it lets through"
        if max(_levels(share)[0] for share in missed.values())
        else "Too few inputs to say whether softmax confidence can be trusted here: it lets through",
    }
    return f"{opening[verdict]} {shares}."


def _on_stand_ins(facts: Facts) -> Iterator[Sentence]:
    if not facts.stand_ins:
        return
    held_out = [name for name in facts.ood if name.startswith(HELD_OUT)]
    probes = [name for name in facts.ood if name not in held_out]
    if held_out:
        yield Sentence(
            "stand-ins",
            "Held-out classes are test inputs of a third of the classes, judged by a last layer fitted again without "
            "them. Optimistic: the network has seen them in training; classes that are really new are harder to tell.",
        )
    yield Sentence(
        "stand-ins",
        f"Probes ({', '.join(probes)}) are far from everything: that one is let through is a clear fault, that all "
        "are caught says little."
        if probes
        else "There are no probes (noise, shuffled images, ...): they need the model and its test images.",
    )
    yield Sentence(
        "stand-ins",
        "Neither says what confidence does with the unfamiliar inputs that you will meet: collect a few hundred of "
        "those and give them as OOD data (--ood).",
    )


def _on_confidence(facts: Facts) -> Iterator[Sentence]:
    for name, scores in facts.scores.items():
        score = scores[_SHOWN]
        yield Sentence(
            "confidence",
            f"{name}: confidence ranks an OOD input below a test input in {_percent(score.auroc)} of pairs (AUROC); "
            f"where 95 % of test inputs are accepted, {_percent(score.missed_at_95_accepted)} of {name} are too.",
            name,
        )
    accuracy, mean = facts.test.accuracy, facts.test.mean_confidence
    if accuracy is not None and not accuracy.contains(mean) and abs(mean - accuracy.value) > 0.01 and not facts.refuted:
        direction = "more" if mean > accuracy.value else "less"
        yield Sentence(
            "confidence",
            f"On test inputs the mean confidence is {mean:.1%} and the accuracy {_percent(accuracy)}: the network is "
            f"{direction} sure than it should be. Calibrate it (temperature scaling on held-out inputs) before its "
            "confidence is read as a probability.",
        )


def _on_estimator(facts: Facts, recommendation: Recommendation) -> Iterator[Sentence]:
    name = recommendation.estimator
    thin = f"{len(facts.scores)} OOD sets say little about others"
    if facts.stand_ins:
        thin = "stand-ins say little about real OOD inputs"
    elif len(facts.scores) == 1:
        thin = "one OOD set says little about others"
    if name is None:
        yield Sentence(
            "estimator",
            "Keep confidence: no other score is better by half a point of AUROC or more, beyond what the best of so "
            "many gains by chance and on OOD sets it was not chosen on.",
        )
        return
    score, label = facts.mean_scores[name], facts.labels[name]
    needs = "It needs the training features." if "train" in label.needs else "It needs nothing but the logits or head."
    over = f"averaged over {len(facts.scores)} OOD sets" if len(facts.scores) > 1 else f"on {next(iter(facts.scores))}"
    why = (
        "Chosen on all OOD sets but one and judged on that one, for each in turn, it is better than confidence."
        if recommendation.basis == "chosen"
        else f"It is not chosen on your sets ({thin}) but the default: the best single score over many networks and "
        "data sets."
        if len(facts.scores) < MANY_SETS or facts.stand_ins
        else "The best score of some of your sets does not carry over to the others, so this is the default: the best "
        "single score over many networks and data sets."
    )
    yield Sentence(
        "estimator",
        f"Use {label.symbol} ({name}) instead: AUROC {_percent(score.auroc)} {over}, "
        f"{_points(score.gain_of_all)} more than confidence (interval of all {len(facts.mean_scores) - 1} comparisons "
        f"at once). {why} {needs}",
    )
    for one, scores in facts.scores.items():
        if len(facts.scores) > 1 and scores[name].gain.high < 0:
            text = f"On {one} alone {label.symbol} is worse than confidence: {_points(scores[name].gain)}."
            yield Sentence("estimator", text, one)


def _on_causes(facts: Facts) -> Iterator[Sentence]:
    words = {
        "rounding": "softmax saturates: float32 prints the same confidence for many inputs (cause 1, rounding)",
        "temperature": "softmax at temperature 1 ranks inputs worse than a cooler one (cause 1, temperature)",
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
        bounds = {"misfit": "at least ", "overlap_proper": "at most "}
        listed = ", ".join(
            f"{part.replace('_', ' ')} {bounds.get(part, '')}{_points(size)}" for part, size in parts.items()
        )
        yield Sentence(
            "cause",
            f"{name}: entropy reaches {_percent(causes.entropy)}. What it lacks is mostly that {words[largest]}. "
            f"In points of AUROC: {listed}.",
            name,
        )
        if causes.extrapolation.high < 0:
            worse = Interval(-causes.extrapolation.value, -causes.extrapolation.high, -causes.extrapolation.low)
            yield Sentence(
                "cause",
                f"{name}: U_density is {_points(worse)} worse than U_cool, so it does not measure "
                "what softmax loses by extrapolation: read cause 2 and misfit together.",
                name,
            )


def _on_help(facts: Facts) -> Iterator[Sentence]:
    if facts.refuted:
        return
    causes = facts.mean_causes
    density_helps = causes.density.low > 0.5 and causes.extrapolation.low > 0
    remedies = {
        "rounding": "are lost because float32 prints the same confidence for many inputs. Rank by logits or by the "
        "exact forms here; it costs nothing.",
        "temperature": "are gained by another temperature. Divide the logits by it before the softmax (U_cool).",
        "extrapolation_proper": "are lost because softmax is confident where no training input lies. A density on the "
        "features (U_density) or a distance to them brings it back.",
        "ambiguity": "are lost because OOD inputs and ambiguous test inputs look equally unsure. A density keeps the "
        "two apart.",
    }
    for name, remedy in remedies.items():
        size: Interval | None = getattr(causes, name)
        if name in ("extrapolation_proper", "ambiguity") and not density_helps:
            continue
        if size is not None and size.value >= WORTHWHILE and size.low > 0:
            yield Sentence("help", f"{_points(size)} of AUROC {remedy}")
    best = max(facts.mean_scores, key=lambda name: facts.mean_scores[name].auroc.value)
    reached = facts.mean_scores[best].auroc
    if causes.ceiling.low - reached.high > WORTHWHILE:
        yield Sentence(
            "help",
            f"The features would allow more: a classifier that learned from such OOD inputs reaches at least "
            f"{causes.ceiling.low:.1%}, the best score here, {facts.labels[best].symbol}, "
            f"{_percent(reached)}. Tune the density (components, log features, ridge), or learn from OOD examples.",
        )
    elif causes.overlap_proper.value >= WORTHWHILE:
        yield Sentence(
            "help",
            f"At most {100 * causes.overlap_proper.high:.1f} points of AUROC may be beyond any score of this layer. If "
            "no score does, better features would help: pre-training, more varied training data, or another layer.",
        )


def _on_mistakes(facts: Facts, recommended: str | None) -> Iterator[Sentence]:
    if recommended is None or recommended not in facts.mistakes or facts.refuted:
        return
    ours, theirs = facts.mistakes[recommended], facts.mistakes[_SHOWN]
    if theirs.low > ours.high:
        yield Sentence(
            "mistakes",
            f"To find wrong predictions on known classes keep confidence: AUROC {_percent(theirs)} against "
            f"{_percent(ours)} of {facts.labels[recommended].symbol}. The two answer different questions.",
        )


def _on_samples(facts: Facts, missed: Mapping[str, Interval]) -> Iterator[Sentence]:
    for name, share in missed.items():
        best, worst = _levels(share)
        if best == worst:
            continue
        rows = rows_to_settle(share, min(facts.test.rows, facts.ood[name].rows))
        border = (
            "at the border" if rows is None else f"about {rows:,} test inputs and as many of {name} would settle it"
        )
        yield Sentence(
            "samples",
            f"{name}: between '{_LEVELS[best]}' and '{_LEVELS[worst]}' with the inputs given; {border}.",
            name,
        )


def _percent(share: Interval) -> str:
    """83.5 % [79.2, 86.5]."""
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _points(share: Interval) -> str:
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}] points"


def _round_up(rows: float) -> int:
    """To two significant digits, upwards."""
    step = 10 ** max(0, math.floor(math.log10(max(1.0, rows))) - 1)
    return int(step * math.ceil(rows / step))
