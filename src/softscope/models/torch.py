"""Features and head of a torch model, checked against the model's own logits while they are taken."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..head.search import Call, find_last_layer, recording, run
from ..progress import Progress, silent
from ..torch_door import device_of, evaluating, image_tensor, keep_freed_memory, nn, torch
from .activation import before_activation, last_activation, watch_activations
from .collecting import Layer, check_logits, collected

_PROBE_ROWS = 2


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
    reader = _Reader(model, image_tensor(pixels[:_PROBE_ROWS]), layer)
    words = {"layer": layer, "model": type(model).__name__, "classifier": reader.last.name}
    words |= reader.words | dict(metadata or {})
    blocks = reader.blocks(pixels, batch, progress, name)
    shape = (len(pixels), reader.head.n_features)
    return collected(blocks, shape, known, out=out, name=name, metadata=words)


class _Reader:
    """Reads features off a model batch by batch; a probe batch shows where."""

    def __init__(self, model: nn.Module, probe: torch.Tensor, layer: Layer) -> None:
        self.model, self.layer = model, layer
        self.device = device_of(model)
        self.last = find_last_layer(model, probe)
        self.head = Head(*self.last.weight_and_bias(), name=f"{type(model).__name__}.{self.last.name}")
        self.words: dict[str, str] = {}
        self.call = 0
        if layer == "before":
            with evaluating(model):
                z, _, calls = self._forward(probe)
                self.call, activation = last_activation(calls, z)
            self.words = {"activation": activation}

    def blocks(self, pixels: Any, batch: int, progress: Progress, name: str) -> Iterator[NDArray]:
        """Checked rows of z, a batch at a time."""
        for span in spans(len(pixels), batch):
            with evaluating(self.model):
                z, logits, calls = self._forward(image_tensor(pixels[span]))
                check_logits(self.head, z.float().cpu().numpy(), logits.float().cpu().numpy(), span.start)
                rows = z if self.layer == "after" else before_activation(calls, self.call, z)
            yield rows.float().cpu().numpy()
            progress(f"features of {name}", span.stop, len(pixels))

    def _forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, Any]:
        calls: list[Call] = []
        watched, hooks = watch_activations(self.model) if self.layer == "before" else (None, [])
        try:
            with recording(dict(zip(self.last.names, self.last.layers)), calls, len(x)):
                answer = run(self.model, x.to(self.device))
        finally:
            for hook in hooks:
                hook.remove()
        return *self.last.read(calls, answer), watched
