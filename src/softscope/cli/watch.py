"""`softscope watch`: has a stream of inputs changed since the guard was calibrated?"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from . import options
from .guard import DRIFT, GuardFile, percent, tell
from .options import AsJson, Seed

if TYPE_CHECKING:
    from ..guard import Evidence


def watch(
    path: GuardFile,
    source: Annotated[str, typer.Argument(help="A feature file, a folder that grows, or - for rows.", metavar="IN")],
    state: Annotated[
        Path | None, typer.Option(help="Where the monitor is kept: the next call goes on from there.")
    ] = None,
    false_alarms: Annotated[
        float, options.share("--false-alarms", "Share of unchanged streams that may raise the alarm: 0.01 or 1%.")
    ] = 0.01,
    follow: Annotated[
        float | None,
        options.number("--follow", "Look for new rows every so many seconds, until there is an alarm.", 0.1, 1e6),
    ] = None,
    on_bad: Annotated[
        Literal["error", "skip"], typer.Option(help="Rows that can't be scored: stop with an error, or leave them out.")
    ] = "error",
    picture: Annotated[Path | None, typer.Option(help="Draw the evidence over the stream, .png or .svg.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Watch a stream for a change, without labels. Exit code 0: no change shown, 3: drift, 2: an error."""
    from ..files import check_suffix
    from ..guard import PICTURES, Guard, Monitor, draw_evidence, watch_stream

    if picture is not None:
        check_suffix(picture, *PICTURES)
    guard = Guard.load(path)
    if state is not None and state.exists():
        monitor = Monitor.load(state, guard)
    else:
        monitor = guard.monitor(false_alarms, seed)
    while True:
        evidence = watch_stream(monitor, source, state=state, on_bad=on_bad)
        if follow is None or evidence.alarm or source == "-":
            break
        time.sleep(follow)
    if picture is not None:
        draw_evidence(monitor, picture)
    tell(evidence.to_dict(), lambda: _lines(evidence), as_json=as_json)
    if evidence.alarm:
        raise typer.Exit(DRIFT)


def _lines(evidence: "Evidence") -> list[tuple[str, str]]:
    verdict = (
        f"drift: the inputs have changed; the evidence crossed {1 / evidence.rate:,.0f} at row {evidence.alarm_row:,}"
        if evidence.alarm_row is not None
        else "no change shown"
    )
    return [
        ("rows", f"{evidence.rows:,}"),
        ("evidence", f"{evidence} (largest so far)"),
        ("promise", f"at most {percent(evidence.rate)} of unchanged streams raise the alarm, at any time"),
        ("verdict", verdict),
    ]
