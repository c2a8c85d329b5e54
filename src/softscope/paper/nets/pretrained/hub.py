"""EfficientNetB0 and B1 with timm's weights from the Hugging Face hub: needs timm, which needs torchvision.

Only the architecture is timm's work here: the file is `model.safetensors` of one commit, held to the hub's sha256.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import SoftscopeError
from ....files import first_line, sha256
from ....torch_door import torch
from ..base import Net, Normalise
from .base import Pretrained, Weights, imagenet_names

FILE = "model.safetensors"
MODELS = {"efficientnet_b0": "efficientnet_b0.ra_in1k", "efficientnet_b1": "efficientnet_b1.ft_in1k"}


@dataclass(frozen=True)
class Downloaded:
    """A file of the hub: where it lies now, and the commit it is of."""

    path: str
    commit: str


class TimmNet(Net):
    """A timm network as a `Net`: raw pixels in, pooled features after the non-linearity, one linear layer."""

    name = "timm"
    channels_last = True

    def __init__(self, model: Any) -> None:
        body, layer = model, model.get_classifier()
        known = model.pretrained_cfg
        body.reset_classifier(0)
        first = Normalise(3)
        first.mean.copy_(255 * torch.tensor(known["mean"]))
        first.std.copy_(255 * torch.tensor(known["std"]))
        config = {"classes": layer.out_features}
        super().__init__(first, body, input_shape=(None, None, 3), features=layer.in_features, config=config)
        self.classifier = layer


def from_hub(name: str) -> Pretrained:
    """timm's network `name` with the hub's weights."""
    timm = _timm()
    model = timm.create_model(MODELS[name], pretrained=False)
    repo = f"timm/{MODELS[name]}"
    found = _download(repo)
    from safetensors.torch import load_file

    model.load_state_dict(load_file(found.path))
    size = int(model.pretrained_cfg["input_size"][-1])
    weights = Weights(f"hub {repo}@{found.commit}", FILE, Path(found.path).stat().st_size, sha256(found.path))
    return Pretrained(name, TimmNet(model).eval(), size, imagenet_names(), weights)


def _timm() -> Any:
    try:
        import timm
    except Exception as error:  # a torchvision that doesn't fit torch fails in ways of its own
        raise SoftscopeError(
            f"timm can't be imported ({first_line(error)})",
            "pip install 'softscope[timm]' with a torchvision that fits your torch, or use efficientnet_lite1",
        ) from error
    return timm


def _download(repo: str) -> Downloaded:
    try:
        from huggingface_hub import HfApi, hf_hub_download

        info = HfApi().model_info(repo, files_metadata=True)
        stated = next((file.lfs.sha256 for file in info.siblings or () if file.rfilename == FILE and file.lfs), None)
        path = hf_hub_download(repo, FILE, revision=info.sha)
    except Exception as error:  # of the network, of the hub, or of a missing huggingface_hub
        raise SoftscopeError(
            f"{repo}: can't be had from the hub ({first_line(error)})",
            "Check the connection, or use the Lite ones",
        ) from error
    if stated is None or sha256(path) != stated:
        raise SoftscopeError(f"{path}: isn't the file with sha256 {stated}", "Delete it and run again")
    return Downloaded(str(path), str(info.sha))
