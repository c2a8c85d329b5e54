"""Image data sets: which there are (`catalog`), where they come from (`sources`), how they are read (`formats`)."""

from .catalog import CATALOG, find
from .entry import DataSet
from .images import as_rgb, balanced_rows, binarise9, greyscale, select_classes, to_rgb32
from .loading import ImageSet, load, load_files

__all__ = [
    "CATALOG",
    "DataSet",
    "ImageSet",
    "as_rgb",
    "balanced_rows",
    "binarise9",
    "find",
    "greyscale",
    "load",
    "load_files",
    "select_classes",
    "to_rgb32",
]
