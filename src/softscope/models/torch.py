"""A torch classifier as an opened model: its features and head, checked against its own logits while they are taken.

Features are what the last layer sees, or what the non-linearity in front of it sees (X8).
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import first_line
from ..head import Head, LastLayer, close, find_last_layer, to_device
from ..images import Preprocessing, pixels_as_they_are
from ..progress import Progress, silent
from ..torch_door import device_of, evaluating, image_tensor, keep_freed_memory, nn, torch
from .opened import Layer, OpenedModel, collected

ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus,
    nn.Tanh, nn.Sigmoid, nn.Hardswish, nn.Hardtanh,
)  # fmt: skip
_PROBE_ROWS = 2

#: Name, module and input of one call of an activation, and all of them in the order of one forward pass.
Call = tuple[str, nn.Module, torch.Tensor]
Seen = list[Call]


class TorchModel(OpenedModel):
    """A torch module that takes tensors, tuples or dicts of them; `output` picks the logits out of what it returns."""

    def __init__(
        self,
        module: nn.Module,
        name: str | None = None,
        *,
        preprocessing: Preprocessing | None = None,
        classes: Sequence[str] | None = None,
        output: Any = None,
        device: str | None = None,
        dataset: str | None = None,
    ) -> None:
        self.module = module if device is None else _moved(module, device)
        self.name = name or type(module).__name__
        self.preprocessing = preprocessing or _own_preprocessing(module)
        self.classes = None if classes is None else tuple(map(str, classes))
        self.dataset = dataset
        self._output = output
        self._device = device_of(module)
        floats = [parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()]
        self._dtype = floats[0] if floats else torch.float32
        self.tolerance = max(self.tolerance, 8 * torch.finfo(self._dtype).eps)
        self._last: LastLayer | None = None
        self._call = 0

    def describe(self) -> str:
        count = sum(parameter.numel() for parameter in self.module.parameters())
        dtype = str(self._dtype).removeprefix("torch.")
        return f"{type(self.module).__name__}, {count:,} parameters, {dtype} on {self._device}"

    def prepare(self, probe: Any, layer: Layer = "after") -> Head:
        inputs = to_device(probe, self._device, self._dtype)
        self.layer = layer
        self._last = find_last_layer(self.module, inputs, self._output)
        self.words = {"classifier": self._last.name}
        if layer == "before":
            with evaluating(self.module):
                z, _, seen = self._forward(inputs)
                self._call, self.words["activation"] = _last_activation(seen, z)
        return Head(*self._last.weight_and_bias(), self.classes, name=f"{type(self.module).__name__}.{self._last.name}")

    def read(self, inputs: Any) -> tuple[NDArray, NDArray, NDArray]:
        with evaluating(self.module):
            z, logits, seen = self._forward(to_device(inputs, self._device, self._dtype))
            rows = z if self.layer == "after" else _before(seen[self._call], z)
            if rows is None:
                name = seen[self._call][0]
                raise SoftscopeError(
                    f"the activation {name} applied to the features before it does not give those after it",
                    "The model's path differs between batches: take the features after the non-linearity",
                )
            return rows.float().cpu().numpy(), z.float().cpu().numpy(), logits.float().cpu().numpy()

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.module).encode())
        for name, tensor in self.module.state_dict().items():
            digest.update(name.encode())
            if isinstance(tensor, torch.Tensor):
                digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _forward(self, inputs: Any) -> tuple[torch.Tensor, torch.Tensor, Seen]:
        assert self._last is not None, "prepare first"
        with _watching_activations(self.module, wanted=self.layer == "before") as seen:
            z, logits = self._last.read(self.module, inputs, self._output)
        return z, logits, seen


def extract_features(
    model: nn.Module,
    images: Any,
    labels: Any = None,
    *,
    layer: Layer = "after",
    batch: int = 256,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
    name: str = "features",
    metadata: Mapping[str, str] | None = None,
) -> FeatureSet:
    """What the last layer of `model` sees of each of `images`, as float32 [N, H].

    `images` are passed to the model in batches as they are (the networks of the paper take uint8 pixels). The model
    is in evaluation mode meanwhile. Each batch is checked: the head applied to the features must give the model's
    logits to 1e-4, relative to the largest. `layer="before"` takes the input of the last non-linearity instead, a map
    averaged over its positions; the check then applies the non-linearity. With `out` rows go to that file, a batch at a
    time, and the file is opened; memory doesn't grow with N.
    """
    if layer not in ("after", "before"):
        raise SoftscopeError(f"layer {layer!r}: unknown value", "Use after or before (the last non-linearity)")
    if batch < 1:
        raise SoftscopeError(f"batch {batch}: too small", "Give a whole number of at least 1")
    # Rows become tensors a batch at a time, so that a memory-mapped array stays on disk.
    pixels = images if isinstance(images, torch.Tensor) else np.asanyarray(images)
    known = None if labels is None else as_labels(np.asarray(labels), f"{name}: labels", rows=len(pixels))
    keep_freed_memory()
    opened = TorchModel(model)
    head = opened.prepare(image_tensor(pixels[:_PROBE_ROWS]), layer)

    def blocks() -> Iterator[NDArray]:
        for span in spans(len(pixels), batch):
            yield opened.checked_rows(head, image_tensor(pixels[span]), span.start)
            progress(f"features of {name}", span.stop, len(pixels))

    words = {"layer": layer, "model": opened.name, **opened.words, **(metadata or {})}
    return collected(blocks(), (len(pixels), head.n_features), known, out=out, name=name, metadata=words)


def _own_preprocessing(module: nn.Module) -> Preprocessing:
    """What the module says of itself: `input_shape` of networks that take pixels as they are, else its channels."""
    shape = getattr(module, "input_shape", None)
    if isinstance(shape, tuple):
        return pixels_as_they_are(shape)
    first = next((each for each in module.modules() if isinstance(each, nn.Conv2d)), None)
    return Preprocessing(channels=1 if first is not None and first.in_channels == 1 else 3)


def _moved(module: nn.Module, device: str) -> nn.Module:
    try:
        return module.to(device)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise SoftscopeError(f"device {device}: {first_line(error)[:120]}", "Use cpu, cuda or mps") from error


@contextmanager
def _watching_activations(model: nn.Module, *, wanted: bool) -> Iterator[Seen]:
    """What the activation modules of `model` get, if `wanted`, copied: an activation may work in place."""
    seen: Seen = []
    with ExitStack() as hooks:
        for name, module in model.named_modules() if wanted else ():
            if isinstance(module, ACTIVATIONS):
                hook = module.register_forward_pre_hook(
                    lambda module, inputs, name=name: seen.append((name, module, inputs[0].clone()))
                )
                hooks.callback(hook.remove)
        yield seen


def _last_activation(seen: Seen, z: torch.Tensor) -> tuple[int, str]:
    """Number (from the end, -1 is the last) and name of the activation call whose result is `z`, pooled or not."""
    names = [f"{name} ({type(module).__name__})" for name, module, _ in seen]
    for number in range(-1, -len(seen) - 1, -1):
        if _before(seen[number], z) is not None:
            return number, names[number]
    raise SoftscopeError(
        "no activation module makes the features that feed the classifier "
        f"(the last ones called: {', '.join(names[-5:]) or 'none'})",
        "Functions such as F.relu can't be seen: use nn.ReLU, or take the features after the non-linearity",
    )


def _before(call: Call, z: torch.Tensor) -> torch.Tensor | None:
    """The input of an activation as rows [N, H], if the activation makes `z` of it."""
    _, module, before = call
    made = _rows(module(before.clone()), z.shape)
    return _rows(before, z.shape) if made is not None and close(made, z) else None


def _rows(values: torch.Tensor, shape: torch.Size) -> torch.Tensor | None:
    """`values` as [N, H]: as they are, flattened, or a map [N, H, ...] averaged over its positions."""
    if values.shape[0] != shape[0]:
        return None
    if values.numel() == shape.numel():
        return values.reshape(shape)
    if values.ndim > 2 and values.shape[1] == shape[1]:
        return values.flatten(2).mean(2)
    return None
