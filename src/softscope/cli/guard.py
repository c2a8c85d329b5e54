"""`softscope guard fit|score|show`: a detector with a promised false-alarm rate, and streams of features through it."""

import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SoftscopeError

if TYPE_CHECKING:
    from ..guard.stream import Summary

guard = typer.Typer(
    help="A detector to deploy: alarms at a promised false-alarm rate.", no_args_is_help=True, rich_markup_mode=None
)

GuardFile = Annotated[Path, typer.Argument(help="A guard that `softscope guard fit` wrote.", metavar="GUARD")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@guard.command()
def fit(
    head: Annotated[Path, typer.Option(help="The last layer: safetensors with weight and bias.")],
    calibration: Annotated[Path, typer.Option(help="Features of known inputs that were not trained on.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The guard, a safetensors file.")],
    train: Annotated[Path | None, typer.Option(help="Training features, where the estimator needs them.")] = None,
    estimator: Annotated[str, typer.Option(help="density, max, entropy, cool, mahalanobis, knn, vim, ...")] = "density",
    false_alarms: Annotated[float, typer.Option(help="Share of known inputs that may raise an alarm.")] = 0.05,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Keep the promise within each predicted class.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fit an estimator on training features and calibrate its alarms on other known inputs."""
    from rich.console import Console

    from ..estimators import estimator_class
    from ..features import FeatureSet
    from ..guard import Guard
    from ..head import Head

    if train is None and "train" in estimator_class(estimator).info.needs:
        raise SoftscopeError(f"{estimator} needs training features", "Give them with --train")
    layer = Head.load(head)
    seen = None if train is None else FeatureSet.open(train)
    known = FeatureSet.open(calibration)
    with (
        warnings.catch_warnings(record=True) as caught,
        Console(stderr=True).status(f"fitting {estimator}, calibrating on {len(known):,} rows"),
    ):
        warnings.simplefilter("always", UserWarning)
        made = Guard.fit(layer, seen, known, estimator, false_alarms, per_class=per_class)
    for warning in caught:
        print(f"softscope: warning: {warning.message}", file=sys.stderr)
    made.save(output)
    _show(output, made.describe(), as_json=as_json)


@guard.command()
def score(
    path: GuardFile,
    features: Annotated[Path, typer.Argument(help="Features, as many as there are.", metavar="IN")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The scores, a parquet file.")],
    on_bad: Annotated[str, typer.Option(help="Rows that can't be scored: error, or flag to mark them.")] = "error",
    batch: Annotated[int | None, typer.Option(min=1, help="Rows at a time, if not about 64 MB of them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score features row by row; what was interrupted continues where it stopped."""
    from ..features import FeatureSet
    from ..guard import Guard
    from ..guard.stream import OnBad, score_file
    from ..progress import bar

    if on_bad != "error" and on_bad != "flag":
        raise SoftscopeError(f"--on-bad {on_bad}: no such way", "Choose error or flag")
    way: OnBad = "flag" if on_bad == "flag" else "error"
    loaded = Guard.load(path)
    rows, done = len(FeatureSet.open(features)), 0
    with bar() as progress:

        def advance(scored: int) -> None:
            nonlocal done
            done += scored
            progress("scoring", done, rows)

        found = score_file(loaded, features, output, on_bad=way, batch=batch, progress=advance)
    if as_json:
        typer.echo(json.dumps(found.to_dict() | {"output": str(output)}, indent=1))
        return
    _print([*_summary(found), ("output", str(output))])


@guard.command()
def show(path: GuardFile, as_json: AsJson = False) -> None:
    """Check a guard file and say what it promises."""
    from ..guard import Guard

    _show(path, Guard.load(path).describe(), as_json=as_json)


def _show(path: Path, found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"path": str(path)} | found, indent=1, ensure_ascii=False))
        return
    groups = found["groups"]
    fewest = min(groups, key=lambda group: group["rows"])
    rate = fewest["rate"]
    thresholds = sorted(group["threshold"] for group in groups)
    params = ", ".join(f"{name}={value}" for name, value in found["params"].items())
    rows, own = f"{found['calibration_rows']:,} rows", "this guard's own rate"
    promise = f"at most {_percent(found['false_alarms'])} of known inputs raise an alarm, on average over calibrations"
    above = f"{thresholds[0]:.6g}"
    if found["per_class"]:
        rows += f", {fewest['rows']:,} or more of each predicted class"
        own = f"that of class {fewest['class']}, the least certain one,"
        promise += ", within each predicted class"
        above += f" to {thresholds[-1]:.6g}, by class"
    _print(
        [
            ("guard", str(path)),
            ("estimator", f"{found['estimator']}({params})"),
            ("network", f"{found['classes']} classes, {found['features']} features"),
            ("calibration", rows),
            ("promise", promise),
            ("certainty", f"{own} lies between {_percent(rate['low'])} and {_percent(rate['high'])} (95 %)"),
            ("alarm above", above),
        ]
    )


def _summary(found: "Summary") -> list[tuple[str, str]]:
    rate = "none could be scored" if found.rate is None else f"{found.alarms:,} ({_percent(found.rate)})"
    lines = [
        ("rows", f"{found.rows:,}" + (f", of which {found.bad:,} bad: alarm is true for them" if found.bad else "")),
        ("alarms", rate),
        ("promise", f"at most {_percent(found.promised)} of known inputs, on average over calibrations"),
    ]
    if found.expected is not None:
        low, high = found.expected
        verdict = (
            "as many as known inputs raise"
            if low <= found.alarms <= high
            else "more than known inputs raise: among these are others"
            if found.alarms > high
            else "fewer than the calibration rows raised: these inputs are of another kind"
        )
        lines.append(("verdict", f"{verdict} ({low:,} to {high:,} of {found.rows - found.bad:,}, 95 %)"))
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _print(lines: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    for label, value in lines:
        table.add_row(Text(label, style="dim"), Text(value, overflow="fold"))
    Console().print(table)
