"""float32 or bfloat16? Decided by what the hardware has and a short measurement."""

import copy
import logging
import time
from collections.abc import Callable

from .._torch import nn, torch
from .settings import Precision

log = logging.getLogger(__name__)

# A measurement of a dozen steps doesn't pay, and isn't wanted, in a short training.
STEPS_WORTH_MEASURING = 500
CLEARLY_FASTER = 1.2
TIMED_STEPS = 4


def has_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 itself."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return False


def choose_precision(wanted: Precision, steps: int, hardware: bool, seconds: Callable[[bool], float]) -> Precision:
    """`wanted`; for "auto" bfloat16 where there is hardware for it and a step takes clearly fewer seconds.

    `seconds(bfloat16)` measures a step; it is called only where the answer matters.
    """
    if wanted != "auto":
        return wanted
    if not hardware or steps < STEPS_WORTH_MEASURING:
        return "float32"
    plain, short = seconds(False), seconds(True)
    choice: Precision = "bfloat16" if plain > CLEARLY_FASTER * short else "float32"
    log.info("a step takes %.1f ms in float32, %.1f ms in bfloat16: %s", 1e3 * plain, 1e3 * short, choice)
    return choice


def step_seconds(net: nn.Module, x: torch.Tensor, y: torch.Tensor, bfloat16: bool) -> float:
    """The shortest of a few training steps on a copy of `net`, which stays as it is."""
    twin = copy.deepcopy(net).train()
    times = []
    for _ in range(1 + TIMED_STEPS):
        start = time.perf_counter()
        batch_loss(twin, x, y, bfloat16=bfloat16)[0].backward()  # type: ignore[no-untyped-call]
        if x.is_cuda:
            torch.cuda.synchronize(x.device)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def batch_loss(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, *, bfloat16: bool, label_smoothing: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross-entropy of a batch and its logits, the network in bfloat16 where asked, the loss in float32."""
    with torch.autocast(x.device.type, torch.bfloat16, enabled=bfloat16):
        logits = net(x)
    logits = logits.float()
    return nn.functional.cross_entropy(logits, y, label_smoothing=label_smoothing), logits
