"""`Monitor`: has a stream of inputs changed since the guard was calibrated? No labels, exact at any time, small state.

monitor = guard.monitor(rate=0.01)
for z in stream:
    if monitor.update(z).alarm: ...              # a false alarm in at most 1 % of streams, however long they are
monitor.save("watch.safetensors"); monitor = Monitor.load("watch.safetensors", guard)
"""

import math
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from ..files import atomic_path, check_suffix, first_line
from .conformal import check_rate
from .saving import read_signed, write_signed

if TYPE_CHECKING:
    from .guard import Guard

FORMAT, VERSION = "softscope.monitor", "1"
PICTURES = (".png", ".svg")
_POINTS = 512  # of the evidence over time that are kept for a picture
_DRAWS = 2  # random numbers per row: a rank among equals, and a side of an edge that the score equals
_SAME = 1e-12


@dataclass(frozen=True)
class Evidence:
    """What a monitor knows after `rows` rows.

    `log_value` is log S_t of the fair game, `log_largest` its largest value so far: a stream that has not changed ever
    reaches x with probability at most 1/x. `alarm_row` is the row (from 0) at which S_t crossed 1 / rate, if any.
    """

    rows: int
    log_value: float
    log_largest: float
    rate: float
    alarm_row: int | None

    @property
    def alarm(self) -> bool:
        """Whether the evidence has ever crossed 1 / rate."""
        return self.alarm_row is not None

    def __str__(self) -> str:
        """The largest evidence as a person reads it: `1 in 400 under no change`."""
        odds = math.exp(self.log_largest) if self.log_largest < 34 else math.inf
        return f"1 in {max(1.0, odds):,.0f} under no change" if odds < 1e15 else "less than 1 in 10^15 under no change"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"alarm": self.alarm, "says": str(self)}


