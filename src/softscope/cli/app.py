"""The tree of commands: one file each, added here."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from .claims import claims
from .data import data
from .diagnose import demo, diagnose
from .extract import extract
from .filter import filter_
from .guard import guard
from .reproduce import reproduce
from .score import score
from .tune import tune
from .watch import watch

_ORDER = ("demo", "diagnose", "extract", "guard", "watch", "score", "tune", "data", "claims", "reproduce", "filter")


class _Newcomer(TyperGroup):
    """Lists the commands in the order in which a newcomer uses them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


app = typer.Typer(
    cls=_Newcomer,
    name="softscope",
    help="When can a neural network's softmax confidence be trusted, and where it can't, why?",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"softscope {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """When can a neural network's softmax confidence be trusted, and where it can't, why?"""


for command in (demo, diagnose, extract, score, watch, tune, claims, reproduce):
    app.command()(command)
app.command("filter")(filter_)
app.add_typer(guard, name="guard")
app.add_typer(data, name="data")
