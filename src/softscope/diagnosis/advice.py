"""What to do, in plain words derived from the figures and with them.

The verdict is on the confidence that networks print (U_max in float32), at the threshold that accepts 95 % of test
inputs: "trust" where it lets through at most 10 % of an OOD set, "do not trust" where more than half, "caution" in
between, "undecided" where the 95 % interval of that share crosses a border. The worst OOD set decides for all. The
texts stand in `advice.toml`.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ..metrics import Interval
from .held_out import HELD_OUT
from .model import Advice, Causes, EstimatorLabel, Finding, Score, Sentence, SetSummary, Verdict
from .recommendation import MANY_SETS, WORTHWHILE, Recommendation, recommend

TRUSTED, DISTRUSTED = 0.10, 0.50
_LEVELS: tuple[Verdict, ...] = ("trust", "caution", "do not trust")
_SHOWN = "plain-max"
_TEXTS = tomllib.loads(files(__package__).joinpath("advice.toml").read_text("utf-8"))
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


def _say(about: str, key: str, ood: str | None = None, **values: Any) -> Sentence:
    """The sentence that `advice.toml` has under `key`, with these values in its text."""
    return Sentence(about, _TEXTS[about][key].format(**values), ood)


def _headline(verdict: Verdict, missed: Mapping[str, Interval], *, stand_ins: bool) -> str:
    name = max(missed, key=lambda one: missed[one].value)
    kind = "stand-in" if stand_ins else "OOD set"
    worst = f"the worst of {len(missed)} {kind}s" if len(missed) > 1 else f"the {kind}"
    best_level, worst_level = (max(places) for places in zip(*map(_levels, missed.values())))
    key: str = verdict
    if stand_ins and verdict == "undecided" and worst_level == 0:
        key = "unknown"
    elif verdict == "undecided" and best_level > 0:
        key = "at best caution"
    shares = f"{_percent(missed[name])} of {name}, {worst}, where 95 % of test inputs are accepted"
    headline: str = _TEXTS["headline"][key].format(shares=shares)
    return headline


def _on_stand_ins(facts: Facts) -> Iterator[Sentence]:
    if not facts.stand_ins:
        return
    held_out = [name for name in facts.ood if name.startswith(HELD_OUT)]
    probes = [name for name in facts.ood if name not in held_out]
    if held_out:
        yield _say("stand-ins", "held_out")
    yield _say("stand-ins", "probes" if probes else "no_probes", probes=", ".join(probes))
    yield _say("stand-ins", "both")


def _on_confidence(facts: Facts) -> Iterator[Sentence]:
    for name, scores in facts.scores.items():
        score = scores[_SHOWN]
        shares = {"auroc": _percent(score.auroc), "missed": _percent(score.missed_at_95_accepted)}
        yield _say("confidence", "ranks", name, name=name, **shares)
    accuracy, mean = facts.test.accuracy, facts.test.mean_confidence
    if accuracy is not None and not accuracy.contains(mean) and abs(mean - accuracy.value) > 0.01 and not facts.refuted:
        direction = "more" if mean > accuracy.value else "less"
        yield _say("confidence", "calibrate", mean=mean, accuracy=_percent(accuracy), direction=direction)


def _on_estimator(facts: Facts, recommendation: Recommendation) -> Iterator[Sentence]:
    name, texts, sets = recommendation.estimator, _TEXTS["estimator"], len(facts.scores)
    if name is None:
        yield _say("estimator", "keep")
        return
    thin = "one OOD set says little about others" if sets == 1 else f"{sets} OOD sets say little about others"
    if facts.stand_ins:
        thin = "stand-ins say little about real OOD inputs"
    why = "default" if sets < MANY_SETS or facts.stand_ins else "not_carried"
    score, symbol = facts.mean_scores[name], facts.labels[name].symbol
    yield _say(
        "estimator",
        "use",
        symbol=symbol,
        name=name,
        auroc=_percent(score.auroc),
        over=f"averaged over {sets} OOD sets" if sets > 1 else f"on {next(iter(facts.scores))}",
        gain=_points(score.gain_of_all),
        comparisons=len(facts.mean_scores) - 1,
        why=texts["chosen" if recommendation.basis == "chosen" else why].format(thin=thin),
        needs=texts["needs_train" if facts.needs_train[name] else "needs_head"],
    )
    for one, scores in facts.scores.items():
        if sets > 1 and scores[name].gain.high < 0:
            yield _say("estimator", "worse", one, name=one, symbol=symbol, gain=_points(scores[name].gain))


def _on_causes(facts: Facts) -> Iterator[Sentence]:
    words = _TEXTS["cause"]["words"]
    bounds = {"misfit": "at least ", "overlap_proper": "at most "}
    for name, causes in facts.causes.items():
        known = {"name": name, "entropy": _percent(causes.entropy)}
        if 1.0 - causes.entropy.value < WORTHWHILE:
            yield _say("cause", "nothing", name, **known)
            continue
        parts: dict[str, Interval] = {part: getattr(causes, part) for part in words}
        largest = max(parts, key=lambda part: parts[part].value)
        listed = ", ".join(
            f"{part.replace('_', ' ')} {bounds.get(part, '')}{_points(size)}" for part, size in parts.items()
        )
        yield _say("cause", "mostly", name, **known, words=words[largest], listed=listed)
        if causes.extrapolation.high < 0:
            worse = Interval(-causes.extrapolation.value, -causes.extrapolation.high, -causes.extrapolation.low)
            yield _say("cause", "density_worse", name, name=name, worse=_points(worse))


def _on_help(facts: Facts) -> Iterator[Sentence]:
    if facts.refuted:
        return
    causes = facts.mean_causes
    density_helps = causes.density.low > 0.5 and causes.extrapolation.low > 0
    for name, remedy in _TEXTS["help"]["remedies"].items():
        size: Interval | None = getattr(causes, name)
        if name in ("extrapolation_proper", "ambiguity") and not density_helps:
            continue
        if size is not None and size.value >= WORTHWHILE and size.low > 0:
            yield Sentence("help", f"{_points(size)} of AUROC {remedy}")
    best = max(facts.mean_scores, key=lambda name: facts.mean_scores[name].auroc.value)
    reached = facts.mean_scores[best].auroc
    if causes.ceiling.low - reached.high > WORTHWHILE:
        symbol = facts.labels[best].symbol
        yield _say("help", "more", ceiling=causes.ceiling.low, symbol=symbol, reached=_percent(reached))
    elif causes.overlap_proper.value >= WORTHWHILE:
        yield _say("help", "beyond", points=100 * causes.overlap_proper.high)


def _on_mistakes(facts: Facts, recommended: str | None) -> Iterator[Sentence]:
    if recommended is None or recommended not in facts.mistakes or facts.refuted:
        return
    ours, theirs = facts.mistakes[recommended], facts.mistakes[_SHOWN]
    if theirs.low > ours.high:
        symbol = facts.labels[recommended].symbol
        yield _say("mistakes", "keep", theirs=_percent(theirs), ours=_percent(ours), symbol=symbol)


def _on_samples(facts: Facts, missed: Mapping[str, Interval]) -> Iterator[Sentence]:
    for name, share in missed.items():
        best, worst = _levels(share)
        if best == worst:
            continue
        rows = rows_to_settle(share, min(facts.test.rows, facts.ood[name].rows))
        border = _TEXTS["samples"]["border" if rows is None else "settled"].format(rows=rows, name=name)
        yield _say("samples", "between", name, name=name, best=_LEVELS[best], worst=_LEVELS[worst], border=border)


def _percent(share: Interval) -> str:
    """83.5 % [79.2, 86.5]."""
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _points(share: Interval) -> str:
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}] points"


def _round_up(rows: float) -> int:
    """To two significant digits, upwards."""
    step = 10 ** max(0, math.floor(math.log10(max(1.0, rows))) - 1)
    return int(step * math.ceil(rows / step))
