"""Sets of images as people have them, each read block by block: folders, parquet files, npz and npy files, arrays.

`open_images` opens one set, `open_splits` a folder of several: train, test, val and, under ood/, unfamiliar ones.
"""

import hashlib
import json
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels, memory_bytes, spans
from ..errors import SoftscopeError
from ..files import existing, reading
from .decoding import Encoded
from .parquet import count_rows, read_columns, read_images, read_labels

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp")
SPLITS = ("train", "test", "val", "valid", "validation")
_BLOCK_ROWS = 256
_LABELS = ("labels", "label", "y", "targets")
_NAMES = ("classes", "class_names")


class ImageSource(ABC):
    """A set of images with, where known, labels [N] and the names they count through.

    `notes` says what was left aside when it was opened.
    """

    name: str
    labels: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    folder: Path | None = None  # where the files are

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def blocks(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        """The images of the ascending `rows`, in blocks."""

    @abstractmethod
    def fingerprint(self) -> str:
        """The same for the same images: made from names, sizes and times of files, or from the pixels of arrays."""


class FolderImages(ImageSource):
    """Image files under a folder: one subfolder per class, or without subfolders (unlabelled).

    Files are ordered by their path. Links that lead out of the folder, and links to folders, are not followed.
    """

    def __init__(self, path: str | os.PathLike[str], name: str | None = None, *, labelled: bool = True) -> None:
        self.folder: Path = existing(path)
        self.name = name or self.folder.name
        self.files, outside, others = _image_files(self.folder)
        if not self.files:
            raise SoftscopeError(
                f"{path}: no image in this folder ({others} other files)", f"Give images: {' '.join(EXTENSIONS)}"
            )
        notes = [f"{outside} links to folders or out of the folder were not followed"] if outside else []
        folders = [entry.name for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]
        classes = sorted(name for name in folders if not name.startswith("."))
        loose = sum(os.sep not in file for file in self.files)
        if labelled and classes and not loose:
            number = {each: c for c, each in enumerate(classes)}
            self.labels = np.array([number[file.split(os.sep)[0]] for file in self.files], dtype=np.int64)
            self.class_names = tuple(classes)
            empty = [classes[c] for c in np.flatnonzero(np.bincount(self.labels, minlength=len(classes)) == 0)]
            notes += [f"class folder {each!r} has no image" for each in empty[:3]]
        elif labelled and classes:
            notes.append(f"{loose} images lie beside the class folders, so the set has no labels")
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self.files)

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        for span in spans(len(rows), _BLOCK_ROWS):
            paths = [self.folder / self.files[row] for row in rows[span].tolist()]
            yield Encoded([_bytes_of(path) for path in paths], [str(path) for path in paths])

    def fingerprint(self) -> str:
        listed = [(file, *_state(self.folder / file)) for file in self.files]
        return _hash([str(self.folder.resolve()), listed])


class ParquetImages(ImageSource):
    """Images in parquet files of the hub's layout; `expected` are class names for files that have none."""

    def __init__(self, paths: Sequence[Path], name: str | None = None, expected: tuple[str, ...] = ()) -> None:
        self.paths = list(paths)
        self.folder = self.paths[0].parent
        self.name = name or self.paths[0].stem
        columns = read_columns(self.paths[0], labelled=False)
        self._rows = count_rows(self.paths)
        if self._rows == 0:
            raise SoftscopeError(f"{self.paths[0]}: holds no rows", "Give at least one image")
        if columns.label is not None:
            self.class_names = columns.class_names or expected or None
            self.labels = read_labels(self.paths, classes=len(self.class_names) if self.class_names else None)

    def __len__(self) -> int:
        return self._rows

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        return read_images(self.paths, rows)

    def fingerprint(self) -> str:
        return _hash([(str(path.resolve()), *_state(path)) for path in self.paths])


class ArrayImages(ImageSource):
    """Pixels uint8 [N, H, W], [N, H, W, C] or [N, C, H, W] (C 1 or 3) in memory."""

    def __init__(
        self, images: Any, labels: Any = None, classes: Sequence[str] | None = None, name: str = "images"
    ) -> None:
        pixels = np.asanyarray(images)
        if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
            raise SoftscopeError(
                f"{name}: expected uint8 images [N, H, W] or [N, H, W, C], found {pixels.dtype} {list(pixels.shape)}",
                "Multiply values of 0 to 1 by 255 and use .astype(np.uint8)",
            )
        if pixels.ndim == 4 and pixels.shape[3] not in (1, 3):
            if pixels.shape[1] not in (1, 3):
                raise SoftscopeError(f"{name}: shape {list(pixels.shape)}", "Give images of 1 or 3 channels")
            pixels = np.moveaxis(pixels, 1, 3)
        if len(pixels) == 0:
            raise SoftscopeError(f"{name}: holds no images", "Give at least one image")
        self.pixels, self.name = pixels, name
        self.labels = None if labels is None else as_labels(labels, f"{name}: labels", rows=len(pixels))
        self.class_names = None if classes is None else tuple(map(str, classes))

    def __len__(self) -> int:
        return len(self.pixels)

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        for span in spans(len(rows), _BLOCK_ROWS):
            numbers = rows[span]
            content = np.ascontiguousarray(self.pixels[numbers])
            yield Encoded(list(content), [f"{self.name} row {row}" for row in numbers.tolist()])

    def fingerprint(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.pixels).data).hexdigest()


