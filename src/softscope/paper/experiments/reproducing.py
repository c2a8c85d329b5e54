"""Run an experiment and keep its result: `results/<id>/<scale>.json` and its figures, each file written whole."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...canonical import plain
from ...engine import Engine
from ...errors import SoftscopeError
from ...files import write_bytes, write_json
from ...provenance import Stopwatch
from ...runs import Store
from .base import Experiment, Result, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    outcome = experiment.run(settings, store, engine)
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
