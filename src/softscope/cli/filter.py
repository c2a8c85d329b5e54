"""`softscope filter NET`: which of all possible inputs does a small network call certain?"""

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .options import Address, AsJson, EngineName, Quiet, Seed, StoreFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..paper.filter import Scanned, ScanStatistics

_DRAWN = 10  # finds of each class in the picture; --json lists all


def filter_(
    net: Annotated[str, typer.Argument(help="A model saved by softscope, with one channel.", metavar="NET")],
    inputs: Annotated[str, typer.Option(help="How many inputs to draw: 2^27, 1e6 or 5000.")] = "2^24",
    seed: Seed = 0,
    top: Annotated[int, options.whole("--top", "Finds to keep of each class.", high=1000)] = 5,
    threads: Annotated[int | None, options.whole("--threads", "Threads; else one per core.", high=1024)] = None,
    out: Annotated[Path, options.out("Picture of the finds, renewed while the scan runs.")] = Path("finds.png"),
    engine: EngineName = "local",
    address: Address = None,
    store: StoreFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw inputs of black and white pixels uniformly; keep the most confident of each class, and statistics of all.

    A scan that was stopped continues where it was.
    """
    from ..engine import Engine
    from ..files import writable_folder
    from ..paper.filter import Range, run_scan, scanned
    from ..paper.nets import load_model
    from ..runs import Store

    what = Range(seed, 0, whole_number(inputs), top)
    how = Engine(engine, address=address, progress=not quiet)
    saved = load_model(net)
    network = scanned(saved.net)
    names = saved.classes or tuple(map(str, range(network.classes)))
    writable_folder(out.parent)  # before hours of work, not after
    draw = partial(_draw, network, what.seed, names, out)
    summary = run_scan(network, what, Store(store), how, names=names, draw=draw, threads=threads)
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), indent=1, allow_nan=False))
        return
    from rich.console import Console

    Console().print(summary.table())
    print(f"{summary.summary()}\n{out}", file=sys.stdout)


def _draw(network: "Scanned", seed: int, names: "Sequence[str]", picture: Path, statistics: "ScanStatistics") -> None:
    from ..files import write_bytes
    from ..paper.filter import Folded, inputs
    from ..paper.plots.filter import finds_figure
    from ..reporting.style import to_png

    numbers, odds = statistics.numbers[:, :_DRAWN], statistics.odds[:, :_DRAWN]
    images = inputs.images(seed, numbers, network.shape)
    remark = f"Most confident of {statistics.inputs:,} inputs drawn uniformly"
    visible = 8 if isinstance(network, Folded) else None
    write_bytes(picture, to_png(finds_figure(images, odds, names, remark, visible)))


def whole_number(text: str) -> int:
    """2^27, 2**27, 1e6 or 5000 as a whole number."""
    from ..errors import SoftscopeError

    power = re.fullmatch(r"(\d{1,19})(?:\^|\*\*)(\d{1,2})", text)
    try:
        value = int(power[1]) ** int(power[2]) if power else float(text)
    except ValueError:
        value = -1
    if not 1 <= value <= 1 << 63 or value != int(value):
        raise SoftscopeError(
            f"--inputs {text}: expected a number of inputs", "Write it as 2^27, 1e6 or 5000 (at most 2^63)"
        )
    return int(value)
