"""Images as people have them, to arrays of pixels: parquet files, their decoding, and images written for a report."""

from .decoding import Decoder, Encoded
from .loading import ImageSet, ImageSplits, ParquetSplits, choose_rows, load_files, spelled
from .parquet import count_rows, read_columns, read_images, read_labels
from .pixels import Images, as_rgb, balanced_rows, binarise9, fit_images, greyscale, select_classes, to_rgb32
from .writing import RawSplit, encode_png, write_images, write_split

__all__ = [
    "Decoder",
    "Encoded",
    "ImageSet",
    "ImageSplits",
    "Images",
    "ParquetSplits",
    "RawSplit",
    "as_rgb",
    "balanced_rows",
    "binarise9",
    "choose_rows",
    "count_rows",
    "encode_png",
    "fit_images",
    "greyscale",
    "load_files",
    "read_columns",
    "read_images",
    "read_labels",
    "select_classes",
    "spelled",
    "to_rgb32",
    "write_images",
    "write_split",
]