class Monitor:
    """Watches the uncertainty of a stream; one that does not change raises its alarm with probability at most `rate`.

    Each score is ranked among the calibration scores and all earlier scores of the stream, on a grid of calibration
    scores with random places among equals (drawn by `seed`), so that the state does not grow. What is measured is
    whether the scores are still exchangeable; a change that leaves their distribution as it is can't be seen.

    >>> import numpy as np
    >>> import softscope as sx
    >>> rng = np.random.default_rng(0)
    >>> head, known = sx.Head(rng.normal(size=(2, 4))), rng.normal(size=(900, 4))
    >>> guard = sx.Guard.fit(head, known[:400], known[400:700], "knn")
    >>> monitor = guard.monitor(rate=0.01)
    >>> monitor.update(known[700:]).alarm
    False
    >>> monitor.update(known[700:] + 5).alarm
    True
    """

    def __init__(self, guard: "Guard", rate: float = 0.01, seed: int = 0) -> None:
        from .martingale import BETS, edge_ranks, first_masses

        self.guard, self.rate, self.seed = guard, check_rate(rate, "rate"), int(seed)
        # Equal scores have a random order: every score, those of the calibration included, carries a random label.
        scores = guard.calibration.scores
        labels = np.random.default_rng([self.seed, 1]).random(len(scores))
        edges = edge_ranks(len(scores))
        chosen = np.lexsort((labels, scores))[edges]
        self._edges, self._labels = scores[chosen], labels[chosen]
        self._masses = first_masses(edges, len(scores))
        self._capital = np.full(len(BETS), -np.inf)
        self._rows, self._alarm_row = 0, -1
        self._last, self._largest = 0.0, 0.0
        self._trace: list[tuple[int, float]] = []
        self._stride = 1
        self.source: dict[str, Any] = {}  # where a reader of files stopped, for `softscope watch`

    def __repr__(self) -> str:
        return f"Monitor({self.guard!r}, rate={self.rate:g}: {self._rows:,} rows, {self.evidence})"

    @property
    def evidence(self) -> Evidence:
        """What is known so far."""
        row = None if self._alarm_row < 0 else self._alarm_row
        return Evidence(self._rows, self._last, self._largest, self.rate, row)

    @property
    def trace(self) -> NDArray[np.float64]:
        """(rows, log S_t) at up to 512 points of the stream so far, [points, 2]."""
        return np.array(self._trace, np.float64).reshape(-1, 2)

    def update(self, z: Any) -> Evidence:
        """Take in the features of the next inputs, in order."""
        return self.update_scores(self.guard.uncertainty(z))

    def update_scores(self, scores: Floats) -> Evidence:
        """Take in the next inputs' finite uncertainties, in order."""
        from .martingale import BETS, log_evidence, ranks

        scores = np.asarray(scores, np.float64)
        if not len(scores):
            return self.evidence
        generator = np.random.PCG64(self.seed).advance(_DRAWS * self._rows)
        places = np.random.Generator(generator).random((len(scores), _DRAWS))
        p_values = ranks(self._bins(scores, places[:, 1]), places[:, 0].copy(), self._masses)
        values = log_evidence(p_values, self._rows, self._capital, BETS)
        if self._alarm_row < 0 and values.max() >= -math.log(self.rate):
            self._alarm_row = self._rows + int((values >= -math.log(self.rate)).argmax())
        self._remember(values)
        self._rows += len(scores)
        self._last, self._largest = float(values[-1]), max(self._largest, float(values.max()))
        return self.evidence

    def _bins(self, scores: Floats, labels: Floats) -> NDArray[np.int64]:
        """How many edges lie below each score, by label where they are equal."""
        slack = _SAME * np.abs(scores)
        bins = np.searchsorted(self._edges, scores - slack, side="left")
        upto = np.searchsorted(self._edges, scores + slack, side="right")
        for row in np.flatnonzero(upto > bins):
            bins[row] += np.searchsorted(self._labels[bins[row] : upto[row]], labels[row])
        return bins

    def _remember(self, values: Floats) -> None:
        """Keep log S_t of every `_stride`-th row, and double the stride where there are too many points."""
        row = -self._rows % self._stride
        while row < len(values):
            self._trace.append((self._rows + row + 1, float(values[row])))
            if len(self._trace) == _POINTS:
                self._trace, self._stride = self._trace[::2], 2 * self._stride
            row += self._stride - (self._rows + row) % self._stride

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state as one safetensors file, atomically; a monitor loaded from it goes on to the same bits."""
        words = {
            "guard": self.guard.sha256,
            "rate": self.rate,
            "seed": self.seed,
            "rows": self._rows,
            "alarm_row": self._alarm_row,
            "stride": self._stride,
            "source": self.source,
        }
        tensors = {
            "masses": self._masses,
            "capital": self._capital,
            "evidence": np.array([self._last, self._largest]),
            "trace": self.trace,
        }
        write_signed(path, FORMAT, VERSION, tensors, words)

    @classmethod
    def load(cls, path: str | os.PathLike[str], guard: "Guard") -> "Monitor":
        """The monitor that `save` wrote, of the same guard; any changed byte is an error."""
        tensors, words = read_signed(path, FORMAT, (VERSION,), "a state of `softscope watch`")
        if words.get("guard") != guard.sha256:
            raise SoftscopeError(
                f"{path}: is the state of a stream through another guard", "Give its guard, or begin with a new state"
            )
        try:
            monitor = cls(guard, words["rate"], words["seed"])
            monitor._take(tensors, words)
        except Exception as error:  # hostile contents under a right digest meet errors of many types
            raise SoftscopeError(
                f"{path}: a state that can't be ({first_line(error)})", "Begin with a new one"
            ) from error
        return monitor

    def _take(self, tensors: dict[str, NDArray], words: dict[str, Any]) -> None:
        masses, capital, evidence, trace = (tensors[name] for name in ("masses", "capital", "evidence", "trace"))
        rows, alarm_row, stride = (words[name] for name in ("rows", "alarm_row", "stride"))
        sound = (
            all(type(number) is int for number in (rows, alarm_row, stride))
            and 0 <= rows < 1 << 62
            and -1 <= alarm_row < max(1, rows)
            and stride > 0
            and masses.dtype == np.int64
            and masses.shape == self._masses.shape
            and (masses >= self._masses).all()
            and masses.sum() - self._masses.sum() == rows
            and capital.shape == self._capital.shape
            and not np.isnan(capital).any()
            and evidence.shape == (2,)
            and np.isfinite(evidence).all()
            and trace.ndim == 2
            and trace.shape[1] == 2
            and len(trace) <= _POINTS
            and isinstance(words["source"], dict)
        )
        if not sound:
            raise ValueError("its parts don't fit together")
        self._masses, self._capital = masses, capital.astype(np.float64)
        self._rows, self._alarm_row, self._stride = rows, alarm_row, stride
        self._last, self._largest = map(float, evidence)
        self._trace = [(int(row), float(value)) for row, value in trace]
        self.source = words["source"]


def draw_evidence(monitor: Monitor, path: str | os.PathLike[str]) -> None:
    """The evidence over the stream as an image file, atomically: the line to cross is 1 / rate."""
    from pathlib import Path

    from matplotlib.figure import Figure

    check_suffix(path, *PICTURES)
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots()
    trace = monitor.trace
    axes.plot(trace[:, 0], trace[:, 1] / math.log(10), color="tab:blue")
    axes.axhline(-math.log10(monitor.rate), color="tab:red", linestyle="--", label=f"alarm at {1 / monitor.rate:,.0f}")
    axes.set(xlabel="rows of the stream", ylabel="evidence of a change, log10", title=str(monitor.evidence))
    axes.legend(loc="upper left")
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        figure.savefig(file, format=Path(path).suffix[1:], dpi=120)
