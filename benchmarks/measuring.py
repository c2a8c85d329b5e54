"""How a benchmark measures and what it says: `Cost` (seconds, memory), `Row` (ours beside theirs, and the target).

A benchmark module has `run(quick: bool = False) -> Iterable[Row]`; `measure`, `race`, `measure_child` take its times.
This file run as a program, `python -m benchmarks.measuring package.module:function [...]`, is the child of the last.
"""

import json
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from softscope.errors import SoftscopeError
from softscope.provenance import Stopwatch

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")
S = TypeVar("S")
_UNITS = {"cpu": "s", "wall": "s wall", "peak_mb": "MB"}
NAMES = ("density", "scores", "together", "metrics", "filter", "guard", "diagnosis", "scale")
_PEERS = ("pytorch-ood",)
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Cost:
    """What one piece of work took. CPU seconds are summed over threads and hardly move when the machine is busy."""

    wall: float
    cpu: float
    peak_mb: float | None = None


@dataclass(frozen=True)
class Row:
    """One line of a benchmark: `ratio` = theirs / ours in `by`, reached when it is at least `target`.

    `limit` bounds our own cost instead of, or beside, the ratio. `same` says whether both gave the same value and
    `check` how that was judged. A peer that isn't there leaves `theirs` None and says so in `note`.
    """

    work: str
    against: str
    ours: Cost
    theirs: Cost | None = None
    target: float | None = None
    limit: float | None = None
    by: Literal["cpu", "wall", "peak_mb"] = "cpu"
    same: bool | None = None
    check: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times less we need than they do."""
        theirs = None if self.theirs is None else getattr(self.theirs, self.by)
        return None if theirs is None else theirs / max(getattr(self.ours, self.by), 1e-9)

    @property
    def reached(self) -> bool | None:
        """Whether target and limit are met with the same value; None where there is nothing to judge."""
        if self.same is False:
            return False
        met = []
        if self.limit is not None:
            met.append(getattr(self.ours, self.by) <= self.limit)
        if self.target is not None and self.ratio is not None:
            met.append(self.ratio >= self.target)
        return all(met) if met else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the ratio and the verdict."""
        return asdict(self) | {"ratio": self.ratio, "reached": self.reached}


def measure(work: Callable[[], T], repeats: int = 3) -> tuple[Cost, T]:
    """The least wall and the least CPU seconds of `repeats` calls, and the last result."""
    if repeats < 1:
        raise SoftscopeError(f"repeats: expected at least 1, found {repeats}", "Time the work at least once")
    runs = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        runs.append((time.perf_counter() - wall, time.process_time() - cpu))
    return Cost(min(wall for wall, _ in runs), min(cpu for _, cpu in runs)), result


def race(ours: Callable[[], T], theirs: Callable[[], S], repeats: int = 3) -> tuple[Cost, T, Cost, S]:
    """Both measured turn by turn, so that a busy or throttled machine is unfair to neither."""
    our_cost, our_result = measure(ours, 1)
    their_cost, their_result = measure(theirs, 1)
    for _ in range(repeats - 1):
        our_cost = _best(our_cost, measure(ours, 1)[0])
        their_cost = _best(their_cost, measure(theirs, 1)[0])
    return our_cost, our_result, their_cost, their_result


def measure_child(function: str, *arguments: Any) -> tuple[Cost, Any]:
    """Cost with peak memory of `function` ("package.module:name") in a fresh process; arguments and result are JSON.

    The peak holds the interpreter and imports too: both sides of a comparison must be measured this way.
    """
    command = [sys.executable, "-m", "benchmarks.measuring", function, json.dumps(arguments)]
    child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
    if child.returncode:
        why = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        raise SoftscopeError(f"{function}: the measured process failed ({why})", "Run it by hand to see why")
    told = json.loads(child.stdout.splitlines()[-1])
    return Cost(**told["cost"]), told["value"]


def run(name: str, quick: bool = False) -> list[Row]:
    """The rows of benchmark `name`; quick ones carry no target, since small sizes prove nothing."""
    if name not in NAMES:
        raise SoftscopeError(f"{name!r}: not a benchmark", f"Choose from {', '.join((*NAMES, 'all'))}")
    rows: Iterable[Row] = import_module(f"benchmarks.{name}").run(quick=quick)
    return [replace(row, target=None, limit=None) if quick else row for row in rows]


def to_dict(rows: Mapping[str, Sequence[Row]], quick: bool, watch: Stopwatch) -> dict[str, Any]:
    """The rows with all that a reader of the numbers needs: command, date, machine, threads, versions."""
    known = watch.provenance(quick=quick) | {"command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])}
    known["versions"] |= {peer: metadata.version(peer) for peer in _PEERS if find_spec(peer.replace("-", "_"))}
    return known | {"benchmarks": {name: [row.to_dict() for row in each] for name, each in rows.items()}}


def table(name: str, rows: Sequence[Row]) -> "Table":
    """The rows as a table for the terminal; notes go below it."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    title = f"python -m benchmarks {name} (s: CPU seconds)"
    shown = Table(
        title=title, caption=_notes(rows) or None, caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 1, 0)
    )
    shown.add_column("work, against", overflow="fold")
    for column in ("ours", "theirs", "ratio", "to reach", "same"):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        work = f"{escape(row.work)}\n[dim]vs {escape(row.against)}[/]"
        ours, theirs = (_amount(cost, row.by) for cost in (row.ours, row.theirs))
        ratio = "-" if row.ratio is None else f"{_number(row.ratio)} x"
        shown.add_row(work, ours, theirs, ratio, f"{_goal(row)} {_word(row.reached)}", _word(row.same) or "-")
    return shown


def _best(one: Cost, other: Cost) -> Cost:
    return Cost(min(one.wall, other.wall), min(one.cpu, other.cpu))


def _number(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _amount(cost: Cost | None, by: str) -> str:
    amount = None if cost is None else getattr(cost, by)
    return "-" if amount is None else f"{_number(amount)} {_UNITS[by]}"


def _goal(row: Row) -> str:
    goals = [] if row.target is None else [f"{_number(row.target)} x"]
    if row.limit is not None:
        goals.append(f"< {_number(row.limit)} {_UNITS[row.by]}")
    return ", ".join(goals) or "-"


def _word(verdict: bool | None) -> str:
    return {None: "", True: "[green]yes[/]", False: "[bold red]NO[/]"}[verdict]


def _notes(rows: Sequence[Row]) -> str:
    from rich.markup import escape

    lines = (f"{row.work}: {'; '.join(filter(None, (row.check, row.note)))}" for row in rows if row.check or row.note)
    return escape("\n".join(lines))


def peak_mb() -> float:
    """Peak resident memory of this process in MB (10^6 bytes)."""
    try:
        # On Linux ru_maxrss starts from the parent's size at fork; VmHWM belongs to this program alone.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        kilo = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilo / 1e6


def _child(function: str, arguments: str) -> None:
    """Call `function` once with JSON `arguments` and print cost and value as the last line."""
    module, _, name = function.partition(":")
    work = getattr(import_module(module), name)
    cost, value = measure(lambda: work(*json.loads(arguments)), repeats=1)
    print("\n" + json.dumps({"cost": asdict(replace(cost, peak_mb=peak_mb())), "value": value}))


if __name__ == "__main__":
    _child(*sys.argv[1:])
