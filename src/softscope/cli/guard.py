"""`softscope guard fit|score|show|recalibrate|export|page|serve`: a detector with a promised rate, deployed."""

import json
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import SoftscopeError
from . import options
from .opening import PIXELS, opens, pixel_options
from .options import AsJson, Quiet

if TYPE_CHECKING:
    from ..guard import Summary

guard = typer.Typer(
    help="A detector to deploy: alarms at a promised false-alarm rate.", no_args_is_help=True, rich_markup_mode=None
)

_A_BATCH = "discoveries(z, rate) keeps the expected share of known inputs among the discoveries below rate"
_ANY_THRESHOLD = (
    "discovery_bound(z) says, with confidence 95 %, how many inputs of a batch above a threshold can be known, for all "
    "thresholds at once"
)
#: Exit code of a command that worked and found more alarms, or more evidence of a change, than known inputs give.
DRIFT = 3


GuardFile = Annotated[Path, typer.Argument(help="A guard that `softscope guard fit` wrote.", metavar="GUARD")]
Rate = Annotated[float, options.share("--false-alarms", "Share of known inputs that may raise an alarm: 0.05 or 5%.")]
Confidence = Annotated[
    float | None,
    options.share("--confidence", "Promise the rate for this very guard, e.g. 0.95; else on average."),
]


@guard.command()
def fit(
    head: Annotated[Path, typer.Option(help="The last layer: safetensors with weight and bias.")],
    calibration: Annotated[Path, typer.Option(help="Features of known inputs that were not trained on.")],
    out: Annotated[Path, options.out("The guard, a safetensors file.")],
    train: Annotated[Path | None, typer.Option(help="Training features, where the estimator needs them.")] = None,
    estimator: Annotated[
        str | None, typer.Option(help='mahalanobis++, unless given: density, knn, "cool(temperature=20)", ...')
    ] = None,
    false_alarms: Rate = 0.05,
    confidence: Confidence = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Keep the promise within each predicted class.")
    ] = False,
    engine: options.EngineName = "local",
    address: options.Address = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit an estimator on training features and calibrate its alarms on other known inputs."""
    from ..engine import Engine
    from ..estimators import DEFAULT
    from ..estimators import estimator as made_of
    from ..features import FeatureSet
    from ..guard import Guard
    from ..head import Head
    from ..progress import bar
    from ..scoring import sharded_features

    where = Engine(engine, address=address, progress=False)
    if train is None and "train" in made_of(estimator or DEFAULT).needs:
        raise SoftscopeError(f"{estimator or DEFAULT} needs training features", "Give them with --train")
    layer = Head.load(head)
    known = FeatureSet.open(calibration)
    with (
        nullcontext() if train is None else sharded_features(train, where) as seen,
        warnings.catch_warnings(record=True) as caught,
        bar(show=not quiet) as progress,
    ):
        progress(f"fitting {estimator or DEFAULT}, calibrating on {len(known):,} rows", 0, 0)
        warnings.simplefilter("always", UserWarning)
        made = Guard.fit(layer, seen, known, estimator, false_alarms, confidence=confidence, per_class=per_class)
    for warning in caught:
        print(f"softscope: warning: {warning.message}", file=sys.stderr)
    made.save(out)
    show_guard(out, made.describe(), as_json=as_json)


@guard.command()
def score(
    path: GuardFile,
    features: Annotated[Path, typer.Argument(help="Features, any number of rows.", metavar="IN")],
    out: Annotated[Path, options.out("The scores, a parquet file.")],
    on_bad: Annotated[
        Literal["error", "flag"], typer.Option(help="Rows that can't be scored: stop with an error, or mark them.")
    ] = "error",
    batch: Annotated[int | None, options.whole("--batch", "Rows at a time, if not about 64 MB of them.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score features row by row; what was interrupted continues where it stopped. Exit code 3: too many alarms."""
    from ..guard import Guard, score_file
    from ..progress import bar

    loaded = Guard.load(path)
    with bar(show=not quiet) as progress:
        summary = score_file(loaded, features, out, on_bad=on_bad, batch=batch, progress=progress)
    tell(
        summary.to_dict() | {"output": str(out)},
        lambda: [*summary_pairs(summary), ("output", str(out))],
        as_json=as_json,
    )
    if summary.exceeded:
        raise typer.Exit(DRIFT)


@guard.command()
def show(path: GuardFile, as_json: AsJson = False) -> None:
    """Check a guard, or a model with a guard inside (.onnx), and say what it promises."""
    from ..guard import Guard, check_guarded

    if path.suffix.lower() == ".onnx":
        show_guarded(path, check_guarded(path), as_json=as_json)
        return
    show_guard(path, Guard.load(path).describe(), as_json=as_json)


