"""safetensors files: tensors `z` [N, H] and, optionally, `labels` [N], read by offset."""

import os

import numpy as np

from ..arrays import as_labels, check_labels, check_real, check_shape
from ..errors import SoftscopeError
from ..files import read_into, safetensors_header
from .sources import Opened, RawSource, UnchangedFile


def open_safetensors(path: str | os.PathLike[str], *, labels: bool = True) -> Opened:
    """The features, labels and metadata of a safetensors file; only the header and the labels are read."""
    file = UnchangedFile.of(path)
    entries, metadata = safetensors_header(path)
    if "z" not in entries:
        raise SoftscopeError(
            f"{path}: expected tensors 'z' and 'labels', found {', '.join(sorted(entries)) or 'nothing'}",
            "Save it with FeatureSet(z, labels).save(path)",
        )
    name, entry = f"{path}: z", entries["z"]
    dtype = entry.numpy_dtype(name)
    check_real(dtype, name)
    check_shape(entry.shape, name)
    source = RawSource(file, name, entry.shape, dtype, entry.start, by_column=False)
    known = None
    if labels and "labels" in entries:
        name, entry = f"{path}: labels", entries["labels"]
        dtype = entry.numpy_dtype(name)
        check_labels(dtype, entry.shape, name, rows=source.shape[0])
        stored = np.empty(entry.shape, dtype)
        with file.open() as stream:
            read_into(stream, stored, entry.start, path)
        known = as_labels(stored, name, rows=source.shape[0])
    return Opened(source, known, metadata)
