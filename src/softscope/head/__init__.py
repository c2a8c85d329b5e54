"""The last linear layer of a classifier: `Head`, and the search for it in a torch model, imported when first used."""

from typing import TYPE_CHECKING

from ..lazy import lazily
from .linear import Head

if TYPE_CHECKING:
    from .search import LastLayer, close, find_last_layer, to_device

__getattr__ = lazily(__name__, {"search": ("LastLayer", "close", "find_last_layer", "to_device")})

__all__ = ["Head", "LastLayer", "close", "find_last_layer", "to_device"]