def open_images(path: str | os.PathLike[str], name: str | None = None, *, labelled: bool = True) -> ImageSource:
    """One set of images: a folder, a parquet, npz or npy file, or a folder of parquet files."""
    place = existing(path)
    if place.is_dir():
        parquet = sorted(place.glob("*.parquet"))
        beginnings = {file.stem.split("-")[0] for file in parquet}
        splits = [split for split in SPLITS if split in beginnings or (not parquet and (place / split).is_dir())]
        if len(splits) > 1 or (splits and not parquet):
            one = next(place.glob(f"{splits[0]}*"))
            raise SoftscopeError(f"{path}: holds {', '.join(splits)}, not one set", f"Give one of them: {one}")
        return ParquetImages(parquet, name) if parquet else FolderImages(place, name, labelled=labelled)
    suffix = place.suffix.lower()
    if not place.is_file():
        raise SoftscopeError(f"{path}: neither a file nor a folder", "Give a folder of images or a file of them")
    if suffix == ".parquet":
        return ParquetImages([place], name)
    if suffix in (".npz", ".npy"):
        return _numpy_images(place, name or place.stem)
    raise SoftscopeError(
        f"{path}: expected a folder of images, or a .parquet, .npz or .npy file", "Put images into a folder per class"
    )


def open_splits(path: str | os.PathLike[str]) -> dict[str, ImageSource]:
    """The sets under a folder: `train`, `test`, `val` ..., `ood/NAME` for each under ood/; or the folder as one set."""
    place = existing(path)
    if not place.is_dir():
        return {place.stem.split("-")[0]: open_images(place)}
    parquet: dict[str, list[Path]] = {}
    for file in sorted(place.glob("*.parquet")):
        parquet.setdefault(file.stem.split("-")[0], []).append(file)
    if parquet:
        return {split: ParquetImages(files, place.name) for split, files in parquet.items()}
    folders = {entry.name: Path(entry.path) for entry in os.scandir(place) if entry.is_dir()}
    splits = {split: open_images(folders[split], place.name) for split in SPLITS if split in folders}
    if not splits:
        return {place.name: FolderImages(place)}
    if "ood" in folders:
        splits |= _unfamiliar(folders["ood"])
    return splits


def _unfamiliar(folder: Path) -> dict[str, ImageSource]:
    """Each set under ood/: a subfolder or a file; images that lie in the folder itself are one set."""
    entries = sorted(folder.iterdir())
    if any(entry.suffix.lower() in EXTENSIONS for entry in entries):
        return {"ood/ood": FolderImages(folder, "ood", labelled=False)}
    shown = [entry for entry in entries if not entry.name.startswith(".")]
    names = {entry.stem if entry.is_file() else entry.name: entry for entry in shown}
    return {f"ood/{name}": open_images(entry, name, labelled=False) for name, entry in names.items()}


def _image_files(folder: Path) -> tuple[list[str], int, int]:
    """Paths of image files under the folder, relative to it and sorted; links not followed; how many other files."""
    root = str(folder.resolve())
    files, outside, others = [], 0, 0

    def failed(error: OSError) -> None:
        raise SoftscopeError(f"{error.filename}: can't be read ({error.strerror})", "Check its permissions") from error

    for base, folders, names in os.walk(folder, onerror=failed):
        outside += sum(os.path.islink(os.path.join(base, name)) for name in folders)
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(base, name)
            if not name.lower().endswith(EXTENSIONS):
                others += 1
            elif os.path.islink(path) and not os.path.realpath(path).startswith(root + os.sep):
                outside += 1
            elif os.path.isfile(path):
                files.append(os.path.relpath(path, folder))
    return sorted(files), outside, others


def _bytes_of(path: Path) -> bytes | None:
    """The file's content, or None (a bad image) where it went away or can't be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _numpy_images(path: Path, name: str) -> ArrayImages:
    with reading(path, path.suffix[1:]):
        if path.suffix.lower() == ".npy":
            return ArrayImages(np.load(path, mmap_mode="r", allow_pickle=False), name=name)
        with zipfile.ZipFile(path) as archive:
            _check_room(path, sum(member.file_size for member in archive.infolist()))
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    images = [key for key, array in arrays.items() if array.dtype == np.uint8 and array.ndim in (3, 4)]
    if len(images) != 1:
        held = ", ".join(f"{key} {array.dtype} {list(array.shape)}" for key, array in arrays.items()) or "nothing"
        raise SoftscopeError(f"{path}: expected one uint8 array [N, H, W, C] of images, found {held}", "Save one")
    labels = next((arrays[key] for key in _LABELS if key in arrays), None)
    names = next((arrays[key].tolist() for key in _NAMES if key in arrays and arrays[key].dtype.kind == "U"), None)
    return ArrayImages(arrays[images[0]], labels, names, name)


# Images shrink ten times at most; a file that unpacks to hundreds of times its size is made to fill memory.
_UNPACKED_BYTES, _UNPACKED_TIMES = 1 << 29, 200


def _check_room(path: Path, needed: int) -> None:
    if needed > 0.8 * memory_bytes() or needed > max(_UNPACKED_BYTES, _UNPACKED_TIMES * path.stat().st_size):
        raise SoftscopeError(
            f"{path}: would unpack to {needed / 2**30:.1f} GiB", "Save it as .npy, which isn't unpacked"
        )


def _state(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
