"""What the loop is made of: accuracy, augmentation, the mean of the last weights, and float32 or bfloat16."""

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...arrays import as_labels, spans
from ...torch_door import device_of, evaluating, image_tensor, keep_freed_memory, nn, torch
from ..nets import Net
from .settings import Augment, Precision

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """Share of right answers and mean cross-entropy."""

    accuracy: float
    loss: float


def evaluate(net: nn.Module, images: Any, labels: Any, *, batch: int = 500) -> Evaluation:
    """Accuracy and mean cross-entropy of `net` on `images`, in batches, the network in evaluation mode meanwhile."""
    x, y = as_tensors(net, images, labels)
    keep_freed_memory()
    device = device_of(net)
    right, loss = 0, 0.0
    with evaluating(net):
        for span in spans(len(x), batch):
            logits = net(x[span].to(device)).float().cpu()
            right += int((logits.argmax(1) == y[span]).sum())
            loss += float(nn.functional.cross_entropy(logits, y[span], reduction="sum"))
    return Evaluation(accuracy=right / len(x), loss=loss / len(x))


def as_tensors(net: nn.Module, images: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels as CPU tensors, checked: as many of both, labels among the classes, no NaN."""
    x = image_tensor(images)
    answer = getattr(net, "get_classifier", lambda: None)()
    classes = getattr(answer, "out_features", None)
    y = as_labels(np.asarray(labels), "labels", rows=len(x), classes=classes)
    return x, torch.from_numpy(y)


PADDING = 4


def augmented(batch: torch.Tensor, how: Augment, generator: torch.Generator) -> torch.Tensor:
    """Images [N, height, width, channels] shifted by up to 4 pixels (black comes in), for "crop+flip" mirrored too."""
    if how == "none":
        return batch
    shifted = random_crop(batch, PADDING, generator)
    return random_flip(shifted, generator) if how == "crop+flip" else shifted


def random_crop(batch: torch.Tensor, padding: int, generator: torch.Generator) -> torch.Tensor:
    """Pad height and width by `padding` zeros on each side, then cut a window of the old size at random from each."""
    n, height, width = batch.shape[:3]
    padded = batch.new_zeros((n, height + 2 * padding, width + 2 * padding, *batch.shape[3:]))
    padded[:, padding : padding + height, padding : padding + width] = batch
    offsets = torch.randint(0, 2 * padding + 1, (2, n, 1), generator=generator).to(batch.device)
    rows = offsets[0] + torch.arange(height, device=batch.device)
    columns = offsets[1] + torch.arange(width, device=batch.device)
    images = torch.arange(n, device=batch.device)
    return padded[images[:, None, None], rows[:, :, None], columns[:, None, :]]


def random_flip(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror each image left to right with probability one half."""
    flips = torch.rand(len(batch), generator=generator).to(batch.device) < 0.5
    return torch.where(flips.view(-1, *[1] * (batch.ndim - 1)), batch.flip(2), batch)


# Images that give batch norm its mean and variance: 10,000 images of 8 x 8 positions leave 0.1 % error in a mean.
BATCH_NORM_IMAGES = 10_000


class WeightAverage:
    """The running mean of the trained parameters over the last share `last` of `steps` updates.

    The mean of weights that a still high rate keeps moving lies closer to the middle of the valley than the last of
    them: a short training gains what it would otherwise get from a longer tail. Batch norm's running mean and variance
    belong to other weights then, so they are taken afresh from training images (`estimating_batch_norm`).
    """

    def __init__(self, net: nn.Module, last: float, steps: int) -> None:
        self.parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
        self.means = [parameter.detach().clone() for parameter in self.parameters]
        self.first = min(math.floor((1 - last) * steps), steps - 1)

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after `step` (counted from 1): mean += (weights - mean) / count."""
        if step > self.first:
            weights = [parameter.detach() for parameter in self.parameters]
            torch._foreach_lerp_(self.means, weights, 1.0 / (step - self.first))

    @torch.no_grad()
    def apply(self) -> None:
        """Put the means in the place of the weights."""
        for parameter, mean in zip(self.parameters, self.means):
            parameter.copy_(mean)


@contextmanager
def estimating_batch_norm(net: nn.Module) -> Iterator[None]:
    """Batches that `net` sees inside give batch norm its statistics, all with one weight; the old ones are gone."""
    layers = [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # torch: a plain mean over batches
    net.train()
    try:
        with torch.no_grad():
            yield
    finally:
        for layer, momentum in zip(layers, momenta):
            layer.momentum = momentum


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
        supported: bool = torch.cuda.is_bf16_supported(including_emulation=False)
        return supported
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
    seconds = measure()
    choice: Precision = "bfloat16" if seconds.float32 > CLEARLY_FASTER * seconds.bfloat16 else "float32"
    milliseconds = 1e3 * seconds.float32, 1e3 * seconds.bfloat16
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
