"""The last linear layer of a classifier: `Head`, and the search for it in a torch model, imported when first used."""

from typing import TYPE_CHECKING

from ..lazy import lazily
from .linear import Head

if TYPE_CHECKING:
    from .search import Call as Call
    from .search import LastLayer as LastLayer
    from .search import find_last_layer as find_last_layer
    from .search import recording as recording
    from .search import rows_in as rows_in
    from .search import run as run
    from .search import to_device as to_device

__getattr__ = lazily(
    __name__, {"search": ("Call", "LastLayer", "find_last_layer", "recording", "rows_in", "run", "to_device")}
)
__all__ = ["Call", "Head", "LastLayer", "find_last_layer", "recording", "rows_in", "run", "to_device"]
