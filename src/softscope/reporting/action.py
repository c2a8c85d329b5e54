"""The one thing to do next, with the line to paste; and what else could be done."""

import shlex
from dataclasses import dataclass

from ..diagnosis.model import Diagnosis
from ..estimators import estimator


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
    warnings = [finding for finding in diagnosis.self_check if finding.level == "warning"]
    if warnings:
        first = warnings[0]
        return Action("Check your data first", f"{first.what}. {first.hint}. Then diagnose again.", "")
    name = diagnosis.advice.recommended
    sets = len(diagnosis.ood)
    today = diagnosis.mean_scores["plain-max"].missed_at_95_accepted.value
    if name is None:
        why = "No other score is better than it beyond chance; a guard turns it into alarms at a rate you choose."
        if diagnosis.advice.verdict == "do not trust":
            why += (
                f" At 5 % false alarms it still misses {100 * today:.1f} % of unfamiliar inputs: other features "
                "(pre-training, more varied training data, another layer) or examples to learn from would help more."
            )
        return Action("Keep confidence, with a guard", why, guard_line(diagnosis, "max"))
    better = diagnosis.mean_scores[name].missed_at_95_accepted.value
    grounds = {
        "chosen": "Choices made on the other sets held on each set left out.",
        "default": "It is the default, the best single score over many networks and data sets, not chosen on "
        f"{'these stand-ins' if diagnosis.stands_in else 'these OOD sets' if sets > 1 else 'this OOD set'}.",
    }.get(diagnosis.advice.basis, "")
    label = diagnosis.estimators[name]
    reads = "compares an input with the training inputs" if "train" in label.needs else "reads the network's outputs"
    why = (
        f"It {reads}. At 5 % false alarms it misses {100 * better:.1f} % of unfamiliar inputs, confidence "
        f"{100 * today:.1f} %. {grounds}"
    )
    return Action(f"Use {label.symbol} instead of confidence", why, guard_line(diagnosis, name))


def other_steps(diagnosis: Diagnosis) -> list[str]:
    """Everything else the advice says over all OOD sets, but for the estimator, which is the action."""
    return [
        sentence.text
        for sentence in diagnosis.advice.sentences
        if sentence.ood is None and sentence.about in ("confidence", "help", "mistakes", "samples")
    ]


def stand_in_lines(diagnosis: Diagnosis) -> list[str]:
    """What stand-ins for OOD data can and can't say; nothing where OOD data was given."""
    return [sentence.text for sentence in diagnosis.advice.sentences if sentence.about == "stand-ins"]


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
