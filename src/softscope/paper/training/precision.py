"""float32 or bfloat16? Decided by what the hardware has and a short measurement."""

import copy
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from ...torch_door import nn, torch
from ..nets import Net
from .settings import Precision

log = logging.getLogger(__name__)

# A measurement of a dozen steps doesn't pay, and isn't wanted, in a short training.
STEPS_WORTH_MEASURING = 500
CLEARLY_FASTER = 1.2
TIMED_STEPS = 4


class StepTimes(NamedTuple):
    """Seconds a training step takes."""

    float32: float
    bfloat16: float


def has_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 itself."""
    if device.type == "cuda":
        found: bool = torch.cuda.is_bf16_supported(including_emulation=False)
        return found
    if device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return False


def choose_precision(wanted: Precision, steps: int, hardware: bool, measure: Callable[[], StepTimes]) -> Precision:
    """`wanted`; for "auto" bfloat16 where there is hardware for it and a step is clearly faster.

    `measure` is called only where the answer matters.
    """
    if wanted != "auto":
        return wanted
    if not hardware or steps < STEPS_WORTH_MEASURING:
        return "float32"
    found = measure()
    choice: Precision = "bfloat16" if found.float32 > CLEARLY_FASTER * found.bfloat16 else "float32"
    milliseconds = 1e3 * found.float32, 1e3 * found.bfloat16
    log.info("a step takes %.1f ms in float32, %.1f ms in bfloat16: %s", *milliseconds, choice)
    return choice


def step_times(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> StepTimes:
    """The shortest of a few steps in each precision, taken in turns on a copy of `net`, which stays as it is.

    On the CPU they are seconds of this process, so that another job on the machine doesn't decide.
    """
    twin = copy.deepcopy(net).train()
    clock = time.process_time if x.device.type == "cpu" else time.perf_counter
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(1 + TIMED_STEPS):
        for bfloat16, taken in times.items():
            start = clock()
            batch_loss(twin, x, y, bfloat16=bfloat16)[0].backward()  # type: ignore[no-untyped-call]
            if x.is_cuda:
                torch.cuda.synchronize(x.device)
            taken.append(clock() - start)
    return StepTimes(min(times[False][1:]), min(times[True][1:]))


def batch_loss(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, *, bfloat16: bool, label_smoothing: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross-entropy of a batch and its logits; with `bfloat16` all of the network but its last layer is in it.

    Logits of 8 significant bits would leave a trained network's small losses to rounding.
    """
    if isinstance(net, Net):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=bfloat16):
            z = net.forward_features(x)
        logits = net.forward_head(z.float())
    else:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=bfloat16):
            logits = net(x).float()
    return nn.functional.cross_entropy(logits, y, label_smoothing=label_smoothing), logits
