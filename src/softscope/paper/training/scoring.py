"""Accuracy and cross-entropy of a network on labelled images."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import as_labels, spans
from ...torch_door import device_of, evaluating, image_tensor, keep_freed_memory, nn, torch


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


def as_tensors(net: nn.Module, images: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels as CPU tensors, checked: as many of both, labels among the classes, no NaN."""
    x = image_tensor(images)
    answer = getattr(net, "get_classifier", lambda: None)()
    classes = getattr(answer, "out_features", None)
    y = as_labels(np.asarray(labels), "labels", rows=len(x), classes=classes)
    return x, torch.from_numpy(y)
