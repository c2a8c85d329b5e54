"""`softscope reproduce`: run experiments of the paper and set our numbers beside its own."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import SoftscopeError
from . import options
from .options import Address, AsJson, EngineName, Quiet, StoreFolder

if TYPE_CHECKING:
    from rich.table import Table


def reproduce(
    names: Annotated[list[str], typer.Argument(help="X1a, a figure's label such as fig_2d, or all.", metavar="ID...")],
    scale: Annotated[
        Literal["smoke", "laptop", "overnight", "paper"],
        typer.Option(help="Seconds, minutes, hours, or the paper's own protocol."),
    ] = "smoke",
    runs: Annotated[
        int | None, options.whole("--runs", "Independent runs, if not the scale's own number.", high=10_000)
    ] = None,
    seed: Annotated[
        int | None, options.whole("--seed", "Seed of the first run, if not the scale's own.", 0, options.LAST_SEED)
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    out: Annotated[Path, options.out("Folder for results.")] = Path("results"),
    store: StoreFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Repeat experiments of the paper. What was interrupted continues where it stopped."""
    from ..engine import Engine
    from ..paper.experiments import find, load
    from ..paper.experiments import reproduce as run_and_keep
    from ..runs import Store

    entries = list({entry.id: entry for name in names for entry in find(name)}.values())
    where, how = Store(store), Engine(engine, address=address, progress=not quiet)
    done: list[dict[str, Any]] = []
    failed: dict[str, SoftscopeError] = {}
    for entry in entries:
        print(f"{entry.id} {scale}: {entry.title}", file=sys.stderr)
        try:
            experiment = load(entry)
            done.append(run_and_keep(experiment, scale, store=where, engine=how, folder=out, runs=runs, seed=seed))
        except SoftscopeError as error:
            failed[entry.id] = error
    if as_json:
        typer.echo(json.dumps(done, indent=1, ensure_ascii=False, allow_nan=False))
    elif done:
        _show(done, out)
    _raise(failed, len(entries))


def _show(done: list[dict[str, Any]], output: Path) -> None:
    from rich.console import Console

    out = Console()
    for written in done:
        out.print(_table(written))
        for name, words in written["shown"].items():
            out.print(_further(written["tables"][name], f"{name}: {words}"))
        for remark in (*written["subsets"], *written["notes"]):
            out.print(f"- {remark}", markup=False, highlight=False, soft_wrap=True)
        out.print(f"{output / written['id'] / written['scale']}.json\n", markup=False, highlight=False, soft_wrap=True)


def _table(written: dict[str, Any]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from ..paper.experiments import Row

    title = Text(f"{written['id']} ({written['scale']}): {written['title']}", style="bold")
    table = Table(
        "", "the paper", "ours", "rule", "verdict", title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    for kept in written["rows"]:
        row = Row.from_dict(kept)
        paper = "" if row.paper is None else row.paper.show(row.digits)
        table.add_row(
            *map(Text, (row.label, paper, f"{row.ours.show(row.digits)} {row.unit}", row.rule, row.explained()))
        )
    return table


def _further(lines: list[dict[str, Any]], title: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    headings = list(lines[0]) if lines else []
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for line in lines:
        table.add_row(*(Text(str(line.get(name, ""))) for name in headings))
    return table


def _raise(failed: dict[str, SoftscopeError], asked: int) -> None:
    if len(failed) == 1 and asked == 1:
        raise next(iter(failed.values()))
    if failed:
        reasons = "; ".join(f"{name}: {error}" for name, error in failed.items())
        raise SoftscopeError(f"{len(failed)} of {asked} experiments failed: {reasons}")
