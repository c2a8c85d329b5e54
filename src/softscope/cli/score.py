"""`softscope score`: files in, class, confidence, p-value and alarm of every input out, on one machine or on Ray."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SoftscopeError
from . import options
from .guard import DRIFT, summary_pairs, tell
from .opening import MODEL, SCORED, open_named, opens

if TYPE_CHECKING:
    from ..scoring import ScoreSummary


@opens(*SCORED)
def score(
    *,
    first: Annotated[
        str,
        typer.Argument(help=f"Features: a file, or a folder of them. Or a model: {MODEL}", metavar="FEATURES | MODEL"),
    ],
    guard: Annotated[
        list[Path],
        typer.Option(help="A guard; a second one, of softmax beside density, tells which of them alarm."),
    ],
    out: Annotated[str, options.out("Folder for the scores, one for each run.")],
    images: Annotated[
        str | None,
        typer.Argument(help="With a model: an image, a parquet file, or a folder of either.", metavar="IMAGES"),
    ] = None,
    how: dict[str, Any],
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: Annotated[int | None, options.whole("--workers", "Workers at once, if not one per core.")] = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Score every input into parquet files; what was interrupted goes on where it stopped.

    Exit code 0: as many alarms as promised; 3: more alarms than known inputs would cause; 2: an error.
    """
    from ..engine import Engine
    from ..guard import Guard
    from ..progress import bar
    from ..scoring import score as score_files

    if len(guard) > 2:
        raise SoftscopeError(f"{len(guard)} guards were given", "Give one, or two: softmax and density")
    where = Engine(engine, workers, address)
    model = None if images is None else partial(open_named, first, how)
    guards = [Guard.load(path) for path in guard]
    with bar(show=not quiet) as progress:
        summary = score_files(images or first, guards, out, model=model, engine=where, progress=progress)
    tell({"output": out} | summary.to_dict(), lambda: _lines(out, summary), as_json=as_json)
    if summary.counted.exceeded:
        raise typer.Exit(DRIFT)


def _lines(output: str, summary: "ScoreSummary") -> list[tuple[str, str]]:
    lines = summary_pairs(summary.counted)
    if summary.alarm_by:
        lines.append(("alarm by", ", ".join(f"{kind} {count:,}" for kind, count in summary.alarm_by.items())))
    if summary.first_bad:
        lines.append(("first bad", summary.first_bad))
    return [*lines, ("output", f"{output}: {summary.outputs:,} files, {summary.skipped:,} of them finished before")]
