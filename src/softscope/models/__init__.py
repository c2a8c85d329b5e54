"""Any trained classifier whose last layer is linear, logits = W z + b: its head and its features, checked.

    head, train = extract(model, data)                       # any model and data, see `extract`
    train = extract_features(model, images, labels)          # a torch model and arrays, as the paper wing uses it

torch and onnxruntime are imported when a model is first looked at.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .extracting import extract as extract
    from .extracting import extract_sets as extract_sets
    from .opening import open_model as open_model
    from .torch import extract_features as extract_features

_HOMES = {"extract": "extracting", "extract_sets": "extracting", "open_model": "opening", "extract_features": "torch"}
__all__ = ["extract", "extract_features", "extract_sets", "open_model"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'softscope.models' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
