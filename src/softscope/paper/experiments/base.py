"""What every experiment shares: settings for each scale, a result, and its files below `results/<id>`."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ...canonical import LATER, plain
from ...engine import Engine
from ...errors import SoftscopeError
from ...files import write_bytes, write_json
from ...provenance import Stopwatch
from ...runs import Store
from ..training import TrainSettings
from .networks import Images, NetworkPlan
from .verdict import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


S = TypeVar("S", bound="Settings")

SCALE_NAMES = ("smoke", "laptop", "overnight", "paper")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What determines an experiment's numbers; each experiment adds its own. `piecewise`: a result after each part of
    long work instead of one in the end."""

    runs: int = 1
    seed: int = 0
    threads: int = 1
    piecewise: bool = field(default=False, metadata=LATER)

    def __post_init__(self) -> None:
        for name in ("runs", "threads"):
            if getattr(self, name) < 1:
                raise SoftscopeError(f"{name}: {getattr(self, name)}", "Give a whole number of at least 1")
        if self.seed < 0:
            raise SoftscopeError(f"seed: {self.seed}", "Give a whole number of at least 0")

    def single_runs(self) -> list[Self]:
        """The settings of each run alone, for the run store: run r is the same however many there are."""
        return [replace(self, runs=1, seed=self.seed + 1000 * run) for run in range(self.runs)]

    def training(self) -> TrainSettings:
        """Adam at 1e-3 with these settings' epochs, seed, threads, and their batch and precision if they have any."""
        own = {name: getattr(self, name) for name in ("epochs", "batch", "seed", "threads") if hasattr(self, name)}
        return TrainSettings(**own, precision=getattr(self, "precision", "float32"))

    def network(self, data: Images, ood: Images) -> NetworkPlan:
        """The plan of a network that learns `data`: these settings' `net` with their `features`, and their training."""
        own: Any = self
        config = {"features": own.features}
        return NetworkPlan(data=data, ood=(ood,), net=own.net, config=config, training=self.training())


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
    part      whether not even one run is whole yet: pages and claims then read a smaller scale
    kept      name of a file beside the result -> what a later run reads in place of a long computation: JSON, or a
              file to copy
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
    part: bool = False
    kept: dict[str, dict[str, Any] | Path] = field(default_factory=dict)


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
        usual = self.scales[scale]
        return replace(usual, runs=usual.runs if runs is None else runs, seed=usual.seed if seed is None else seed)


def networks_left(count: int, more: str = "") -> str | None:
    """What `Result.left` says of networks to come: '2 networks' and what there is to add; None without any."""
    return f"{count} network{'s' * (count > 1)}{more}" if count else None


def by_runs(result: Callable[[S], Result], settings: S, step: int = 1) -> Iterator[Result]:
    """The result of the first `step` runs, of twice as many and so on: the store has what those before it trained."""
    for runs in (*range(step, settings.runs, step), settings.runs):
        left = settings.runs - runs
        yield replace(result(replace(settings, runs=runs)), left=f"{left} of {settings.runs} runs" if left else None)


_PNG = b"\x89PNG\r\n\x1a\n"


def reproduce(
    experiment: Experiment,
    scale: str,
    *,
    store: Store,
    engine: Engine,
    folder: str | os.PathLike[str],
    runs: int | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Run (or finish) `experiment` and write its result below `folder`; returns the result's JSON document.

    An experiment of hours gives a result after each part: each is written at once, and what is left is said.
    """
    settings = experiment.settings(scale, runs=runs, seed=seed)
    watch = Stopwatch()
    outcome = experiment.run(settings, Store(store.root, results=folder), engine)
    written: dict[str, Any] = {}
    for result in [outcome] if isinstance(outcome, Result) else outcome:
        known = watch.provenance(seed=settings.seed)
        # The command that repeats the result, and the threads of its tasks, are part of it; this process may differ.
        del known["command"], known["threads"]
        written = document(experiment, scale, settings, result, known)
        path = write_result(folder, written, result)
        if result.left:
            print(f"{experiment.id}: wrote {path}; left: {result.left}", file=sys.stderr)
    return written


def document(
    experiment: Experiment, scale: str, settings: Settings, result: Result, provenance: dict[str, Any]
) -> dict[str, Any]:
    """The result as plain JSON: everything that repeats, then `provenance`, which doesn't."""
    whole = {
        "id": experiment.id,
        "title": experiment.title,
        "figures": experiment.figures,
        "scale": scale,
        "command": command(experiment, scale, settings),
        "settings": settings,
        "rows": [row.to_dict() for row in result.rows],
        "tables": result.tables,
        "shown": result.shown,
        "notes": result.notes,
        "subsets": result.subsets,
        "captions": result.captions,
        **({"left": result.left} if result.left else {}),
        **({"part": True} if result.part else {}),
        "provenance": provenance | {"step_seconds": result.seconds, **result.timings},
    }
    written: dict[str, Any] = plain(whole, experiment.id)
    return written


def command(experiment: Experiment, scale: str, settings: Settings) -> str:
    """The command that gives this result again."""
    words = ["softscope", "reproduce", experiment.id, "--scale", scale]
    usual = experiment.scales[scale]
    for name in ("runs", "seed"):
        if getattr(settings, name) != getattr(usual, name):
            words += [f"--{name}", str(getattr(settings, name))]
    return shlex.join(words)


def write_result(folder: str | os.PathLike[str], written: dict[str, Any], result: Result) -> Path:
    """Write figures, then the JSON that names them; returns the JSON's path."""
    home = Path(folder) / str(written["id"])
    files = dict(_figure_files(written["scale"], result.figures))
    for name, content in files.items():
        write_bytes(home / name, content)
    for name, record in result.kept.items():
        if isinstance(record, Path):
            write_bytes(home / name, record.read_bytes())
        else:
            write_json(home / name, record)
    path = home / f"{written['scale']}.json"
    write_json(path, written | {"files": sorted(files)})
    return path


def _figure_files(scale: str, figures: "dict[str, Figure | bytes]") -> Iterator[tuple[str, bytes]]:
    from ...reporting.style import to_png

    for number, (name, figure) in enumerate(figures.items()):
        stem = scale if number == 0 else f"{scale}-{name}"
        if not isinstance(figure, bytes):
            yield f"{stem}.png", to_png(figure)
        elif figure.startswith(_PNG):
            yield f"{stem}.png", figure
        elif figure.lstrip().startswith(b"<"):
            yield f"{stem}.svg", figure
        else:
            raise SoftscopeError(f"figure {name!r} is neither PNG nor SVG", "Give a matplotlib Figure")
