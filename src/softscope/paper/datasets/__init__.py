"""Image data sets: which there are (`catalog.toml`), where they come from (`sources`), how to read them (`loading`)."""

from .catalog import CATALOG, DataSet, find
from .folders import overview, require_files, split_state
from .loading import load, open_catalogued
from .sources import get

__all__ = ["CATALOG", "DataSet", "find", "get", "load", "open_catalogued", "overview", "require_files", "split_state"]
