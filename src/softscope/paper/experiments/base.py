"""What every experiment shares: settings for each scale, and a result."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from ...engine import Engine
from ...errors import SoftscopeError
from ...runs import Store
from .verdict import Row

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
class Result:
    """What came out of an experiment.

    rows      numbers beside the paper's
    figures   name -> matplotlib Figure, or the bytes of a PNG or SVG; the first is the experiment's picture
    captions  name of a figure -> what it shows
    tables    name -> list of plain dicts: anything further worth keeping (not large)
    shown     name of a table to print under the rows -> what it shows
    notes     sentences that belong beside the numbers: protocol where the paper is silent, what was left out
    subsets   every data set used in part, e.g. "svhn: 15,000 of 73,257 training images"
    seconds   wall time of the steps behind the numbers, whenever they were computed
    timings   further times and speeds, kept apart from what repeats
    left      what is still to be computed, where the result is of a part: "12 networks, about 9.5 hours"
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
    left: str | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of the register, ready to run; one that takes hours gives a result after each part of it."""

    id: str
    figures: tuple[str, ...]
    title: str
    scales: Mapping[str, Settings]
    run: Callable[[Any, Store, Engine], Result | Iterator[Result]]

    def settings(self, scale: str, *, runs: int | None = None, seed: int | None = None) -> Settings:
        """The settings of `scale`, with another number of runs or another seed if given."""
        if scale not in self.scales:
            raise SoftscopeError(f"no scale is called {scale!r}", f"Choose one of {', '.join(self.scales)}")
        given = {"runs": runs, "seed": seed}
        return replace(self.scales[scale], **{name: value for name, value in given.items() if value is not None})
