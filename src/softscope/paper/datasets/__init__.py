"""Image data sets: which there are (`catalog.toml`), where they come from (`sources`), how to read them (`loading`)."""

from .catalog import CATALOG, DataSet, find
from .folders import overview, require_files, split_state
from .loading import CataloguedSplits, load
from .sources import get

__all__ = ["CATALOG", "CataloguedSplits", "DataSet", "find", "get", "load", "overview", "require_files", "split_state"]
