"""How the pixels of an image become what a model takes, as data: size, crop, channels, scale, mean and deviation."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from ..errors import SoftscopeError
from .decoding import Decoder
from .pixels import Images, fit_images

Layout = Literal["NCHW", "NHWC", "pixels"]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """Pixels of 0 to 255 become (x * scale - mean) / std, as [N, C, H, W] or [N, H, W, C].

    `size` is (height, width), None for images as they are; `crop` and `squash` are those of `Decoder`. `bgr` turns the
    order of the channels. The layout `pixels` hands the model uint8 [N, H, W, C] as it is: it does the rest itself.
    `source` says where this comes from.

    >>> import numpy as np
    >>> pixels = np.full((1, 4, 4, 3), 255, np.uint8)
    >>> Preprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)).apply(pixels).shape
    (1, 3, 4, 4)
    """

    size: tuple[int, int] | None = None
    channels: int = 3
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float = 1 / 255
    crop: float = 1.0
    interpolation: str = "bilinear"
    squash: bool = False
    bgr: bool = False
    layout: Layout = "NCHW"
    source: str = "default"

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise SoftscopeError(f"channels {self.channels}", "Give 1 (grey) or 3 (colour)")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.channels) or not np.isfinite(values).all():
                raise SoftscopeError(
                    f"{name} {', '.join(map(str, values))}: {len(values)} numbers for {self.channels} channels",
                    f"Give one number, or {self.channels}",
                )
        if min(self.std) <= 0:
            raise SoftscopeError(f"std {', '.join(map(str, self.std))}", "Give deviations above 0")

    def changed(self, **options: Any) -> "Preprocessing":
        """This with the options that aren't None in place of its own."""
        given = {name: value for name, value in options.items() if value is not None}
        if unknown := set(given) - (own := {each.name for each in fields(self)} - {"source"}):
            raise SoftscopeError(f"{', '.join(sorted(unknown))}: unknown option", f"Use {', '.join(sorted(own))}")
        if isinstance(given.get("size"), int):
            given["size"] = (given["size"], given["size"])
        source = "flags" if self.source == "default" else f"{self.source}, flags"
        return replace(self, **given, source=source) if given else self

    def decoder(self) -> Decoder:
        """Decodes images to the size and channels asked for."""
        raw = self.layout == "pixels"
        return Decoder(
            channels=0 if raw else self.channels,
            size=self.size,
            crop=self.crop,
            interpolation=self.interpolation,
            squash=self.squash,
        )

    def apply(self, pixels: Images) -> Any:
        """Decoded pixels uint8 [N, H, W, C] as the model takes them."""
        if self.layout == "pixels":
            return fit_images(pixels, (*(self.size or (None, None)), self.channels))
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        x = (pixels[..., ::-1] if self.bgr else pixels).astype(np.float32) * np.float32(self.scale)
        x = (x - mean) / std
        return np.ascontiguousarray(np.moveaxis(x, 3, 1) if self.layout == "NCHW" else x)

    def __str__(self) -> str:
        """In a line, for the terminal."""
        size = "size as it is" if self.size is None else f"{self.size[1]} x {self.size[0]}"
        how = "squashed" if self.squash else f"centre {self.crop:.0%} of the short side, {self.interpolation}"
        colour = "grey" if self.channels == 1 else "BGR" if self.bgr else "RGB"
        if self.layout == "pixels":
            return f"{size}, {colour}, pixels as they are (from {self.source})"
        numbers = f"mean {_listed(self.mean)}, std {_listed(self.std)}, pixels {_listed((255 * self.scale,))} at white"
        return f"{size}{'' if self.size is None else f' ({how})'}, {colour}, {numbers} (from {self.source})"

    def flags(self) -> str:
        """The options of the command line that ask for this."""
        parts = [f"--mean {_listed(self.mean)}", f"--std {_listed(self.std)}"]
        if abs(self.scale - 1 / 255) > 1e-9:
            parts.append(f"--scale {self.scale:g}")
        return " ".join([*parts, *(["--bgr"] if self.bgr else [])])


def pixels_as_they_are(shape: tuple[int | None, ...]) -> Preprocessing:
    """For networks that take uint8 pixels [N, *shape], shape (height, width, channels), and scale them themselves."""
    *sides, channels = shape
    size = (int(sides[0]), int(sides[1])) if len(sides) == 2 and sides[0] and sides[1] else None
    kept = channels if channels in (1, 3) else 1
    return Preprocessing(size=size, channels=kept, interpolation="bicubic", layout="pixels", source="the network")


def alternatives(chosen: Preprocessing) -> dict[str, Preprocessing]:
    """The usual ways to scale pixels other than `chosen`, by the names people give them."""
    zero, one = (0.0,), (1.0,)
    ways = {"pixels 0 to 1": replace(chosen, mean=zero, std=one, scale=1 / 255)}
    ways["pixels -1 to 1"] = replace(chosen, mean=(0.5,), std=(0.5,), scale=1 / 255)
    ways["pixels 0 to 255"] = replace(chosen, mean=zero, std=one, scale=1.0)
    if chosen.channels == 3:
        ways["ImageNet's mean and std"] = replace(chosen, mean=IMAGENET_MEAN, std=IMAGENET_STD, scale=1 / 255)
        ways["BGR"] = replace(chosen, bgr=not chosen.bgr)
    return {name: way for name, way in ways.items() if way != chosen}


def _listed(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)
