"""Image data sets: which there are (`catalog`), where they come from (`sources`), how they are read (`loading`)."""

from .catalog import CATALOG, find
from .entry import DataSet
from .loading import load

__all__ = ["CATALOG", "DataSet", "find", "load"]
