"""Torch models by name, from a factory of the user's own, timm or torchvision, and weights in all forms they are saved.

Nothing is unpickled.
"""

import ast
import importlib
import os
import sys
import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from ..errors import SoftscopeError
from ..files import existing_file, first_line
from ..images import Preprocessing
from ..torch_door import nn, torch
from .torch import TorchModel

_FACTORY = "Name it module:factory, with the arguments it needs: mynet:MyCNN or mynet:MyCNN(width=64)"
_SAVE = "Save it with torch.save(model.state_dict(), path), or as safetensors"
# Where training loops and Lightning keep the weights, and what wrappers put in front of each name.
_KEYS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights", "ema", "module")
_PREFIXES = ("module.", "model.", "_orig_mod.", "net.", "network.", "backbone.", "classifier_model.")


def made_by(factory: str) -> nn.Module:
    """What `package.module:function` or `package.module:Class(8, width=64)` returns.

    It is the user's own code, found from the current folder as Python would; arguments are literals.
    """
    module_name, _, call = factory.partition(":")
    function, arguments, options = _call(call, factory)
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        made: Any = importlib.import_module(module_name)
        for part in function.split("."):
            made = getattr(made, part)
        if not isinstance(made, nn.Module):
            made = made(*arguments, **options)
    except Exception as error:  # the user's code may fail in any way it likes
        raise SoftscopeError(f"{factory}: makes no model ({first_line(error)[:200]})", _FACTORY) from error
    if not isinstance(made, nn.Module):
        raise SoftscopeError(f"{factory}: returned {type(made).__name__}, expected a torch.nn.Module", _FACTORY)
    return made


def load_weights(module: nn.Module, weights: str | os.PathLike[str]) -> None:
    """Put the weights of a file into the module: every tensor must have its place, prefixes of wrappers aside."""
    path = existing_file(weights)
    state = state_dict(path)
    wanted = set(module.state_dict())
    fitted = _fitted(state, wanted)
    extra, missing = sorted(set(fitted) - wanted), sorted(wanted - set(fitted))
    # Counters of batch norm are missing from old files and change nothing.
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if extra or missing:
        parts = [f"it lacks {missing[0]} and {len(missing) - 1} others"] if missing else []
        parts += [f"it has {extra[0]} and {len(extra) - 1} others beyond the model's"] if extra else []
        raise SoftscopeError(
            f"{path}: doesn't fit {type(module).__name__}: {'; '.join(parts)}", "Give the weights of this architecture"
        )
    try:
        module.load_state_dict(fitted, strict=False)
    except (RuntimeError, AttributeError, TypeError) as error:
        lines = [line.strip() for line in str(error).splitlines()[:2]]
        raise SoftscopeError(
            f"{path}: doesn't fit {type(module).__name__} ({' '.join(lines)[:300]})",
            "Give the weights of this architecture, made with the same arguments",
        ) from error


def state_dict(path: Path) -> dict[str, Any]:
    """The tensors of a .safetensors or .pt file by name: bare, or where training loops and Lightning keep them."""
    try:
        if path.suffix.lower() == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise SoftscopeError(
            f"{path}: holds Python objects, not only weights, and can't be read safely ({_global(error)})", _SAVE
        ) from error
    except PermissionError as error:
        raise SoftscopeError(f"{path}: permission denied", "Make the file readable for you") from error
    except Exception as error:  # torch and safetensors meet damaged files with errors of many types
        why = "is a TorchScript archive" if "TorchScript" in str(error) else first_line(error)[:160]
        raise SoftscopeError(f"{path}: can't be read as plain weights ({why})", _SAVE) from error
    if not isinstance(loaded, dict):
        raise SoftscopeError(f"{path}: holds {type(loaded).__name__}, expected weights by name", _SAVE)
    tensors = _tensors(loaded) or _nested(loaded)
    if not tensors:
        raise SoftscopeError(f"{path}: holds no weights ({', '.join(map(str, list(loaded)[:6])) or 'empty'})", _SAVE)
    return tensors


def _fitted(state: dict[str, Any], wanted: set[str], depth: int = 3) -> dict[str, Any]:
    """The state without the prefixes, up to three, whose removal makes most names fit."""
    tried = [state]
    for prefix in _PREFIXES if depth else ():
        inner = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        if inner:
            tried.append(_fitted(inner, wanted, depth - 1))
    return max(tried, key=lambda names: len(wanted & set(names)))


