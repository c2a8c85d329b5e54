"""What the commands share: options with one spelling everywhere, and numbers that are checked before anything opens."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import SoftscopeError

LARGEST = (1 << 31) - 1  # of counts that become array sizes
LAST_SEED = (1 << 32) - 1  # the largest that every library here takes


def out(what: str) -> Any:
    """`-o/--out`: where the command writes."""
    return typer.Option("-o", "--out", help=what, metavar="PATH")


def whole(name: str, what: str, low: int = 1, high: int = LARGEST) -> Any:
    """An option for a whole number from `low` to `high`."""
    return typer.Option(name, parser=_checked(name, low, high), help=what, metavar="N")


def number(name: str, what: str, low: float, high: float) -> Any:
    """An option for a number from `low` to `high`; NaN is refused."""
    return typer.Option(name, parser=_checked(name, low, high), help=what, metavar="NUMBER")


def share(name: str, what: str) -> Any:
    """An option for a share between 0 and 1, written 0.05 or 5%."""
    return typer.Option(name, parser=_checked(name, 1e-9, 1 - 1e-9), help=what, metavar="SHARE")


def _checked(name: str, low: float, high: float) -> Callable[[Any], Any]:
    kind = type(low)

    def check(given: Any) -> Any:
        try:
            percent = kind is float and str(given).endswith("%")
            value = kind(str(given).removesuffix("%")) / 100 if percent else kind(given)
        except (ValueError, OverflowError):
            value = math.nan
        if not low <= value <= high:  # false for NaN as well
            word = "a whole number" if kind is int else "a number"
            raise SoftscopeError(f"{name} {given}: expected {word} from {low} to {high}")
        return value

    check.__name__ = kind.__name__
    return check


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress bar.")]
Seed = Annotated[int, whole("--seed", "Seed of every draw.", 0, LAST_SEED)]
StoreFolder = Annotated[Path | None, typer.Option(help="Run store; else $SOFTSCOPE_RUNS or ./softscope-runs.")]
EngineName = Annotated[Literal["local", "ray"], typer.Option(help="Where the work runs.")]
Address = Annotated[str | None, typer.Option(help="A running Ray cluster: host:port, or auto.")]
HeadFile = Annotated[str, typer.Option(help="Last layer: safetensors with weight and bias.", metavar="FILE")]


def named(option: str, words: Sequence[str]) -> dict[str, str]:
    """NAME=FILE words of a repeatable `option`, by name."""
    files: dict[str, str] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise SoftscopeError(f"{option} {word}: expected NAME=FILE", f"Write it as {option} svhn=svhn.safetensors")
        if not name.isprintable():
            raise SoftscopeError(f"{option} {word}: a name with control characters", "Give the set a plain name")
        if name in files:
            raise SoftscopeError(f"{option} {name}: given twice", "Give each set a name of its own")
        files[name] = path
    return files


def numbers(option: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise SoftscopeError(f"{option} {text}: expected numbers separated by commas", "Write it as 0.485,0.456,0.406")
    return values
