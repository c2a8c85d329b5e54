"""Images to features, with a model that every worker opens for itself; decoded ahead of the model in threads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice, tee
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import spans
from ..canonical import fingerprint, plain
from ..errors import SoftscopeError
from ..head import Head
from ..images import Decoder, Encoded, Images, Preprocessing, count_rows, read_images
from ..models import OpenedModel
from .folders import InputFile, is_address, local_copy, read_bytes
from .plan import Piece, Unit
from .rows import NO_ROW, RowBlock

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".parquet")
UNIT_IMAGES = 1024  # decoded to 224 x 224 these are 150 MB
_BLOCK_IMAGES = 128
_BATCH = 64


class DecodedRows(NamedTuple):
    """Decoded inputs: path and row of each, `images` of those at `positions`, and the reason for the others."""

    path: Sequence[str]
    row: NDArray[np.int64]
    images: Images
    positions: NDArray[np.int64]
    bad: Mapping[int, str]


@dataclass(frozen=True)
class Pictures:
    """`opener()` opens the model; `preprocessing` is the model's own with a size, so that every image fits."""

    opener: Callable[[], OpenedModel]
    preprocessing: Preprocessing

    @classmethod
    def of(cls, opener: Callable[[], OpenedModel], files: Sequence[InputFile]) -> "Pictures":
        """Of a model that may not say which size it takes: then that of the first image that can be decoded."""
        chosen = opener().preprocessing
        return cls(opener, chosen if chosen.size is not None else replace(chosen, size=_first_size(files, chosen)))

    def __reduce__(self) -> Any:
        return Pictures, (self.opener, self.preprocessing)  # never the open model: each worker opens its own

    @cached_property
    def _model(self) -> tuple[OpenedModel, Head]:
        opened = self.opener()
        opened.preprocessing = self.preprocessing
        shape = (*(self.preprocessing.size or (1, 1)), self.preprocessing.channels)
        noise = np.random.default_rng(0).integers(0, 256, (2, *shape), dtype=np.uint8)
        return opened, opened.prepare(self.preprocessing.apply(noise))

    def identity(self) -> str:
        """The same for the same model and preprocessing."""
        return fingerprint({"model": self._model[0].fingerprint(), "preprocessing": plain(self.preprocessing)})

    def check_head(self, head: Head) -> None:
        """Raise unless the model's last layer is the one that a guard was fitted with."""
        own = self._model[1]
        same = own.weight.shape == head.weight.shape and np.allclose(own.weight, head.weight, rtol=1e-5, atol=1e-7)
        if not (same and np.allclose(own.bias, head.bias, rtol=1e-5, atol=1e-7)):
            raise SoftscopeError(
                f"the guard was fitted for another head than that of {self._model[0].name}",
                "Fit it on features of this model (softscope extract, softscope guard fit)",
            )

    def blocks(self, unit: Unit) -> Iterator[DecodedRows]:
        """The images of a unit, decoded in threads that work ahead."""
        ahead, known = tee(_encoded(unit))
        encoded = (Encoded(content, [str(number) for number in range(len(rows))]) for _, rows, content, _ in ahead)
        decoder = replace(self.preprocessing, layout="NHWC").decoder()  # as grey or colour as the model takes it
        for decoded, (paths, rows, _, unreadable) in zip(decoder.decode_all(encoded), known):
            named = (words.partition(": ") for words in decoded.bad)
            bad = {int(number): f"is not an image that can be decoded ({reason})" for number, _, reason in named}
            yield DecodedRows(
                paths, rows, decoded.images, np.array(decoded.positions, np.int64), bad | dict(unreadable)
            )

    def features(self, pixels: DecodedRows) -> RowBlock:
        """What the model's last layer sees of each image, checked against the model's own logits."""
        from ..models import check_logits

        opened, head = self._model
        z = np.full((len(pixels.row), head.n_features), np.nan, np.float32)
        for span in spans(len(pixels.images), _BATCH):
            _, some, logits = opened.read(self.preprocessing.apply(pixels.images[span]))
            sound = np.isfinite(some).all(axis=1) & np.isfinite(logits).all(axis=1)
            if sound.any():
                check_logits(head, some[sound], logits[sound], span.start, opened.tolerance)
            z[pixels.positions[span][sound]] = some[sound]
        return RowBlock(pixels.path, pixels.row, z, pixels.bad)


def count_images(path: str) -> int:
    """1 for an image; for a parquet file its rows, 0 where that can't be said."""
    if not _is_parquet(path):
        return 1
    try:
        return 0 if is_address(path) else count_rows([Path(path)])
    except SoftscopeError:
        return 0


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


_Known = tuple[Sequence[str], NDArray[np.int64], Sequence[bytes | NDArray[np.uint8] | None], Mapping[int, str]]


def _encoded(unit: Unit) -> Iterator[_Known]:
    """Paths, rows, encoded images, and the reasons where there are none, in blocks."""
    for is_parquet, pieces in groupby(unit.pieces, key=lambda piece: _is_parquet(piece.file.path)):
        if is_parquet:
            for piece in pieces:
                piece.file.check_unchanged()
                yield from _parquet(piece)
        else:
            while single := [piece.file for piece in islice(pieces, _BLOCK_IMAGES)]:
                yield _files(single)


def _files(files: Sequence[InputFile]) -> _Known:
    for file in files:
        file.check_unchanged()
    paths = [file.path for file in files]
    return paths, np.zeros(len(paths), np.int64), [read_bytes(path) for path in paths], {}


def _parquet(piece: Piece) -> Iterator[_Known]:
    path = piece.file.path
    with local_copy(path) as copy:
        row, stop = NO_ROW, NO_ROW + 1
        try:
            count = count_rows([copy])
            row, stop = piece.first, count if piece.stop is None else piece.stop
            for block in read_images([copy], np.arange(row, stop)):
                rows = np.arange(row, row + len(block.content))
                yield [path] * len(rows), rows, block.content, {}
                row += len(rows)
        except SoftscopeError as error:
            reason = error.what.replace(str(copy), path).removeprefix(f"{path}: ")
            rows = np.arange(row, stop)
            yield [path] * len(rows), rows, [None] * len(rows), dict.fromkeys(range(len(rows)), reason)


def _first_size(files: Sequence[InputFile], chosen: Preprocessing) -> tuple[int, int]:
    decoder = Decoder(channels=chosen.channels)
    for file in files[:256]:
        piece = Piece(file, 0, 1 if _is_parquet(file.path) else None)
        for _, _, content, _ in _encoded(Unit("", (piece,), 1)):
            images = decoder.decode(Encoded(content, [""] * len(content))).images
            if len(images):
                return int(images.shape[1]), int(images.shape[2])
    raise SoftscopeError("none of the first images can be decoded", "Check that these are images")