@guard.command()
def recalibrate(
    path: GuardFile,
    calibration: Annotated[Path, typer.Option(help="Features of new known inputs that were not trained on.")],
    out: Annotated[Path, options.out("The new guard, a safetensors file.")],
    false_alarms: Annotated[
        float | None, options.share("--false-alarms", "Another rate; else that of the old guard.")
    ] = None,
    confidence: Confidence = None,
    drifted: Annotated[
        bool, typer.Option("--drifted", help="The rows are known inputs although they raise the drift alarm.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Calibrate a guard anew, on newer known inputs; the new file names the old one and what changed."""
    from ..features import FeatureSet
    from ..guard import Guard

    old = Guard.load(path)
    new = old.recalibrate(
        FeatureSet.open(calibration), false_alarms=false_alarms, confidence=confidence, drifted=drifted
    )
    new.save(out)
    show_guard(out, new.describe(), as_json=as_json)


@guard.command()
@opens(*PIXELS)
def export(
    model: Annotated[Path, typer.Argument(help="A classifier, an .onnx file.", metavar="MODEL")],
    path: GuardFile,
    out: Annotated[Path, options.out("The guarded model, an .onnx file.")],
    how: dict[str, Any],
    raw_input: Annotated[
        bool, typer.Option("--raw-input", help="Take what the model takes, not uint8 images.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a model and its guard as one ONNX graph: images in; class, probability, uncertainty, p and alarm out.

    With --size the graph takes images of any size and resizes them as Pillow does.
    """
    from ..files import check_suffix
    from ..guard import Guard
    from ..images import Preprocessing

    asked = pixel_options(how)
    check_suffix(out, ".onnx")
    loaded = Guard.load(path)
    words = loaded.export(model, out, preprocessing=None if raw_input else Preprocessing().changed(**asked))
    show_guarded(out, words, as_json=as_json)


@guard.command()
def page(
    model: Annotated[Path, typer.Argument(help="A model that `softscope guard export` wrote.", metavar="GUARDED")],
    out: Annotated[Path, options.out("The page, an .html file.")],
    runtime: Annotated[
        Path, typer.Option(help="The folder dist of the npm package onnxruntime-web.", metavar="DIR")
    ] = Path("node_modules/onnxruntime-web/dist"),
    as_json: AsJson = False,
) -> None:
    """Write a guarded model as one HTML page: drop an image, see class, p and alarm. No server, no installation."""
    from ..guard import write_page

    write_page(model, runtime, out)
    if as_json:
        typer.echo(json.dumps({"path": str(out), "bytes": out.stat().st_size}))
    else:
        print_pairs([("page", f"{out}, {out.stat().st_size / 1e6:.1f} MB: open it in a browser")])


@guard.command()
def serve(
    path: GuardFile,
    host: Annotated[str, typer.Option(help="Address to listen at; this machine alone unless given.")] = "127.0.0.1",
    port: Annotated[int, options.whole("--port", "Port to listen at.", 1, 65535)] = 8080,
    name: Annotated[str, typer.Option(help="The model's name in /v2/models/NAME/infer.")] = "guard",
    state: Annotated[Path | None, typer.Option(help="Where the drift monitor is kept between runs.")] = None,
    drift_rate: Annotated[
        float, options.share("--drift-rate", "Share of unchanged streams that may raise the drift alarm.")
    ] = 0.01,
    body_mb: Annotated[int, options.whole("--body-mb", "Largest request, in MB.", 1, 1024)] = 16,
) -> None:
    """Serve a guard over HTTP: features in; uncertainty, p, alarm and class out; /metrics for Prometheus."""
    from ..guard import Guard, Service
    from ..guard import serve as serve_guard

    if not name.isidentifier():
        raise SoftscopeError(f"--name {name}: expected letters, digits and _", "It becomes part of an address")
    service = Service(Guard.load(path), rate=drift_rate, state=state)
    print(f"softscope: http://{host}:{port}/v2/models/{name}/infer, /metrics; stop with Ctrl-C", file=sys.stderr)
    serve_guard(service, host, port, name, body_bytes=body_mb << 20)


def show_guarded(path: Path, words: dict[str, Any], *, as_json: bool) -> None:
    """Print what a guarded model says of itself."""
    described = words["guard"] | {name: words.get(name) for name in ("sha256", "preprocessing", "resizing")}
    show_guard(path, described, as_json=as_json)


def show_guard(path: Path, described: dict[str, Any], *, as_json: bool) -> None:
    """Print what `Guard.describe` says."""
    tell({"path": str(path)} | described, lambda: _guard_pairs(path, described), as_json=as_json)


def _guard_pairs(path: Path, described: dict[str, Any]) -> list[tuple[str, str]]:
    groups = described["groups"]
    fewest = min(groups, key=lambda group: group["rows"])
    thresholds = sorted(group["threshold"] for group in groups)
    params = ", ".join(f"{name}={value}" for name, value in described["params"].items())
    rows, above = f"{described['calibration_rows']:,} rows", f"{thresholds[0]:.6g}"
    if described["per_class"]:
        rows += f", {fewest['rows']:,} or more of each predicted class"
        above += f" to {thresholds[-1]:.6g}, by class"
    pairs = [
        ("guard", str(path)),
        ("estimator", f"{described['estimator']}({params})"),
        ("network", f"{described['classes']} classes, {described['features']} features"),
        ("calibration", rows),
        ("promise", _promise(described)),
        ("own rate", _own_rate(described, fewest)),
        ("by class", described["spread"] and _spread(described["spread"])),
        ("a batch", _A_BATCH),
        ("any threshold", not described["per_class"] and _ANY_THRESHOLD),
        ("alarm above", above),
        ("guard sha256", described.get("sha256")),
        ("input", described.get("preprocessing") and f"uint8 images; {described['preprocessing']}"),
        ("resizing", described.get("resizing") and _resizing(described["resizing"])),
        ("recalibrated", described["parent"] and _parent(described["parent"])),
    ]
    return [(label, value) for label, value in pairs if value]


def _resizing(resizing: dict[str, Any]) -> str:
    return (
        f"inside; on sample images {percent(resizing['share'])} of pixels differ from Pillow's, by at most "
        f"{resizing['levels']} of 255 levels, and scores by at most {resizing['scores']:.2g} of their size"
    )


def _parent(parent: dict[str, Any]) -> str:
    low, high = min(parent["thresholds"]), max(parent["thresholds"])
    above = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
    return (
        f"from {parent['sha256']}: {parent['calibration_rows']:,} rows, alarm above {above}; "
        f"a change between the two sets: {parent['drift']}"
    )


def _promise(described: dict[str, Any]) -> str:
    sure = described["confidence"]
    how = "on average over calibrations" if sure is None else f"for this guard, with confidence {percent(sure)}"
    within = ", within each predicted class" if described["per_class"] else ""
    return f"at most {percent(described['false_alarms'])} of known inputs raise an alarm, {how}{within}"


def _own_rate(described: dict[str, Any], group: dict[str, Any]) -> str:
    rate = group["rate"]
    which = f"of class {group['class']} (the least certain) " if described["per_class"] else ""
    return (
        f"{which}{100 * rate['value']:.3g} % [{100 * rate['low']:.3g}, {100 * rate['high']:.3g}]; above "
        f"{percent(described['false_alarms'])} in {percent(group['exceeded'])} of calibrations"
    )


def _spread(spread: list[dict[str, Any]]) -> str:
    lowest = min(spread, key=lambda entry: entry["rate"]["value"])
    highest = max(spread, key=lambda entry: entry["rate"]["value"])
    ends = [
        "{value:.3g} % [{low:.3g}, {high:.3g}]".format(**{name: 100 * end for name, end in entry["rate"].items()})
        + f" ({entry['class']})"
        for entry in (lowest, highest)
    ]
    return f"false alarms from {ends[0]} to {ends[1]}; --per-class makes them equal"


def summary_pairs(summary: "Summary") -> list[tuple[str, str]]:
    """What a run counted, as labels and values."""
    scored = summary.rows - summary.bad
    rate = "none could be scored" if summary.rate is None else f"{summary.alarms:,} ({percent(summary.rate)})"
    lines = [
        ("rows", f"{summary.rows:,}" + (f", of which {summary.bad:,} bad: alarm is true for them" * (summary.bad > 0))),
        ("alarms", rate),
        ("promise", f"at most {percent(summary.promised)} of known inputs"),
    ]
    if summary.exceeded:
        where = "" if summary.expected else f" among the inputs taken for {', '.join(summary.exceeded)}"
        verdict = f"more alarms than known inputs would cause{where}: some inputs are unfamiliar"
    elif summary.expected and summary.alarms < summary.expected[0]:
        verdict = "fewer alarms than known inputs would cause: these inputs are of another kind"
    else:
        verdict = "as many alarms as known inputs would cause"
    if summary.expected:
        low, high = summary.expected
        verdict += f" ({low:,} to {high:,} of {scored:,}, 95 %)"
    return [*lines, ("verdict", verdict)] if scored else lines


def percent(part: float) -> str:
    """5 %."""
    return f"{100 * part:.3g} %"


def tell(values: dict[str, Any], lines: Callable[[], list[tuple[str, str]]], *, as_json: bool) -> None:
    """What a command found: as JSON, or as a table of labels and values."""
    if as_json:
        typer.echo(json.dumps(values, indent=1, ensure_ascii=False))
    else:
        print_pairs(lines())


def print_pairs(lines: list[tuple[str, str]]) -> None:
    """A table of labels and values."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    for label, value in lines:
        table.add_row(Text(label, style="dim"), Text(value, overflow="fold"))
    Console().print(table)
