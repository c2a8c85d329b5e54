"""Image data sets: which there are (`catalog.toml`), where they come from (`sources`), what is here (`folders`)."""

from .catalog import CATALOG, DataSet, find
from .folders import load, open_catalogued, overview, require_files, split_state
from .sources import get

__all__ = ["CATALOG", "DataSet", "find", "get", "load", "open_catalogued", "overview", "require_files", "split_state"]
