"""The top of the page: can confidence be trusted, why not, what to do, in words and few numbers."""

import shlex
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from ..diagnosis.model import Causes, Diagnosis, Score, Verdict
from ..estimators import estimator
from ..metrics import Interval


@dataclass(frozen=True)
class Action:
    """What to do, why in a few words, and the line that does it ("" where none would)."""

    title: str
    why: str
    line: str

    @property
    def parts(self) -> list[str]:
        """The line cut before each option: a narrow page breaks it there."""
        first, *options = self.line.split(" --")
        return [first, *(f"--{option}" for option in options)]


def action_of(diagnosis: Diagnosis) -> Action:
    """Fix what the self-check warns of first; else deploy the recommended score, or confidence, behind a guard."""
    texts, warnings = _TEXTS["action"], diagnosis.findings("warning")
    if warnings:
        return Action("Check your data first", f"{warnings[0].what}. {warnings[0].hint}. Then diagnose again.", "")
    name = diagnosis.advice.recommended
    today = 100 * diagnosis.mean_scores["plain-max"].missed_at_95_accepted.value
    if name is None:
        still = texts["still"].format(today=today) if diagnosis.advice.verdict == "do not trust" else ""
        return Action("Keep confidence, with a guard", texts["keep"] + still, guard_line(diagnosis, "max"))
    sets = "these stand-ins" if diagnosis.stands_in else "these OOD sets" if len(diagnosis.ood) > 1 else "this OOD set"
    label = diagnosis.estimators[name]
    why = texts["use"].format(
        reads=texts["reads_train" if "train" in label.needs else "reads_outputs"],
        better=100 * diagnosis.mean_scores[name].missed_at_95_accepted.value,
        today=today,
        grounds=texts["grounds"].get(diagnosis.advice.basis, "").format(sets=sets),
    )
    return Action(f"Use {label.symbol} instead of confidence", why, guard_line(diagnosis, name))


def guard_line(diagnosis: Diagnosis, name: str) -> str:
    """The line that fits a guard with the estimator as it was diagnosed: for a shell, or for Python without files."""
    words = estimator_words(diagnosis, name)
    head, train, test = str(diagnosis.settings.get("head", "")), diagnosis.train.file, diagnosis.test.file
    if train is None or test is None or not head.endswith(".safetensors"):
        return f"guard = sx.Guard.fit(head, train, calibration=test, estimator={words!r}, false_alarms=0.05)"
    files = f"--head {shlex.quote(head)} --train {shlex.quote(train)} --calibration {shlex.quote(test)}"
    return f"softscope guard fit {files} --estimator {shlex.quote(words)} --false-alarms 0.05 -o guard.safetensors"


def estimator_words(diagnosis: Diagnosis, name: str) -> str:
    """The estimator with those parameters that are not its defaults, as `softscope guard fit` reads them."""
    used = str(diagnosis.settings.get("estimators", {}).get(name, ""))
    default = estimator(name)
    if used in ("", repr(default)):
        return name
    inside = used.partition("(")[2]
    changed = estimator(f"{name}({inside}").params()
    given = ", ".join(f"{key}={value!r}" for key, value in changed.items() if value != default.params()[key])
    return f"{name}({given})" if given else name


CONFIDENCE = "plain-max"  # the confidence as networks print it
EXACT_CONFIDENCE = "max"  # the same, not rounded

#: What the advice is about beside the estimator, which is the action.
FURTHER = ("confidence", "help", "mistakes", "samples")
#: A number beside the verdict: what it is, its value, and a detail.
KeyFigure = tuple[str, str, str]

ICONS: dict[Verdict, str] = {"trust": "✓", "caution": "!", "do not trust": "✕", "undecided": "?"}
_TEXTS = tomllib.loads(files(__package__).joinpath("verdict.toml").read_text("utf-8"))


@dataclass(frozen=True)
class CauseEntry:
    """One cause in a line: its name, its colour on the page, what it means, and what it costs."""

    name: str
    kind: str
    words: str
    points: Interval
    largest: bool


@dataclass(frozen=True)
class PageSummary:
    """What the top of the page says; `by_set` has the worst OOD set first, `others` what else could be done."""

    title: str
    detail: str
    figures: list[KeyFigure]
    by_set: list[tuple[str, Verdict, Interval]]  # name, verdict on confidence, share of it that confidence misses
    causes: list[CauseEntry]
    action: Action
    others: list[str]


def summary(diagnosis: Diagnosis) -> PageSummary:
    """Verdict, key figures, verdict by OOD set, causes and advice over all sets."""
    advice = diagnosis.advice
    title, _, detail = advice.headline.partition(": ")
    missed = {name: scores[CONFIDENCE].missed_at_95_accepted for name, scores in diagnosis.scores.items()}
    by_set = [(name, verdict, missed[name]) for name, verdict in advice.verdicts.items()]
    return PageSummary(
        title=title if detail else advice.headline,
        detail=(detail[:1].upper() + detail[1:]).replace(" %", "\u00a0%"),
        figures=_figures(diagnosis),
        by_set=sorted(by_set, key=lambda item: -item[2].value),
        causes=_causes(diagnosis),
        action=action_of(diagnosis),
        others=advice.texts(*FURTHER),
    )


def _causes(diagnosis: Diagnosis) -> list[CauseEntry]:
    causes, texts = diagnosis.mean_causes, _TEXTS["causes"]
    parts: dict[str, Interval] = {name: getattr(causes, name) for name in texts}
    largest = max(parts, key=lambda name: parts[name].value)
    figures = {"misfit": 100 * causes.misfit.value, "proper": 100 * causes.overlap_proper.value}
    lines = []
    for name, part in parts.items():
        words = texts[name][_reason(causes, name)].format(**figures)
        lines.append(CauseEntry(texts[name]["name"], texts[name]["kind"], words, part, name == largest))
    return lines


def _reason(causes: Causes, name: str) -> str:
    """Which words fit a cause here: a negative one is a remedy that does harm, a misfit is not an overlap."""
    size = getattr(causes, name).value
    if size < (0 if name in ("temperature", "extrapolation") else 0.0005):
        return "none"
    return "misfit" if name == "overlap" and causes.misfit.value > causes.overlap_proper.value else "words"


def _figures(diagnosis: Diagnosis) -> list[KeyFigure]:
    """Accuracy, AUROC and misses of confidence, and the misses of what the advice recommends."""
    today = diagnosis.mean_scores[CONFIDENCE]
    out: list[KeyFigure] = []
    if diagnosis.test.accuracy is not None:
        words = (
            f"on {diagnosis.test.rows:,} test inputs; mean confidence {100 * diagnosis.test.mean_confidence:.1f}\u00a0%"
        )
        out.append(("Accuracy", f"{100 * diagnosis.test.accuracy.value:.1f}\u00a0%", words))
    auroc = today.auroc
    words = f"[{100 * auroc.low:.1f}, {100 * auroc.high:.1f}]; 100 is perfect, 50 is guessing"
    out += [
        ("AUROC of confidence", f"{100 * auroc.value:.1f}\u00a0%", words),
        _missed("Missed by confidence", today),
    ]
    best = diagnosis.advice.recommended
    if best is not None:
        out.append(_missed(f"Missed by {diagnosis.estimators[best].symbol}", diagnosis.mean_scores[best]))
    return out


def _missed(words: str, score: Score) -> KeyFigure:
    share = score.missed_at_95_accepted.value
    return words, f"{100 * share:.1f}\u00a0%", "of unfamiliar inputs at 5\u00a0% false alarms"
