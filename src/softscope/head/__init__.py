"""The last linear layer of a classifier: `Head`, and the search for it in a torch model (`search`, imported on use)."""

from .linear import Head

__all__ = ["Head"]
