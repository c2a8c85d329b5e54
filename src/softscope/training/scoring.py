"""Accuracy and cross-entropy of a network on labelled images."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._torch import keep_freed_memory, nn, torch
from ..arrays import as_labels, check_finite, spans
from ..errors import SoftscopeError


@dataclass(frozen=True)
class Evaluation:
    """Share of right answers and mean cross-entropy."""

    accuracy: float
    loss: float


def evaluate(net: nn.Module, images: Any, labels: Any, *, batch: int = 500) -> Evaluation:
    """Accuracy and mean cross-entropy of `net` on `images`, in batches, the network in evaluation mode meanwhile."""
    x, y = as_tensors(net, images, labels)
    keep_freed_memory()
    device = device_of(net)
    right, loss = 0, 0.0
    with evaluating(net):
        for span in spans(len(x), batch):
            logits = net(x[span].to(device)).float().cpu()
            right += int((logits.argmax(1) == y[span]).sum())
            loss += float(nn.functional.cross_entropy(logits, y[span], reduction="sum"))
    return Evaluation(accuracy=right / len(x), loss=loss / len(x))


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; each module's own mode comes back afterwards."""
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def device_of(net: nn.Module) -> torch.device:
    """Where the network's parameters are."""
    first = next(net.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def as_tensors(net: nn.Module, images: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels as CPU tensors, checked: as many of both, labels among the classes, no NaN."""
    x = image_tensor(images)
    answer = getattr(net, "get_classifier", lambda: None)()
    classes = getattr(answer, "out_features", None)
    y = as_labels(np.asarray(labels), "labels", rows=len(x), classes=classes)
    return x, torch.from_numpy(y)


def image_tensor(images: Any) -> torch.Tensor:
    """A uint8 or float32 tensor over the rows of `images`, without a copy where that is possible."""
    if isinstance(images, torch.Tensor):
        x = images.detach().cpu()
    else:
        array = np.asarray(images)
        if array.dtype != np.uint8:
            if array.dtype.kind not in "fiub":
                raise SoftscopeError(f"images: expected pixels, found {array.dtype}", "Use uint8 or float32")
            array = array.astype(np.float32)
        # A tensor over a read-only array would be writeable.
        x = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if x.ndim < 2 or len(x) == 0:
        raise SoftscopeError(f"images: expected rows of inputs, found shape {tuple(x.shape)}", "Give at least one row")
    if x.is_floating_point():
        check_finite(x.numpy(), "images")
    return x
