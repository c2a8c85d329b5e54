"""Any classifier as an opened model: by name (as the command line has it), by path, or as an object in memory."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import SoftscopeError
from ..files import existing_file
from .opened import OpenedModel

KINDS = (
    "package.module:factory with --weights, an .onnx file, hf:NAME or a Hugging Face folder, timm:NAME, "
    "torchvision:NAME, or a .safetensors file saved by softscope"
)


def open_model(
    model: Any,
    weights: str | os.PathLike[str] | None = None,
    *,
    classes: Sequence[str] | None = None,
    output: Any = None,
    device: str | None = None,
    processor: Any = None,
    **preprocessing: Any,
) -> OpenedModel:
    """The classifier `model`: a name, a path, a torch module, a Hugging Face or timm model, a scikit-learn estimator.

    `weights` is a file for a factory's, timm's or torchvision's model; `classes` names the outputs in their order;
    `output` picks the logits out of what a torch model returns; `processor` is a Hugging Face image processor or
    tokenizer. Further options replace those of the model's own `Preprocessing`.
    """
    opened = _opened(model, weights, output, device, processor)
    if classes is not None:
        opened.classes, opened.names_from = tuple(map(str, classes)), "--classes"
    opened.preprocessing = opened.preprocessing.changed(**preprocessing)
    return opened


def class_names(given: str | None) -> Sequence[str] | None:
    """`--classes`: names with commas between them, or a file with one name per line."""
    if given is None:
        return None
    if "," not in given or Path(given).is_file():
        names = existing_file(given).read_text("utf-8", "replace").splitlines()
        return [name.strip() for name in names if name.strip()]
    return [name.strip() for name in given.split(",")]


def _opened(model: Any, weights: Any, output: Any, device: str | None, processor: Any) -> OpenedModel:
    if isinstance(model, OpenedModel):
        return model
    if isinstance(model, str | os.PathLike):
        return _by_name(os.fspath(model), weights, output, device, processor)
    if weights is not None:
        raise SoftscopeError("weights go with a model named by its factory", "Load them into the model yourself")
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        from .sklearn import SklearnModel

        return SklearnModel(model)
    from ..torch_door import nn
    from .hugging_face import HuggingFaceModel, is_hugging_face

    if is_hugging_face(model):
        return HuggingFaceModel(model, processor=processor, device=device)
    if not isinstance(model, nn.Module):
        raise SoftscopeError(f"{type(model).__name__}: not a classifier that can be opened", f"Give {KINDS}")
    from .torch import TorchModel

    return TorchModel(model, output=output, device=device)


def _by_name(model: str, weights: Any, output: Any, device: str | None, processor: Any) -> OpenedModel:
    if Path(model).suffix.lower() == ".onnx":
        from .onnx import OnnxModel

        return OnnxModel(model)
    if model.startswith("hf:") or (Path(model) / "config.json").is_file():
        from .hugging_face import open_hugging_face

        return open_hugging_face(model.removeprefix("hf:"), processor, device)
    if model.startswith(("timm:", "torchvision:")):
        from .weights import open_pretrained

        return open_pretrained(model, weights, device)
    if ":" not in model or Path(model).exists():
        path = existing_file(model)
        raise SoftscopeError(
            f"{path}: scripted and pickled models would run their code and aren't opened", f"Give {KINDS}"
        )
    from .torch import TorchModel
    from .weights import load_weights, made_by

    module = made_by(model)
    if weights is not None:
        load_weights(module, weights)
    return TorchModel(module.eval(), model, output=output, device=device)
