"""A network as the scan sees it: folded into tables where its shape allows, else plain torch, the reference."""

import hashlib
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import check_finite
from ...errors import SoftscopeError
from . import inputs
from .statistics import STARTS, ScanStatistics, scales

if TYPE_CHECKING:
    from ..nets import Net

Floats32 = NDArray[np.float32]
PIXELS = 1024  # more than these is no small input space


@dataclass(frozen=True)
class Folded:
    """A FilterNet of `depth` convolutions as tables (`compiled`); picklable, and torch is not needed to run it."""

    depth: int
    tables: Floats32
    third: Floats32
    third_bias: Floats32
    weight: Floats32
    bias: Floats32
    shape: tuple[int, int] = (9, 9)

    @classmethod
    def of(cls, net: "Net") -> "Folded":
        """Fold the first two convolutions, in float64, and order the rest as `compiled` computes it."""
        state = {name: value.detach().cpu().numpy().astype(np.float64) for name, value in net.state_dict().items()}
        for name, value in state.items():
            check_finite(value, name)
        depth = int(net.config["conv_layers"])
        zero = np.zeros(0, dtype=np.float32)
        third, third_bias = zero.reshape(0, 0), zero
        if depth == 3:
            windowed = state["body.5.weight"]  # [64, 32, 2, 2] -> rows in the order (window, channel)
            third, third_bias = _ready(windowed.transpose(2, 3, 1, 0).reshape(128, 64)), _ready(state["body.5.bias"])
        weight = state["classifier.weight"]
        if depth < 3:  # torch flattens (channel, window), `compiled` (window, channel)
            windows = 9 if depth == 1 else 4
            weight = weight.reshape(len(weight), -1, windows).transpose(0, 2, 1).reshape(len(weight), -1)
        bias = state.get("classifier.bias", np.zeros(len(weight)))
        return cls(depth, _ready(_tables(state, depth)), third, third_bias, _ready(weight), _ready(bias))

    @property
    def classes(self) -> int:
        """K."""
        return len(self.weight)

    @property
    def digest(self) -> str:
        """Hash of all that determines what the network says."""
        arrays = (self.tables, self.third, self.third_bias, self.weight, self.bias)
        return _hash([f"folded {self.depth}".encode(), *(array.tobytes() for array in arrays)])

    def scan(self, seed: int, start: int, stop: int, into: ScanStatistics) -> None:
        """Run the inputs `start` to `stop` of `seed`, `start` a multiple of 4096, and count them.

        Without the GIL, so that threads share the machine's cores.
        """
        from . import compiled

        lengths = np.linalg.norm(self.weight.astype(np.float64), axis=1)
        inverse = _ready(np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0))
        own = (self.depth, self.tables, self.third, self.third_bias, self.weight, self.bias, inverse)
        kept = (scales(self.classes), STARTS, into.counts, into.odds, into.numbers)
        compiled.scan_words(np.uint64(inputs.key(seed, 0)), start, stop, *own, *kept)
        into.inputs += stop - start

    def evaluate(self, images: NDArray[np.uint8]) -> tuple[Floats32, Floats32]:
        """Logits [N, K] and norm(z) [N] of bits [N, height, width]."""
        return self.evaluate_words(inputs.pack(images))

    def evaluate_words(self, words: inputs.Words) -> tuple[Floats32, Floats32]:
        """Logits [N, K] and norm(z) [N] of 8x8 pixels as words."""
        from . import compiled

        logits, length = np.empty((len(words), self.classes), np.float32), np.empty(len(words), np.float32)
        chunk = np.zeros(compiled.CHUNK, np.uint64)
        pooled = np.empty((compiled.CHUNK, 144 if self.depth == 1 else 128), np.float32)
        lengths = np.empty(compiled.CHUNK, np.float32)
        for start in range(0, len(words), compiled.CHUNK):
            rows = min(compiled.CHUNK, len(words) - start)
            chunk[:rows] = words[start : start + rows]
            z = compiled.features(self.depth, chunk, self.tables, self.third, self.third_bias, pooled)
            compiled.norms(z, lengths)
            logits[start : start + rows] = ((self.weight @ z.T).T + self.bias)[:rows]
            length[start : start + rows] = lengths[:rows]
        return logits, length


