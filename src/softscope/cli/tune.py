"""`softscope tune`: how to tune the density on your features (X8)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .options import AsJson, HeadFile, Quiet, Seed, StoreFolder, named

if TYPE_CHECKING:
    from ..tuning import SearchSummary


def tune(
    head: HeadFile,
    train: Annotated[str, typer.Option(help="Training features, with labels.", metavar="FILE")],
    test: Annotated[str, typer.Option(help="Test features.", metavar="FILE")],
    out: Annotated[str, options.out("Folder for tune.json and pictures.")],
    ood: Annotated[
        list[str] | None,
        typer.Option(help="Unfamiliar features (repeatable); without any, likelihood decides.", metavar="NAME=FILE"),
    ] = None,
    before: Annotated[
        list[str] | None,
        typer.Option(help="The same before the non-linearity: train=, test=, each --ood.", metavar="NAME=FILE"),
    ] = None,
    settings: Annotated[
        int, options.whole("--settings", "Draws of fit, neurons, ridge and layer (at most 48 at H = 512).", high=10_000)
    ] = 12,
    seed: Seed = 0,
    store: StoreFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search the options of the density: covariance, components, ridge, neurons, z or log z, with or without EM.

    Settings are chosen by held-out likelihood and, with --ood, by AUROC. Interrupted, it continues where it stopped.
    """
    from ..engine import Engine
    from ..files import writable_folder
    from ..runs import Store
    from ..tuning import open_features, search_in_store

    features = open_features(
        head, {"train": train, "test": test}, named("--ood", ood or []), named("--before", before or [])
    )
    folder = Path(out)
    writable_folder(folder)
    summary = search_in_store(features, Store(store), Engine(progress=not quiet), settings=settings, seed=seed)
    pictures = _write(summary, folder)
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), indent=1, allow_nan=False))
        return
    _show(summary)
    typer.echo("\n".join(str(folder / name) for name in ("tune.json", *pictures)))


def _write(summary: "SearchSummary", folder: Path) -> list[str]:
    from ..files import write_bytes, write_json
    from ..reporting import against_likelihood, against_options
    from ..reporting.style import to_png

    figures = {"tune.png": against_options({"": summary.search})}
    if summary.search.has_ood:
        figures["tune-likelihood.png"] = against_likelihood({"": summary.search})
    for name, figure in figures.items():
        write_bytes(folder / name, to_png(figure))
    write_json(folder / "tune.json", summary.to_dict())
    return list(figures)


def _show(summary: "SearchSummary") -> None:
    from rich.console import Console

    console = Console()
    console.print(summary.table())
    for line in summary.advice():
        console.print(f"- {line}", markup=False, highlight=False)