def _nested(values: dict[Any, Any], depth: int = 3) -> dict[str, Any]:
    """The tensors under one of the usual keys, up to three deep; none if there are none."""
    inner = [values[key] for key in _KEYS if isinstance(values.get(key), dict)] if depth else []
    return next((tensors for each in inner if (tensors := _tensors(each) or _nested(each, depth - 1))), {})


def _tensors(values: dict[Any, Any]) -> dict[str, Any]:
    """The entries that are tensors, if most are: a state dict may hold a few other things."""
    tensors = {str(name): value for name, value in values.items() if isinstance(value, torch.Tensor)}
    return tensors if len(tensors) * 2 > len(values) else {}


def _call(call: str, factory: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, arguments and keyword arguments of `name` or `name(literal, key=literal)`."""
    try:
        node = ast.parse(call.strip(), mode="eval").body
        if isinstance(node, ast.Call):
            options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
            return ast.unparse(node.func), [ast.literal_eval(argument) for argument in node.args], options
    except (SyntaxError, ValueError) as error:
        raise SoftscopeError(f"{factory}: arguments must be plain values ({first_line(error)})", _FACTORY) from error
    return call.strip(), [], {}


def _global(error: UnpicklingError) -> str:
    """The name of the class that a pickle asks for, out of torch's long message."""
    words = str(error).split("GLOBAL ")
    return f"it asks for {words[1].split()[0]}" if len(words) > 1 else first_line(error)[:120]


def open_pretrained(name: str, weights: str | os.PathLike[str] | None = None, device: str | None = None) -> TorchModel:
    """`timm:resnet50.a1_in1k` or `torchvision:resnet18`; `weights` is a state dict, else the library gets its own.

    A number of classes other than the library's follows from the weights.
    """
    library, _, model = name.partition(":")
    try:
        opened = _timm(model, weights, device) if library == "timm" else _torchvision(model, weights, device)
    except SoftscopeError:
        raise
    except ImportError as error:
        raise SoftscopeError(f"{library} can't be imported ({first_line(error)})", f"pip install {library}") from error
    except Exception as error:  # both raise what their registries and downloads raise
        raise SoftscopeError(
            f"{name}: can't be made ({first_line(error)[:200]})",
            f"Check the name, or give --weights where there is no network: {library}.list_models()",
        ) from error
    opened.name = name
    return opened


def _timm(model: str, weights: Any, device: str | None) -> TorchModel:
    import timm

    module = timm.create_model(model, pretrained=weights is None)
    if weights is not None:
        module = timm.create_model(model, num_classes=_outputs(weights, module))
        load_weights(module, weights)
    config = module.pretrained_cfg
    channels, height, width = config["input_size"]
    own = Preprocessing(
        size=(height, width),
        channels=channels if channels in (1, 3) else 3,
        mean=tuple(config.get("mean") or (0.0,)),
        std=tuple(config.get("std") or (1.0,)),
        crop=min(1.0, float(config.get("crop_pct") or 1.0)),
        interpolation=str(config.get("interpolation") or "bicubic"),
        squash=config.get("crop_mode") == "squash",
        source="timm",
    )
    names = config.get("label_names")
    classes = names if names and len(names) == module.num_classes else None
    return TorchModel(module.eval(), preprocessing=own, classes=classes, device=device)


def _torchvision(model: str, weights: Any, device: str | None) -> TorchModel:
    from torchvision import models

    chosen = models.get_model_weights(model).DEFAULT
    module = models.get_model(model, weights=chosen if weights is None else None)
    if weights is not None:
        module = models.get_model(model, num_classes=_outputs(weights, module))
        load_weights(module, weights)
    transforms = chosen.transforms()
    size, whole = int(transforms.crop_size[0]), int(transforms.resize_size[0])
    own = Preprocessing(
        size=(size, size),
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        crop=min(1.0, size / whole),
        interpolation=str(transforms.interpolation.value),
        source="torchvision",
    )
    names = chosen.meta.get("categories") if weights is None else None
    return TorchModel(module.eval(), preprocessing=own, classes=names, device=device)


def _outputs(weights: Any, module: nn.Module) -> int:
    """The number of classes of a state dict: the rows of the last linear layer (or 1x1 convolution) of `module` in it.

    The order of the file says nothing: safetensors sorts names.
    """
    state = state_dict(existing_file(weights))
    layers = [name for name, layer in module.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    last = next((name for name in reversed(layers) if f"{name}.weight" in state), None)
    if last is None:
        raise SoftscopeError(f"{weights}: holds no linear layer", "Give the weights of a classifier")
    return int(state[f"{last}.weight"].shape[0])
