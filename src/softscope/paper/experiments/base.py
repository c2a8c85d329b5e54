"""What every experiment shares: settings, rows that set our number beside the paper's, a verdict, and a result.

The verdict's rule, for a number: with d = ours - paper and s = sqrt(se_ours^2 + se_paper^2) (a standard error that is
not known counts as 0), they agree if abs(d) <= max(2 s, tolerance). The tolerance is stated with each row: a difference
too small to matter, by default half a unit of the last digit shown. For a statement in words, whether it holds is
decided by the experiment from our numbers, by a rule that the row's label states.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...arrays import as_vector
from ...engine import Engine
from ...errors import SoftscopeError
from ...runs import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE_NAMES = ("smoke", "laptop", "overnight", "paper")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What determines an experiment's numbers; each experiment adds its own."""

    runs: int = 1
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("runs", "threads"):
            if getattr(self, name) < 1:
                raise SoftscopeError(f"{name}: {getattr(self, name)}", "Give a whole number of at least 1")
        if self.seed < 0:
            raise SoftscopeError(f"seed: {self.seed}", "Give a whole number of at least 0")

    def single_runs(self) -> list[Self]:
        """The settings of each run alone, for the run store: run r is the same however many there are."""
        return [replace(self, runs=1, seed=self.seed + 1000 * run) for run in range(self.runs)]


@dataclass(frozen=True)
class Mean:
    """A mean over `runs` independent runs and its standard error, None where a single run tells no spread."""

    value: float
    standard_error: float | None = None
    runs: int = 1

    @classmethod
    def over(cls, values: Any) -> "Mean":
        """Mean and standard error, std(values, ddof=1) / sqrt(runs), of one value a run."""
        numbers = as_vector(np.asarray(values, dtype=np.float64), "values over runs")
        error = float(numbers.std(ddof=1) / math.sqrt(numbers.size)) if numbers.size > 1 else None
        return cls(float(numbers.mean()), error, numbers.size)

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
    """What the paper says in words, and whether our numbers bear it out."""

    text: str
    holds: bool

    def show(self, digits: int) -> str:
        """The words."""
        return self.text


@dataclass(frozen=True)
class Row:
    """One quantity: ours, what the paper gives (None: nothing), in `unit`, shown with `digits` decimals."""

    label: str
    ours: Mean
    paper: Reported | Statement | None = None
    unit: str = ""
    digits: int = 1
    tolerance: float | None = None

    @property
    def verdict(self) -> str:
        """In words, by the rule at the top of this file."""
        if self.paper is None:
            return "the paper gives no number"
        if isinstance(self.paper, Statement):
            return "as the paper says" if self.paper.holds else "not as the paper says"
        tolerance = 0.5 * 10.0**-self.digits if self.tolerance is None else self.tolerance
        difference = self.ours.value - self.paper.value
        spread = math.hypot(self.ours.standard_error or 0.0, self.paper.standard_error or 0.0)
        if abs(difference) <= max(2 * spread, tolerance):
            return "agrees"
        size = f"{abs(difference) / spread:.1f} standard errors" if spread > 0 else "no standard error known"
        return f"differs by {difference:+.{self.digits}f} ({size})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the result's JSON, verdict included."""
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Row":
        """The row that `to_dict` gave."""
        values = {name: value for name, value in kept.items() if name != "verdict"}
        paper = kept["paper"]
        if paper is not None:
            paper = Statement(**paper) if "holds" in paper else Reported(**paper)
        return cls(**values | {"ours": Mean(**kept["ours"]), "paper": paper})


@dataclass(frozen=True)
class Result:
    """What an experiment found.

    rows      numbers beside the paper's
    figures   name -> matplotlib Figure, or the bytes of a PNG or SVG; the first is the experiment's picture
    captions  name of a figure -> what it shows
    tables    name -> list of plain dicts: anything further worth keeping (not large)
    shown     name of a table to print under the rows -> what it shows
    notes     sentences that belong beside the numbers: protocol where the paper is silent, what was left out
    subsets   every data set used in part, e.g. "svhn: 15,000 of 73,257 training images"
    seconds   wall time of the steps behind the numbers, whenever they were computed
    timings   further times and speeds, kept apart from what repeats
    """

    rows: list[Row]
    figures: "dict[str, Figure | bytes]" = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    subsets: list[str] = field(default_factory=list)
    seconds: float | None = None
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """An experiment of the register, ready to run."""

    id: str
    figures: tuple[str, ...]
    title: str
    scales: Mapping[str, Settings]
    run: Callable[[Any, Store, Engine], Result]

    def settings(self, scale: str, *, runs: int | None = None, seed: int | None = None) -> Settings:
        """The settings of `scale`, with another number of runs or another seed if given."""
        if scale not in self.scales:
            raise SoftscopeError(f"no scale is called {scale!r}", f"Choose one of {', '.join(self.scales)}")
        given = {"runs": runs, "seed": seed}
        return replace(self.scales[scale], **{name: value for name, value in given.items() if value is not None})
