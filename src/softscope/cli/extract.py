"""`softscope extract MODEL DATA -o DIR`: features and head out of a trained classifier."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import options
from .options import AsJson, Quiet, numbers

if TYPE_CHECKING:
    from ..images import ImageSource
    from ..models import OpenedModel, WrittenSet

MODEL = "package.module:factory (with --weights), an .onnx file, a Hugging Face folder, hf:, timm: or torchvision:NAME."
Weights = Annotated[str | None, typer.Option(help="A state dict: .safetensors, or .pt with tensors only.")]
Classes = Annotated[
    str | None, typer.Option(help="Names of the model's outputs in their order: a,b,c or a file with one per line.")
]
Logits = Annotated[str | None, typer.Option(help="Position or key of the logits in what a torch model returns.")]
Device = Annotated[str | None, typer.Option(help="Where a torch model runs: cpu, cuda, mps.")]
Size = Annotated[int | None, options.whole("--size", "Side in pixels of what the model sees.", high=4096)]
Crop = Annotated[float | None, options.number("--crop", "Share of the short side kept, from the centre.", 0.1, 1.0)]
Interpolation = Annotated[
    Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] | None, typer.Option(help="How to resize.")
]
Mean = Annotated[str | None, typer.Option(help="Means of the channels, pixels from 0 to 1: 0.485,0.456,0.406.")]
Std = Annotated[str | None, typer.Option(help="Standard deviations, the same way.")]
Scale = Annotated[
    float | None, options.number("--scale", "What pixels are multiplied by before that, if not 1/255.", 1e-6, 1e3)
]
Bgr = Annotated[bool, typer.Option("--bgr", help="The model takes blue, green, red.")]
Channels = Annotated[int | None, options.whole("--channels", "1 (grey) or 3, if the model doesn't say.", high=3)]
Limit = Annotated[int | None, options.whole("--limit", "At most so many images per set, balanced over classes.")]
BatchSize = Annotated[int, options.whole("--batch", "Images per batch.", high=1 << 20)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what was understood and stop.")]


def extract(
    model: Annotated[str, typer.Argument(help=MODEL, metavar="MODEL")],
    data: Annotated[
        str,
        typer.Argument(help="A folder of images, a .parquet, .npz or .npy file, or a data set's name.", metavar="DATA"),
    ],
    out: Annotated[str, options.out("Folder for head.safetensors and <data set>-<split>.safetensors.")],
    weights: Weights = None,
    split: Annotated[list[str] | None, typer.Option(help="Only this split (repeatable).")] = None,
    layer: Annotated[Literal["after", "before"], typer.Option(help="The last non-linearity.")] = "after",
    classes: Classes = None,
    logits: Logits = None,
    device: Device = None,
    size: Size = None,
    crop: Crop = None,
    interpolation: Interpolation = None,
    mean: Mean = None,
    std: Std = None,
    scale: Scale = None,
    bgr: Bgr = False,
    channels: Channels = None,
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
    pixels = pixel_options(size, crop, interpolation, mean, std, scale, bgr, channels)
    with bar(show=not quiet) as progress:
        sources = _chosen(open_data(data), split, data)
        opener = partial(open_named, model, weights, classes, logits, device, pixels)
        plan = make_plan(opener(), sources, limit=limit, layer=layer)
        if not quiet or dry_run:
            typer.echo("\n".join(plan.lines()), err=not dry_run)
        if dry_run:
            return
        spread = None
        if where.name == "ray":
            from ..scoring import Spread

            spread = Spread(opener, where, batch, progress)
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
    return f"{written.path}: {written.rows:,} rows{accuracy}{bad}{' (was there already)' if written.cached else ''}"


def open_named(
    model: str, weights: str | None, classes: str | None, logits: str | None, device: str | None, pixels: dict[str, Any]
) -> "OpenedModel":
    """A network saved by us, or a model of the user's own."""
    from ..errors import SoftscopeError
    from ..models import class_names, open_model

    named: Any = model
    if Path(model).suffix.lower() == ".safetensors":
        if weights is not None:
            raise SoftscopeError(f"{model}: --weights go with a factory, package.module:function", "Omit --weights")
        from ..paper.nets import open_saved

        named = open_saved(model)
    key = int(logits) if logits is not None and logits.lstrip("-").isdigit() else logits
    return open_model(named, weights, classes=class_names(classes), output=key, device=device, **pixels)


def open_data(data: str) -> "dict[str, ImageSource]":
    """Images on disk, else a catalogued data set."""
    from ..images import open_splits

    if Path(data).exists() or Path(data).suffix.lower() in (".parquet", ".npz", ".npy") or "/" in data:
        return open_splits(data)
    from ..paper.datasets import open_catalogued

    return open_catalogued(data)


def pixel_options(
    size: int | None,
    crop: float | None,
    interpolation: str | None,
    mean: str | None,
    std: str | None,
    scale: float | None,
    bgr: bool,
    channels: int | None,
) -> dict[str, Any]:
    """The options of `Preprocessing` that the command line gave."""
    return {
        "size": None if size is None else (size, size),
        "crop": crop,
        "interpolation": interpolation,
        "mean": None if mean is None else tuple(numbers("--mean", mean)),
        "std": None if std is None else tuple(numbers("--std", std)),
        "scale": scale,
        "bgr": bgr or None,
        "channels": channels,
    }


def _chosen(sources: "dict[str, ImageSource]", split: list[str] | None, data: str) -> "dict[str, ImageSource]":
    from ..errors import SoftscopeError

    for name in split or ():
        if name not in sources:
            raise SoftscopeError(f"{data}: no split {name!r} here", f"There is {', '.join(sources)}")
    return {name: sources[name] for name in split} if split else sources
