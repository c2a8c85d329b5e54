"""`softscope extract MODEL DATA -o DIR`: features and head out of a trained classifier."""

import json
import sys
from typing import Annotated

import typer


def extract(
    model: Annotated[
        str,
        typer.Argument(help="A model saved by softscope, an .onnx file, or package.module:factory.", metavar="MODEL"),
    ],
    data: Annotated[
        str, typer.Argument(help="A data set's name, a parquet file, or a folder of them.", metavar="DATA")
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="Folder for head.safetensors and <split>.safetensors.")],
    weights: Annotated[
        str | None, typer.Option(help="Weights for a factory's model: .safetensors, or .pt with tensors only.")
    ] = None,
    split: Annotated[list[str] | None, typer.Option(help="Only this split (repeatable).")] = None,
    layer: Annotated[str, typer.Option(help="after or before the last non-linearity.")] = "after",
    size: Annotated[int | None, typer.Option(help="Resize the centre square of each image to this.")] = None,
    mean: Annotated[str, typer.Option(help="Channel means for models not ours, pixels 0 to 1.")] = "0,0,0",
    std: Annotated[str, typer.Option(help="Channel standard deviations, the same way.")] = "1,1,1",
    limit: Annotated[int | None, typer.Option(help="At most so many images a split, balanced over classes.")] = None,
    batch: Annotated[int, typer.Option(help="Images a batch.")] = 256,
    keep_images: Annotated[bool, typer.Option("--keep-images", help="Write the images beside the features.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write the head of MODEL and its features of each split of DATA, checked against the model's own logits."""
    from dataclasses import asdict

    from ..errors import SoftscopeError
    from ..extract.collecting import Layer
    from ..extract.folder import Options, extract_to_folder
    from ..extract.models import open_model

    if layer != "after" and layer != "before":
        raise SoftscopeError(f"--layer {layer}: no such layer", "Choose after or before (the last non-linearity)")
    opened = open_model(model, weights, mean=_numbers("--mean", mean), std=_numbers("--std", std))
    where: Layer = "before" if layer == "before" else "after"
    options = Options(where, size, limit, batch, keep_images, progress=not quiet)
    written = extract_to_folder(opened, data, out, splits=split or (), options=options)
    if as_json:
        typer.echo(json.dumps(asdict(written), indent=1))
        return
    typer.echo(f"{written.head}: {written.classes} classes, {written.features} features")
    for part in written.splits:
        accuracy = "" if part.accuracy is None else f", accuracy {part.accuracy:.2%}"
        typer.echo(f"{part.path}: {part.rows:,} rows{accuracy}")
        if part.subset:
            print(f"note: {part.subset}", file=sys.stderr)


def _numbers(option: str, text: str) -> list[float]:
    from ..errors import SoftscopeError

    try:
        return [float(word) for word in text.split(",")]
    except ValueError as error:
        raise SoftscopeError(f"{option} {text}: no list of numbers", "Write it as 0.485,0.456,0.406") from error
