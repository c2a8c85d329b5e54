"""Images as people have them, to arrays of pixels: folders, parquet, npz, arrays; preprocessing as data."""

from .decoding import Decoder, Encoded
from .loading import ImageSet, choose_rows, load_files, match_classes, spelled
from .parquet import (
    RawSplit,
    count_rows,
    encode_png,
    read_columns,
    read_images,
    read_labels,
    write_images,
    write_split,
    write_thumbnails,
)
from .pixels import Images, as_rgb, balanced_rows, binarise9, fit_images, greyscale, select_classes, to_rgb32
from .preprocessing import Preprocessing, alternatives, pixels_as_they_are
from .probes import PROBES, probe_images
from .sources import SPLITS, ArrayImages, FolderImages, ImageSource, ParquetImages, open_images, open_splits

__all__ = [
    "PROBES", "SPLITS", "ArrayImages", "Decoder", "Encoded", "FolderImages", "ImageSet", "ImageSource", "Images",
    "ParquetImages", "Preprocessing", "RawSplit", "alternatives", "as_rgb", "balanced_rows", "binarise9",
    "choose_rows", "count_rows", "encode_png", "fit_images", "greyscale", "load_files", "match_classes",
    "open_images", "open_splits", "pixels_as_they_are", "probe_images", "read_columns", "read_images",
    "read_labels", "select_classes", "spelled", "to_rgb32", "write_images", "write_split", "write_thumbnails",
]  # fmt: skip
