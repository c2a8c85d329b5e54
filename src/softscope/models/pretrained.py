"""timm's and torchvision's models by name, with their own preprocessing and class names."""

import os
from typing import Any

from ..errors import SoftscopeError
from ..files import existing_file, first_line
from ..images import Preprocessing
from ..torch_door import nn
from .torch import TorchModel
from .weights import load_weights, state_dict


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
    return TorchModel(
        module.eval(), preprocessing=timm_preprocessing(module), classes=_timm_names(module), device=device
    )


def timm_preprocessing(module: Any) -> Preprocessing:
    """What a timm model says of its inputs (`pretrained_cfg`)."""
    config = module.pretrained_cfg
    channels, height, width = config["input_size"]
    return Preprocessing(
        size=(height, width),
        channels=channels if channels in (1, 3) else 3,
        mean=tuple(config.get("mean") or (0.0,)),
        std=tuple(config.get("std") or (1.0,)),
        crop=min(1.0, float(config.get("crop_pct") or 1.0)),
        interpolation=str(config.get("interpolation") or "bicubic"),
        squash=config.get("crop_mode") == "squash",
        source="timm",
    )


def _timm_names(module: Any) -> tuple[str, ...] | None:
    names = module.pretrained_cfg.get("label_names")
    return tuple(map(str, names)) if names and len(names) == module.num_classes else None


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
