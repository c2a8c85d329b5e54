"""Models as the command line names them: a file of ours, or a factory of the user's own with a file of weights."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import existing_file, first_line
from ..head import Head
from ..torch_door import nn, torch
from .preprocessing import FromPixels
from .torch import extract_features

_MODEL = "Give a .safetensors file saved by softscope, an .onnx file, or package.module:factory with --weights"


class OpenedModel(Protocol):
    """A model that takes uint8 images [N, height, width, channels].

    `input_shape` is what it expects (None: any size), `classes` and `dataset` what its file says of its training.
    """

    name: str
    input_shape: tuple[int | None, ...]
    classes: tuple[str, ...] | None
    dataset: str | None

    def head(self, classes: Sequence[str] | None = None, probe: Any = None) -> Head:
        """The last linear layer."""

    @property
    def features(self) -> Callable[..., FeatureSet]:
        """Features of (images, labels), with the options of `extract_features`."""


@dataclass
class TorchClassifier:
    """A torch model as an OpenedModel."""

    module: nn.Module
    name: str
    input_shape: tuple[int | None, ...]
    classes: tuple[str, ...] | None = None
    dataset: str | None = None

    def head(self, classes: Sequence[str] | None = None, probe: Any = None) -> Head:
        """The last linear layer."""
        return Head.from_torch(self.module, classes, probe=probe)

    def features(self, images: Any, labels: Any = None, **options: Any) -> FeatureSet:
        """Features of images, with the options of `extract_features`."""
        return extract_features(self.module, images, labels, **options)


def open_model(
    model: str,
    weights: str | os.PathLike[str] | None = None,
    *,
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
) -> OpenedModel:
    """The model called `model`; `mean` and `std` of each channel (pixels from 0 to 1) are for models not ours."""
    if Path(model).suffix.lower() == ".onnx":
        from .onnx import OnnxClassifier

        return OnnxClassifier(model, mean=mean, std=std)
    if ":" not in model or Path(model).exists():
        path = existing_file(model)
        raise SoftscopeError(f"{path}: scripted and pickled models would run their code and aren't opened", _MODEL)
    module = _made(model)
    if weights is not None:
        _load_weights(module, weights)
    shape = getattr(module, "input_shape", None)
    if isinstance(shape, tuple):  # it takes pixels as they are, and says which
        return TorchClassifier(module, model, shape)
    if len(mean) != len(std) or len(mean) not in (1, 3) or not all(value > 0 for value in std):
        raise SoftscopeError(f"mean {list(mean)}, std {list(std)}", "Give 1 or 3 numbers each, std above 0")
    return TorchClassifier(FromPixels(module, mean, std), model, (None, None, len(mean)))


def _made(factory: str) -> nn.Module:
    """What the factory returns; it is the user's own code, found from the current folder as Python would."""
    module_name, _, function = factory.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        made = getattr(importlib.import_module(module_name), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SoftscopeError(f"{factory}: makes no model ({first_line(error)})", _MODEL) from error
    if not isinstance(made, nn.Module):
        raise SoftscopeError(f"{factory}: returned {type(made).__name__}, expected a torch.nn.Module", _MODEL)
    return made


def _load_weights(module: nn.Module, weights: str | os.PathLike[str]) -> None:
    path = existing_file(weights)
    state = _state_dict(path)
    prefix = "module." if all(name.startswith("module.") for name in state) else ""
    try:
        module.load_state_dict({name.removeprefix(prefix): tensor for name, tensor in state.items()})
    except (RuntimeError, AttributeError, TypeError) as error:
        lines = [line.strip() for line in str(error).splitlines()[:2]]
        raise SoftscopeError(
            f"{path}: doesn't fit {type(module).__name__} ({' '.join(lines)[:300]})",
            "Give the weights of this architecture",
        ) from error


def _state_dict(path: Path) -> dict[str, torch.Tensor]:
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    try:
        if path.suffix.lower() == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, OSError, RuntimeError, ValueError, EOFError, KeyError) as error:
        raise SoftscopeError(
            f"{path}: can't be read as plain weights ({first_line(error)[:160]})",
            "Save model.state_dict() as safetensors; files with code or scripted models are not opened",
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in loaded.values()):
        raise SoftscopeError(f"{path}: holds no state dict", "Save model.state_dict()")
    return {str(name): tensor for name, tensor in loaded.items()}
