"""The training loop. It reads like the recipe: set up or resume, then for each epoch its batches, test, checkpoint."""

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...errors import SoftscopeError
from ...progress import Progress, silent
from ...torch_door import best_device, keep_freed_memory, nn, reproducible, torch
from ..nets import in_memory_order
from .checkpoint import TrainingState, fingerprint, load_checkpoint, save_checkpoint
from .parts import (
    BATCH_NORM_IMAGES,
    WeightAverage,
    as_tensors,
    augmented,
    batch_loss,
    choose_precision,
    estimating_batch_norm,
    evaluate,
    has_bfloat16,
    step_times,
)
from .settings import Precision, TrainSettings

log = logging.getLogger(__name__)

AfterStep = Callable[[nn.Module, int, int], None]
AfterEpoch = Callable[[nn.Module, int, "EpochRecord"], None]


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: mean loss and accuracy of its training batches, and, with a test set, those of the test set."""

    loss: float
    accuracy: float
    test_loss: float | None = None
    test_accuracy: float | None = None


@dataclass(frozen=True)
class TrainResult:
    """`history` is the result and repeats exactly; time, device and precision say how it was reached."""

    history: tuple[EpochRecord, ...]
    seconds: float
    images_per_second: float
    precision: Precision
    device: str
    resumed_from: int


def train(
    net: nn.Module,
    images: Any,
    labels: Any,
    settings: TrainSettings | None = None,
    *,
    test: tuple[Any, Any] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
    after_step: AfterStep | None = None,
    after_epoch: AfterEpoch | None = None,
) -> TrainResult:
    """Train `net` in place on `images` [N, ...] and `labels` [N]; frozen parameters stay.

    With `checkpoint_dir` the state is saved after each epoch and a second call continues from there, to the same bits.
    `after_step(net, step, steps)` runs after each update, with steps counted from 1 (X4 moves the last layer there).
    `after_epoch(net, epoch, record)` runs before the epoch's checkpoint: a killed training may call it twice for one
    epoch, with the same weights, but never leaves one out.
    """
    settings = settings or TrainSettings()
    x, y = as_tensors(net, images, labels)
    keep_freed_memory()
    device = best_device()
    with reproducible(settings.threads, settings.seed, device):
        run = _Run(net, x, y, settings, device, checkpoint_dir)
        return run(test, progress, after_step, after_epoch)


class _Run:
    """One call of `train`: the tensors, the optimiser and where it stands."""

    def __init__(
        self,
        net: nn.Module,
        x: torch.Tensor,
        y: torch.Tensor,
        settings: TrainSettings,
        device: torch.device,
        folder: str | os.PathLike[str] | None,
    ) -> None:
        self.of = "" if folder is None else fingerprint(settings, x, y)
        self.folder = folder
        self.settings = settings
        self.net = in_memory_order(net.to(device))
        if settings.standardise:
            _standardise(net, x)
        self.x, self.y = x.to(device), y.to(device)
        self.optimizer = _optimizer(net, settings)
        self.steps = settings.epochs * sum(1 for _ in _batches(torch.arange(len(x)), settings.batch))
        self.average = WeightAverage(net, settings.average, self.steps) if settings.average else None
        kept = None if folder is None else load_checkpoint(folder, net, self.optimizer, self.of, self.average)
        self.state = kept or TrainingState((), self._precision(), 0.0)
        if kept is None:
            # Fixes the measured precision: a training killed in its first epoch starts again with the same one.
            self._save()

    def __call__(
        self,
        test: tuple[Any, Any] | None,
        progress: Progress,
        after_step: AfterStep | None,
        after_epoch: AfterEpoch | None,
    ) -> TrainResult:
        resumed_from = len(self.state.history)
        for epoch in range(resumed_from, self.settings.epochs):
            if self.settings.is_flat([float(record["loss"]) for record in self.state.history]):
                break
            start = time.perf_counter()
            loss, accuracy = self._epoch(epoch, progress, after_step)
            scored = None if test is None else evaluate(self.net, *test)
            record = EpochRecord(loss, accuracy, *(() if scored is None else (scored.loss, scored.accuracy)))
            seconds = self.state.seconds + time.perf_counter() - start
            self.state = TrainingState((*self.state.history, asdict(record)), self.state.precision, seconds)
            if after_epoch is not None:
                after_epoch(self.net, epoch + 1, record)
            self._save()
        self._take_average()
        return self._result(resumed_from)

    def _epoch(self, epoch: int, progress: Progress, after_step: AfterStep | None) -> tuple[float, float]:
        settings, n = self.settings, len(self.x)
        generator = torch.Generator().manual_seed(_seed_of(settings.seed, epoch))
        torch.manual_seed(_seed_of(settings.seed, epoch, 1))
        step = epoch * (self.steps // settings.epochs)
        seen, right = 0, 0
        total = torch.zeros((), device=self.x.device)
        self.net.train()
        for rows in _batches(torch.randperm(n, generator=generator), settings.batch):
            rows = rows.to(self.x.device)
            batch = augmented(self.x[rows], settings.augment, generator)
            loss, logits = self._update(batch, self.y[rows], settings.rate(step, self.steps))
            step += 1
            if self.average is not None:
                self.average.update(step)
            if after_step is not None:
                with torch.no_grad():
                    after_step(self.net, step, self.steps)
            seen += len(rows)
            total += loss * len(rows)
            right += int((logits.argmax(1) == self.y[rows]).sum())
            progress(self._words(epoch, float(loss), right / seen), step, self.steps)
        mean = float(total) / seen
        if not math.isfinite(mean):
            raise SoftscopeError(
                f"training diverged in epoch {epoch + 1}: the loss is {mean}", "Lower the learning rate"
            )
        return mean, right / seen

    def _take_average(self) -> None:
        """The mean weights become the network's; batch norm learns them from augmented images, in float32."""
        if self.average is None:
            return
        self.average.apply()
        generator = torch.Generator().manual_seed(_seed_of(self.settings.seed, self.settings.epochs))
        some = torch.randperm(len(self.x), generator=generator)[:BATCH_NORM_IMAGES]
        with estimating_batch_norm(self.net):
            for rows in _batches(some, self.settings.batch):
                self.net(augmented(self.x[rows.to(self.x.device)], self.settings.augment, generator))

    def _words(self, epoch: int, loss: float, accuracy: float) -> str:
        words = f"epoch {epoch + 1}/{self.settings.epochs}  loss {loss:.3f}  accuracy {accuracy:.2%}"
        tested = self.state.history[-1].get("test_accuracy") if self.state.history else None
        return words if tested is None else f"{words}  test {tested:.2%}"

    def _update(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> tuple[torch.Tensor, torch.Tensor]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        bfloat16 = self.state.precision == "bfloat16"
        loss, logits = batch_loss(self.net, x, y, bfloat16=bfloat16, label_smoothing=self.settings.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach(), logits.detach()

    def _precision(self) -> Precision:
        x, y = self.x[: self.settings.batch], self.y[: self.settings.batch]
        return choose_precision(
            self.settings.precision, self.steps, has_bfloat16(x.device), lambda: step_times(self.net, x, y)
        )

    def _save(self) -> None:
        if self.folder is not None:
            save_checkpoint(self.folder, self.net, self.optimizer, self.state, self.of, self.average)

    def _result(self, resumed_from: int) -> TrainResult:
        seconds = self.state.seconds
        precision: Precision = "bfloat16" if self.state.precision == "bfloat16" else "float32"
        return TrainResult(
            history=tuple(EpochRecord(**record) for record in self.state.history),
            seconds=seconds,
            images_per_second=len(self.x) * len(self.state.history) / max(seconds, 1e-9),
            precision=precision,
            device=self.x.device.type,
            resumed_from=resumed_from,
        )


def _batches(order: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """Rows of each batch; a last batch of a single row is left out, because batchnorm can't use it."""
    for rows in torch.split(order, size):
        if len(rows) > 1 or len(order) == 1:
            yield rows


def _seed_of(*words: int) -> int:
    """A 63-bit seed from (seed, epoch, ...), unrelated for neighbouring words."""
    return int(np.random.SeedSequence([word & (2**64 - 1) for word in words]).generate_state(1, np.uint64)[0] >> 1)


def _standardise(net: nn.Module, x: torch.Tensor) -> None:
    fit = getattr(getattr(net, "normalise", None), "fit", None)
    if fit is None:
        raise SoftscopeError(f"{type(net).__name__} has no `normalise` step to standardise", "Use standardise=False")
    fit(x.numpy())


def _optimizer(net: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    if not trained:
        raise SoftscopeError("nothing to train: every parameter is frozen", "Set requires_grad on some of them")
    if settings.optimizer == "adam":
        return torch.optim.Adam(trained, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)
    if settings.optimizer == "adamw":
        matrices = [parameter for parameter in trained if parameter.ndim > 1]
        rest = [parameter for parameter in trained if parameter.ndim <= 1]
        groups: list[dict[str, Any]] = [{"params": matrices}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)
    return torch.optim.SGD(
        trained,
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.momentum > 0,
        weight_decay=settings.weight_decay,
        fused=True,
    )
