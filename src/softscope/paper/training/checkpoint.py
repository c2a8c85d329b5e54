"""Where a training stands, in one safetensors file: weights, optimiser state, and the past as JSON. No pickle.

Random numbers need no place in it: those of an epoch are drawn afresh from (seed, epoch).
"""

import hashlib
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...canonical import content_digest, parse_json, plain
from ...errors import SoftscopeError
from ...files import read_safetensors, write_safetensors
from ...torch_door import nn, torch
from .parts import WeightAverage
from .settings import TrainSettings

log = logging.getLogger(__name__)

FILE = "checkpoint.safetensors"
_FORMAT = "softscope.checkpoint.2"
_UNSIGNED = "softscope.checkpoint"  # of a training that began before checkpoints had a checksum


@dataclass(frozen=True)
class TrainingState:
    """What a checkpoint knows besides tensors: finished epochs with their records, the precision, the time so far."""

    history: tuple[dict[str, float], ...]
    precision: str
    seconds: float


def fingerprint(settings: TrainSettings, images: torch.Tensor, labels: torch.Tensor) -> str:
    """A digest of all that must be the same for a training to be continued."""
    digest = hashlib.sha256(json.dumps(plain(settings), sort_keys=True).encode())
    for tensor in (images, labels):
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def save_checkpoint(
    folder: str | os.PathLike[str],
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: TrainingState,
    of: str,
    average: WeightAverage | None = None,
) -> None:
    """Write weights, optimiser state, mean weights and the state of the training `of` (its fingerprint), atomically."""
    tensors = {f"net.{name}": _numpy(tensor) for name, tensor in net.state_dict().items()}
    for index, slots in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": _numpy(value) for name, value in slots.items() if value is not None}
    if average is not None:
        tensors |= {f"average.{index}": _numpy(mean) for index, mean in enumerate(average.means)}
    metadata = {"format": _FORMAT, "of": of, "progress": json.dumps(asdict(state))}
    write_safetensors(Path(folder) / FILE, tensors, metadata | {"sha256": content_digest(tensors, metadata)})


def load_checkpoint(
    folder: str | os.PathLike[str],
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    of: str,
    average: WeightAverage | None = None,
) -> TrainingState | None:
    """Put a saved state back into `net`, `optimizer` and `average`; None where there is none or it is damaged."""
    path = Path(folder) / FILE
    if not path.exists():
        return None
    try:
        tensors, metadata = read_safetensors(path)
        stated = metadata.pop("sha256", None)
        if metadata["format"] != _UNSIGNED and stated != content_digest(tensors, metadata):
            raise ValueError("its sha256 differs")
        kept = parse_json(metadata["progress"])
        state = TrainingState(tuple(kept["history"]), str(kept["precision"]), float(kept["seconds"]))
    except (SoftscopeError, KeyError, ValueError, TypeError) as error:
        log.warning("%s is damaged (%s); training starts again", path, error)
        return None
    if metadata.get("of") != of:
        raise SoftscopeError(
            f"{path}: belongs to a training with other settings or other data",
            "Give another folder, or delete this one to start again",
        )
    _restore(path, net, optimizer, tensors)
    if average is not None:
        average.means = [_like(tensors[f"average.{i}"], mean) for i, mean in enumerate(average.means)]
    return state


def _restore(path: Path, net: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, np.ndarray]) -> None:
    target = net.state_dict()
    try:
        whole = {name: _like(tensors[f"net.{name}"], value) for name, value in target.items()}
    except (KeyError, RuntimeError, ValueError) as error:
        raise SoftscopeError(
            f"{path}: holds the weights of another network ({error})", "Build the network with the same arguments"
        ) from error
    net.load_state_dict(whole)
    states: dict[int, dict[str, Any]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, array in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            scalar = torch.zeros((), dtype=torch.float32)
            model = scalar if array.size == 1 and name == "step" else parameters[int(index)].detach()
            states.setdefault(int(index), {})[name] = _like(array, model)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": states})


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def _like(array: np.ndarray, model: torch.Tensor) -> torch.Tensor:
    # safetensors arrays are at least one-dimensional here; counters such as batchnorm's have no dimension.
    tensor = torch.from_numpy(np.array(array)).reshape(model.shape).to(model.dtype)
    return torch.empty_like(model).copy_(tensor)