class Unfolded:
    """Any network of `softscope.paper.nets` with one channel and a small input, as torch computes it.

    A bit of 1 is 1.0 for a FilterNet, which takes bits, and white, 255, for a network that takes pixels.
    """

    def __init__(self, net: "Net") -> None:
        size = tuple(side or 0 for side in net.input_shape)
        if len(size) == 1:
            size = (1, size[0], 1)
        if len(size) != 3 or size[2] != 1 or not 0 < size[0] * size[1] <= PIXELS:
            raise SoftscopeError(
                f"{net.name}: takes {net.input_shape}, not a small grid of single bits",
                f"Scan a network with one channel and at most {PIXELS} pixels",
            )
        for name, value in net.state_dict().items():
            check_finite(np.atleast_1d(value.detach().cpu().numpy()), name)
        self.net = net.eval()
        self.shape = size[0], size[1]
        self.classes = net.classifier.out_features
        self._white = 1.0 if net.name == "filter" else 255.0

    @property
    def digest(self) -> str:
        """See `Folded`."""
        known = f"plain {self.net.name} {self.net.config}".encode()
        return _hash([known, *(value.numpy().tobytes() for value in self.net.state_dict().values())])

    def scan(self, seed: int, start: int, stop: int, into: ScanStatistics) -> None:
        """See `Folded`."""
        from . import compiled

        weight, bias = self._head()
        lengths = np.linalg.norm(weight, axis=1)
        inverse = _ready(np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0))
        for first in range(start, stop, 4096):
            # Always a whole chunk, so that a product never depends on where a range ends.
            z = self._features(inputs.images(seed, np.arange(first, first + 4096, dtype=np.uint64), self.shape))
            out, best = np.empty((3, len(z))), np.zeros(len(z), dtype=np.int64)
            length = np.sqrt(np.square(z).sum(axis=1))
            compiled.summarise(np.ascontiguousarray(weight @ z.T), bias, length, inverse, out, best)
            rows = min(4096, stop - first)
            kept = (scales(self.classes), STARTS, into.counts, into.odds, into.numbers)
            compiled.collect(out, length, best, np.uint64(first), rows, *kept)
        into.inputs += stop - start

    def evaluate(self, images: NDArray[np.uint8]) -> tuple[Floats32, Floats32]:
        """See `Folded`."""
        from ...torch_door import torch

        z = np.concatenate([self._features(images[i : i + 4096]) for i in range(0, len(images), 4096)])
        with torch.inference_mode():
            logits: Floats32 = self.net.forward_head(torch.from_numpy(z)).numpy()
        return logits, np.linalg.norm(z, axis=1)

    def _features(self, images: NDArray[np.uint8]) -> Floats32:
        from ...torch_door import torch

        shaped = images.astype(np.float32).reshape(len(images), *map(int, filter(None, self.net.input_shape)))
        with torch.inference_mode():
            z: Floats32 = self.net.forward_features(torch.from_numpy(shaped * np.float32(self._white))).numpy()
        return np.ascontiguousarray(z)

    def _head(self) -> tuple[Floats32, Floats32]:
        layer = self.net.get_classifier()
        weight: Floats32 = layer.weight.detach().numpy()
        return weight, np.zeros(len(weight), np.float32) if layer.bias is None else layer.bias.detach().numpy()


#: what a scan works on
Scanned = Folded | Unfolded


def scanned(net: "Net", *, folded: bool = True) -> Scanned:
    """`net` compiled where it can be (FilterNet, unless `folded` is False), else as torch computes it."""
    from ..nets import FilterNet

    if net.get_classifier().out_features < 2:
        raise SoftscopeError(f"{net.name}: has a single class, always certain", "Scan a network with at least two")
    return Folded.of(net) if isinstance(net, FilterNet) and folded else Unfolded(net)


def _tables(state: dict[str, Any], depth: int) -> NDArray:
    """All that the first convolution can say [512, 16]; with a second, what each of its nine offsets makes of it."""
    bits = np.array([[n >> i & 1 for i in range(9)] for n in range(512)], dtype=np.float64)
    first, bias = state["body.0.weight"], state["body.0.bias"]
    rows = ((bits - state["normalise.mean"]) / state["normalise.std"]) @ first.reshape(len(first), 9).T + bias
    if depth == 1:
        flat: NDArray = rows.ravel()
        return flat
    second = state["body.2.weight"]  # [32, 16, 3, 3]
    tables = [np.maximum(rows, 0.0) @ second[:, :, r, c].T for r, c in product(range(3), range(3))]
    tables[0] = tables[0] + state["body.2.bias"]
    return np.stack(tables, axis=1).ravel()


def _hash(parts: list[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _ready(values: NDArray) -> Floats32:
    return np.ascontiguousarray(values, dtype=np.float32)
