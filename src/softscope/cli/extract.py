"""`softscope extract MODEL DATA -o DIR`: features and head out of a trained classifier."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from . import options
from .options import AsJson, Quiet, numbers

if TYPE_CHECKING:
    from ..images import ImageSplits
    from ..models.opening import OpenedModel


def extract(
    model: Annotated[
        str,
        typer.Argument(help="A model saved by softscope, an .onnx file, or package.module:factory.", metavar="MODEL"),
    ],
    data: Annotated[
        str, typer.Argument(help="A data set's name, a parquet file, or a folder of them.", metavar="DATA")
    ],
    out: Annotated[str, options.out("Folder for head.safetensors and <split>.safetensors.")],
    weights: Annotated[
        str | None, typer.Option(help="Weights for a factory's model: .safetensors, or .pt with tensors only.")
    ] = None,
    split: Annotated[list[str] | None, typer.Option(help="Only this split (repeatable).")] = None,
    layer: Annotated[Literal["after", "before"], typer.Option(help="The last non-linearity.")] = "after",
    size: Annotated[
        int | None, options.whole("--size", "Resize the centre square of each image to this.", high=4096)
    ] = None,
    mean: Annotated[str, typer.Option(help="Channel means for models not ours, pixels 0 to 1.")] = "0,0,0",
    std: Annotated[str, typer.Option(help="Channel standard deviations, the same way.")] = "1,1,1",
    limit: Annotated[
        int | None, options.whole("--limit", "At most so many images per split, balanced over classes.")
    ] = None,
    batch: Annotated[int, options.whole("--batch", "Images per batch.", high=1 << 20)] = 256,
    keep_images: Annotated[bool, typer.Option("--keep-images", help="Write the images beside the features.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the head of MODEL and its features of each split of DATA, checked against the model's own logits."""
    from dataclasses import asdict

    from ..models.folder import Options, extract_to_folder
    from ..progress import bar

    with bar(show=not quiet) as progress:
        how = Options(layer, size, limit, batch, keep_images, progress)
        opened = _open_model(model, weights, numbers("--mean", mean), numbers("--std", std))
        written = extract_to_folder(opened, _open_data(data), out, splits=split or (), options=how)
    if as_json:
        typer.echo(json.dumps(asdict(written), indent=1))
        return
    typer.echo(f"{written.head}: {written.classes} classes, {written.features} features")
    for part in written.splits:
        accuracy = "" if part.accuracy is None else f", accuracy {part.accuracy:.2%}"
        typer.echo(f"{part.path}: {part.rows:,} rows{accuracy}")
        if part.subset:
            print(f"note: {part.subset}", file=sys.stderr)


def _open_model(model: str, weights: str | None, mean: list[float], std: list[float]) -> "OpenedModel":
    """A network saved by us, or a model of the user's own."""
    from ..errors import SoftscopeError
    from ..models.opening import open_model

    if Path(model).suffix.lower() == ".onnx" or (":" in model and not Path(model).exists()):
        return open_model(model, weights, mean=mean, std=std)
    if weights is not None:
        raise SoftscopeError(f"{model}: --weights go with a factory, package.module:function", "Omit --weights")
    from ..paper.nets.saving import open_saved

    return open_saved(model)


def _open_data(data: str) -> "ImageSplits":
    """A parquet file or a folder of them, else a catalogued data set."""
    from ..images import ParquetSplits

    if Path(data).suffix.lower() == ".parquet" or Path(data).is_dir():
        return ParquetSplits(data)
    from ..paper.datasets import CataloguedSplits

    return CataloguedSplits(data)
