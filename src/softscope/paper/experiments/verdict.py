"""Our number beside the paper's, and the rule that says whether they agree.

The 95 % interval of a mean over runs is mean ± t x standard error
with runs - 1 degrees of freedom. For a number that the paper prints, the interval of ours - the paper's is set against
the margin of its kind (`MARGINS`) plus two of the paper's printed standard errors: wholly inside, the row agrees;
wholly outside, it differs; else it is undecided. For a statement in words the row names the range that bears it out:
the interval wholly inside, it holds; wholly outside, it does not hold; else undecided. A single run is always
undecided. A number that involves no chance (`Mean.exact`) has a point for its interval.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from ...arrays import as_vector
from .registry import register

Kind = Literal["AUROC", "accuracy", "loss", "count", "printed"]
#: kind of number -> how far ours may lie from the paper's, in words; AUROC includes causes, its differences.
MARGINS: dict[Kind, str] = {
    "AUROC": "1 point",
    "accuracy": "0.5 points",
    "loss": "20 % of the paper's number",
    "count": "0",
    "printed": "half a unit of the last digit shown",
}
NUMBERS = ("agrees", "differs")
STATEMENTS = ("holds", "does not hold")
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Mean:
    """A mean over `runs` independent runs (or `over` something else) and its standard error, None for a single run.

    0 runs: the number was computed without chance.
    """

    value: float
    standard_error: float | None = None
    runs: int = 1
    over: str = "runs"

    @classmethod
    def of(cls, values: Any, over: str = "runs") -> "Mean":
        """Mean and standard error, std(values, ddof=1) / sqrt(runs), of one value for each run."""
        numbers = as_vector(np.asarray(values, dtype=np.float64), "values over runs")
        error = float(numbers.std(ddof=1) / math.sqrt(numbers.size)) if numbers.size > 1 else None
        return cls(float(numbers.mean()), error, numbers.size, over)

    @classmethod
    def exact(cls, value: float) -> "Mean":
        """A number that involves no chance."""
        return cls(float(value), None, 0)

    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval: value ± t(0.975, runs - 1) x standard error; None for a single run."""
        if self.runs == 0:
            return self.value, self.value
        if self.runs == 1 or self.standard_error is None:
            return None
        from scipy.special import stdtrit

        half = float(stdtrit(self.runs - 1, 0.975)) * self.standard_error
        return self.value - half, self.value + half

    def show(self, digits: int) -> str:
        """'98.6 ± 0.4', or '98.6' for a single run."""
        error = "" if self.standard_error is None else f" ± {self.standard_error:.{digits}f}"
        return f"{self.value:.{digits}f}{error}"


@dataclass(frozen=True)
class Reported:
    """A number the paper prints, with its standard error where it prints one."""

    value: float
    standard_error: float | None = None

    def show(self, digits: int) -> str:
        """'98.6 ± 0.4'."""
        return Mean(self.value, self.standard_error).show(digits)


