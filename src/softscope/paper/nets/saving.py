"""A trained network in one safetensors file: weights, and as metadata all that is needed to build and use it again."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...canonical import parse_json
from ...errors import SoftscopeError
from ...files import existing_file, read_safetensors, reading, write_safetensors
from ...models import TorchModel
from ...torch_door import nn, torch
from . import build
from .base import Net, in_memory_order

FORMAT = "softscope.model"


@dataclass(frozen=True)
class SavedModel:
    """A network from a file, with the names of its classes, its training data set, and how it was trained."""

    net: Net
    classes: tuple[str, ...] | None
    dataset: str | None
    training: dict[str, Any]


def save_model(
    net: Net,
    path: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    dataset: str | None = None,
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write `net` atomically; `training` is any JSON (settings, history) to keep with it."""
    if classes is not None and len(classes) != net.classifier.out_features:
        raise SoftscopeError(
            f"{len(classes)} class names for a network of {net.classifier.out_features} classes", "One name a class"
        )
    card = {
        "net": net.name,
        "config": net.config,
        "classes": None if classes is None else [str(name) for name in classes],
        "dataset": dataset,
        "training": dict(training or {}),
    }
    tensors = {name: np.asarray(tensor.detach().cpu().numpy()) for name, tensor in net.state_dict().items()}
    write_safetensors(path, tensors, {"format": FORMAT, "card": json.dumps(card, allow_nan=False)})


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read what `save_model` wrote, in evaluation mode; shapes are compared before anything is allocated."""
    tensors, metadata = read_safetensors(path)
    card = _card(path, metadata)
    with torch.device("meta"), reading(path, "model"):  # sizes of a damaged description meet errors of many types
        net = build(str(card["net"]), **card["config"])
        if "classifier.bias" not in tensors:
            net.classifier = nn.Linear(net.classifier.in_features, net.classifier.out_features, bias=False)
    expected = net.state_dict()
    if set(expected) != set(tensors):
        odd = sorted(set(expected) ^ set(tensors))
        raise SoftscopeError(f"{path}: tensors don't match the network {net.name} ({odd[0]})", "Save the model again")
    weights = {name: _tensor(path, name, tensors[name], expected[name]) for name in expected}
    net.load_state_dict(weights, assign=True)
    net.eval().requires_grad_(True)
    classes = card.get("classes")
    return SavedModel(
        net=in_memory_order(net),
        classes=None if classes is None else tuple(str(name) for name in classes),
        dataset=card.get("dataset"),
        training=card.get("training") or {},
    )


def open_saved(path: str | os.PathLike[str]) -> TorchModel:
    """A file of `save_model` as a model to extract from."""
    if Path(path).suffix.lower() != ".safetensors":
        raise SoftscopeError(
            f"{path}: no .safetensors file (scripted and pickled models would run their code)",
            "Give a .safetensors file saved by softscope, an .onnx file, or package.module:factory with --weights",
        )
    saved = load_model(existing_file(path))
    return TorchModel(saved.net, Path(path).name, classes=saved.classes, dataset=saved.dataset)


def _card(path: str | os.PathLike[str], metadata: Mapping[str, str]) -> dict[str, Any]:
    if metadata.get("format") != FORMAT:
        raise SoftscopeError(
            f"{path}: no model saved by softscope",
            "For a model of your own give its factory, package.module:function, and --weights",
        )
    try:
        card = parse_json(metadata["card"])
        if isinstance(card, dict) and isinstance(card["config"], dict) and isinstance(card["net"], str):
            return card
    except (KeyError, ValueError):
        pass
    raise SoftscopeError(f"{path}: the description of the model is damaged", "Save or copy the model again")


def _tensor(path: str | os.PathLike[str], name: str, array: np.ndarray, expected: torch.Tensor) -> torch.Tensor:
    tensor = torch.from_numpy(np.array(array))
    # Counters have no dimension; a numpy array in a file has at least one.
    if tensor.numel() == 1 and expected.ndim == 0:
        tensor = tensor.reshape(())
    if tensor.shape != expected.shape or tensor.dtype != expected.dtype:
        raise SoftscopeError(
            f"{path}: {name} is {tensor.dtype} {tuple(tensor.shape)}, the network expects {expected.dtype} "
            f"{tuple(expected.shape)}",
            "Save the model again",
        )
    return tensor
