"""`softscope extract MODEL DATA -o DIR`: features and head out of a trained classifier."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import printable
from . import options
from .opening import MODEL, BatchSize, DryRun, Limit, open_data, open_named, opens
from .options import AsJson, Quiet

if TYPE_CHECKING:
    from ..images import ImageSource
    from ..models import WrittenSet


@opens()
def extract(
    *,
    model: Annotated[str, typer.Argument(help=MODEL, metavar="MODEL")],
    data: Annotated[
        str,
        typer.Argument(help="A folder of images, a .parquet, .npz or .npy file, or a data set's name.", metavar="DATA"),
    ],
    out: Annotated[str, options.out("Folder for head.safetensors and <data set>-<split>.safetensors.")],
    split: Annotated[list[str] | None, typer.Option(help="Only this split (repeatable).")] = None,
    layer: Annotated[Literal["after", "before"], typer.Option(help="The last non-linearity.")] = "after",
    how: dict[str, Any],
    limit: Limit = None,
    batch: BatchSize = 64,
    keep_images: Annotated[bool, typer.Option("--keep-images", help="Write the images beside the features.")] = False,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: Annotated[int | None, options.whole("--workers", "Workers of Ray at once, if not one per core.")] = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the head of MODEL and its features of each split of DATA, checked against the model's own logits."""
    from ..engine import Engine
    from ..models import Options, make_plan, write_splits
    from ..progress import bar

    where = Engine(engine, workers, address)
    with bar(show=not quiet) as progress:
        sources = _chosen(open_data(data), split, data)
        opener = partial(open_named, model, how)
        plan = make_plan(opener(), sources, limit=limit, layer=layer)
        if not quiet or dry_run:
            typer.echo("\n".join(plan.lines()), err=not dry_run)
        if dry_run:
            return
        spread = None
        if where.name == "ray":
            from ..scoring import SpreadExtraction

            spread = SpreadExtraction(opener, where, batch, progress)
        written = write_splits(plan, Path(out).absolute(), Options(batch, keep_images, progress, spread))
    if as_json:
        told = {"head": str(Path(out) / "head.safetensors"), "classes": plan.head.n_classes}
        told |= {"features": plan.head.n_features, "sets": [asdict(each) for each in written]}
        typer.echo(json.dumps(told, indent=1))
        return
    typer.echo(f"{Path(out) / 'head.safetensors'}: {plan.head.n_classes} classes, {plan.head.n_features} features")
    for each in written:
        typer.echo(written_line(each))


def written_line(written: "WrittenSet") -> str:
    """A feature file in a line: rows, accuracy, images left out."""
    accuracy = "" if written.accuracy is None else f", accuracy {written.accuracy:.2%}"
    bad = f", {len(written.skipped)} bad images left out (first: {written.skipped[0]})" if written.skipped else ""
    cached = " (was there already)" if written.cached else ""
    return printable(f"{written.path}: {written.rows:,} rows{accuracy}{bad}{cached}")


def _chosen(sources: "dict[str, ImageSource]", split: list[str] | None, data: str) -> "dict[str, ImageSource]":
    from ..errors import SoftscopeError

    for name in split or ():
        if name not in sources:
            raise SoftscopeError(f"{data}: no split {name!r} here", f"There is {', '.join(sources)}")
    return {name: sources[name] for name in split} if split else sources