@dataclass(frozen=True)
class Statement:
    """What the paper says in words; it holds where our number lies in least..most (None: no limit).

    `hollow` says why meeting the range proves nothing, e.g. because untrained layers meet it too: then it is undecided.
    """

    text: str
    least: float | None = None
    most: float | None = None
    hollow: str = ""

    def show(self, digits: int) -> str:
        """The words."""
        return self.text

    @property
    def rule(self) -> str:
        """'at least 75', 'at most 0.01', '3 to 5'."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        return f"at most {self.most:g}" if self.least is None else f"at least {self.least:g}"

    def judge(self, interval: tuple[float, float] | None) -> str:
        """By the rule at the top of this file."""
        if interval is None:
            return UNDECIDED
        low, high = interval
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        if least <= low and high <= most:
            return UNDECIDED if self.hollow else STATEMENTS[0]
        return STATEMENTS[1] if high < least or low > most else UNDECIDED


@dataclass(frozen=True)
class Row:
    """One quantity: ours, what the paper gives (None: nothing), in `unit`, shown with `digits` decimals.

    `counts` is False where the row follows from others or repeats one: it has a verdict, and no count includes it.
    """

    label: str
    ours: Mean
    paper: Reported | Statement | None = None
    unit: str = ""
    digits: int = 1
    kind: Kind = "printed"
    counts: bool = True

    @property
    def margin(self) -> float:
        """How far ours may lie from the number that the paper prints: the kind's margin + 2 printed errors."""
        assert isinstance(self.paper, Reported)
        own = {"AUROC": 1.0, "accuracy": 0.5, "loss": 0.2 * abs(self.paper.value), "count": 0.0}
        return own.get(self.kind, 0.5 * 10.0**-self.digits) + 2 * (self.paper.standard_error or 0.0)

    @property
    def difference(self) -> tuple[float, float] | None:
        """The 95 % interval of ours less the paper's."""
        interval = self.ours.interval()
        if interval is None or not isinstance(self.paper, Reported):
            return None
        return interval[0] - self.paper.value, interval[1] - self.paper.value

    @property
    def verdict(self) -> str:
        """agrees, differs; holds, does not hold; undecided; '' where the paper gives nothing."""
        if self.paper is None:
            return ""
        if isinstance(self.paper, Statement):
            return self.paper.judge(self.ours.interval())
        inside = Statement("", -self.margin, self.margin).judge(self.difference)
        return {STATEMENTS[0]: NUMBERS[0], STATEMENTS[1]: NUMBERS[1]}.get(inside, UNDECIDED)

    @property
    def rule(self) -> str:
        """What the verdict rests on: '± 1.8', 'at least 75'."""
        if isinstance(self.paper, Reported):
            return f"± {self.margin:.3g}"
        return self.paper.rule if self.paper else ""

    def explained(self) -> str:
        """The verdict with its interval: 'differs: -1.1 [-1.6, -0.6]', 'undecided: a single run'."""
        verdict, interval = self.verdict, self.ours.interval()
        if not verdict:
            return ""
        if interval is None:
            return f"{verdict}: a single run"
        if verdict == UNDECIDED and isinstance(self.paper, Statement) and self.paper.hollow:
            return f"{verdict}: {self.paper.hollow}"
        if self.ours.runs == 0:
            return verdict
        sign, less = ("+", self.paper.value) if isinstance(self.paper, Reported) else ("", 0.0)
        shown = (number - less for number in (self.ours.value, *interval))
        value, low, high = (round(number, self.digits) + 0.0 for number in shown)  # no -0.0
        return f"{verdict}: {value:{sign}.{self.digits}f} [{low:.{self.digits}f}, {high:.{self.digits}f}]"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the result's JSON, verdict included."""
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Row":
        """The row that `to_dict` gave."""
        values = {name: value for name, value in kept.items() if name != "verdict"}
        paper = kept["paper"]
        if paper is not None:
            paper = Statement(**paper) if "text" in paper else Reported(**paper)
        return cls(**values | {"ours": Mean(**kept["ours"]), "paper": paper})


def rows_of(
    experiment: str,
    ours: Mapping[str, Any],
    paper: Mapping[str, Reported | Statement | None] | None = None,
    **words: Any,
) -> list[Row]:
    """The rows that `experiments.toml` has for the names in `ours`, in its order: each a mean, or a value for each run.

    There stand label, unit, digits, kind and what the paper gives: `paper`, an id of `printed.toml`, or what it `says`
    with the range `least` to `most`. `paper` here takes its place; `words` stand in the braces of all texts.
    """
    rows = []
    for name, kept in register()[experiment]["rows"].items():
        if name in ours:
            own = dict(kept)
            said = Statement(own.pop("says", "").format(**words), own.pop("least", None), own.pop("most", None))
            known = printed(own.pop("paper")) if "paper" in own else said if said.text else None
            value = ours[name]
            mean = value if isinstance(value, Mean) else Mean.of(value)
            given = (paper or {}).get(name, known)
            filled = {text: own.get(text, "").format(**words) for text in ("label", "unit")}
            rows.append(Row(**own | filled | {"ours": mean, "paper": given}))
    return rows


def count(rows: list[Row], words: tuple[str, str]) -> str:
    """'3 of 5': rows with the first of `words` for a verdict, of those with either; '' where none is decided.

    `words` are `NUMBERS` or `STATEMENTS`; undecided rows and rows that repeat others are left out.
    """
    verdicts = [row.verdict for row in rows if row.counts]
    decided = sum(verdict in words for verdict in verdicts)
    return f"{verdicts.count(words[0])} of {decided}" if decided else ""


@cache
def _printed() -> dict[str, Any]:
    return tomllib.loads((files("softscope.paper") / "printed.toml").read_text(encoding="utf-8"))


def printed(name: str) -> Any:
    """What `printed.toml` has under an id, e.g. 'X4.stack': lists of one or two numbers become `Reported`."""
    value: Any = _printed()
    for part in name.split("."):
        value = value[part]
    return _reported(value)


def _reported(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _reported(item) for name, item in value.items()}
    if isinstance(value, list) and len(value) <= 2 and all(isinstance(item, float) for item in value):
        return Reported(*value)
    return value
