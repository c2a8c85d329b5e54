"""The one door to torch: what must be set before it is imported, one clear line where it is missing, and the states
a network is put into (a device, fixed threads, evaluation mode).

Everything that needs torch writes `from softscope.torch_door import nn, torch`.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from .arrays import check_finite
from .errors import SoftscopeError

# Idle OpenMP threads sleep instead of spinning: twice the throughput when another job runs on the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
try:
    import torch as torch
    from torch import nn as nn
except ImportError as missing:
    raise SoftscopeError("torch is not installed", "pip install 'softscope[torch]'") from missing

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def best_device() -> torch.device:
    """CUDA where there is one, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@cache
def keep_freed_memory() -> bool:
    """Tell glibc to reuse freed blocks of up to 32 MB instead of returning them to the system.

    A network frees and allocates the same activations every batch; fresh pages cost 4 to 15 % of a training step.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 1 << 25)) and bool(mallopt(_M_TRIM_THRESHOLD, 1 << 29))


@contextmanager
def reproducible(threads: int, seed: int, device: torch.device) -> Iterator[None]:
    """Fixed threads, fixed seed and, on the CPU, deterministic kernels; the caller's settings come back afterwards."""
    # mypy: the module's one attribute is a property of its class.
    filling: Any = torch.utils.deterministic
    state = torch.get_num_threads(), torch.get_deterministic_debug_mode(), filling.fill_uninitialized_memory
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            torch.set_num_threads(threads)
            torch.set_deterministic_debug_mode("error" if device.type == "cpu" else "default")
            # Filling every new tensor with NaN is for finding bugs; it costs time and changes no result.
            filling.fill_uninitialized_memory = False
            torch.manual_seed(seed)
            yield
        finally:
            torch.set_num_threads(state[0])
            torch.set_deterministic_debug_mode(state[1])
            filling.fill_uninitialized_memory = state[2]


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
