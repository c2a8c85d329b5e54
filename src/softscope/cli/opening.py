"""How the commands open a model and its images: the options that several of them share, each spelled once.

A command that is decorated with `opens` has these options in place of its parameter `how`, which gets them as a dict.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import options
from .options import numbers

if TYPE_CHECKING:
    from ..images import ImageSource
    from ..models import OpenedModel

MODEL = "package.module:factory (with --weights), an .onnx file, a Hugging Face folder, hf:, timm: or torchvision:NAME."

_Word = str | None
_OPTIONS: dict[str, Any] = {
    "weights": Annotated[_Word, typer.Option(help="A state dict: .safetensors, or .pt with tensors only.")],
    "classes": Annotated[
        _Word, typer.Option(help="Names of the model's outputs in their order: a,b,c or a file with one per line.")
    ],
    "logits": Annotated[_Word, typer.Option(help="Position or key of the logits in what a torch model returns.")],
    "device": Annotated[_Word, typer.Option(help="Where a torch model runs: cpu, cuda, mps.")],
    "size": Annotated[int | None, options.whole("--size", "Side in pixels of what the model sees.", high=4096)],
    "crop": Annotated[
        float | None, options.number("--crop", "Share of the short side kept, from the centre.", 0.1, 1.0)
    ],
    "interpolation": Annotated[
        Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] | None,
        typer.Option(help="How to resize."),
    ],
    "mean": Annotated[_Word, typer.Option(help="Means of the channels, pixels from 0 to 1: 0.485,0.456,0.406.")],
    "std": Annotated[_Word, typer.Option(help="Standard deviations, the same way.")],
    "scale": Annotated[
        float | None, options.number("--scale", "What pixels are multiplied by before that, if not 1/255.", 1e-6, 1e3)
    ],
    "bgr": Annotated[bool, typer.Option("--bgr", help="The model takes blue, green, red.")],
    "channels": Annotated[int | None, options.whole("--channels", "1 (grey) or 3, if the model doesn't say.", high=3)],
}
PIXELS = ("size", "crop", "interpolation", "mean", "std", "scale", "bgr")
SCORED = ("weights", "logits", "device", *PIXELS, "channels")
Limit = Annotated[int | None, options.whole("--limit", "At most so many images per set, balanced over classes.")]
BatchSize = Annotated[int, options.whole("--batch", "Images per batch.", high=1 << 20)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what was understood and stop.")]


def opens(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the options `names` (all unless given) stand where the command has its parameter `how`."""
    chosen = names or tuple(_OPTIONS)
    spread = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=False if name == "bgr" else None, annotation=_OPTIONS[name])
        for name in chosen
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command).parameters.values()
        parts = [spread if each.name == "how" else [each.replace(kind=Parameter.KEYWORD_ONLY)] for each in own]
        parameters = [parameter for part in parts for parameter in part]

        @wraps(command)
        def run(**given: Any) -> None:
            command(how={name: given.pop(name) for name in chosen}, **given)

        run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def pixel_options(how: dict[str, Any]) -> dict[str, Any]:
    """The options of `Preprocessing` that the command line gave."""
    size = how["size"]
    return {
        **{name: how.get(name) for name in ("crop", "interpolation", "scale", "channels")},
        **{name: tuple(numbers(f"--{name}", how[name])) for name in ("mean", "std") if how[name] is not None},
        "size": None if size is None else (size, size),
        "bgr": how["bgr"] or None,
    }


def open_named(model: str, how: dict[str, Any]) -> "OpenedModel":
    """A network saved by us, or a model of the user's own."""
    from ..errors import SoftscopeError
    from ..models import class_names, open_model

    named: Any = model
    if Path(model).suffix.lower() == ".safetensors":
        if how["weights"] is not None:
            raise SoftscopeError(f"{model}: --weights go with a factory, package.module:function", "Omit --weights")
        from ..paper.nets import open_saved

        named = open_saved(model)
    key = how["logits"]
    output = int(key) if key is not None and key.lstrip("-").isdigit() else key
    classes = class_names(how.get("classes"))
    return open_model(named, how["weights"], classes=classes, output=output, device=how["device"], **pixel_options(how))


def open_data(data: str) -> "dict[str, ImageSource]":
    """Images on disk, else a catalogued data set."""
    from ..images import open_splits

    if Path(data).exists() or Path(data).suffix.lower() in (".parquet", ".npz", ".npy") or "/" in data:
        return open_splits(data)
    from ..paper.datasets import open_catalogued

    return open_catalogued(data)
