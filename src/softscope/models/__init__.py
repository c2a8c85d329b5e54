"""Features out of a trained classifier whose last layer is linear: logits = W z + b.

    head = Head.from_torch(model)                            # the last layer
    train = extract_features(model, images, labels)          # what it sees, one row per input

torch is imported when a model is first looked at.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .torch import extract_features as extract_features

__all__ = ["extract_features"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'softscope.models' has no attribute {name!r}")
    from . import torch

    return getattr(torch, name)
