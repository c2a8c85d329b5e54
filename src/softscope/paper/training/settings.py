"""What determines a training besides the network and the data, and the learning rate of each step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from ...canonical import LATER
from ...errors import SoftscopeError

Optimizer = Literal["adam", "adamw", "sgd"]
Augment = Literal["none", "crop", "crop+flip"]
Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class TrainSettings:
    """Same settings, same data, same machine: the same weights to the last bit (on the CPU).

    optimizer     "adam" (constant rate), "sgd" (Nesterov) or "adamw" (decay of matrices alone, not of biases and
                  norms), the last two with a one-cycle rate that has its peak at `lr`
    warm_up       share of the steps over which a one-cycle rate rises to its peak; a cosine brings it down afterwards
    average       share of the steps, counted from the end, whose weights are averaged to give the trained network;
                  batch norm is estimated again for them. 0: the last weights
    augment       "none", "crop" (4 pixels of black padding) or "crop+flip"; only where the data set calls for it
    standardise   take the network's first step, mean and std of each channel, from the training images (else x / 255)
    label_smoothing  0 by default: it changes the softmax this project is about
    precision     "auto" measures a few steps of each and takes bfloat16 where the hardware has it and it is clearly
                  faster; the choice is recorded. Weights, evaluation and features are float32 in any case
    patience      ends an Adam training early: after so many epochs in a row none of whose losses fell by at least 1 %
                  below the lowest before them. 0: all epochs
    threads       fixed, because the order of sums, hence the last bits, depends on it

    >>> round(TrainSettings(optimizer="sgd", lr=0.1).rate(step=0, steps=100), 6)
    0.004
    """

    optimizer: Optimizer = "adam"
    lr: float = 1e-3
    epochs: int = 2
    batch: int = 128
    weight_decay: float = 0.0
    momentum: float = 0.9
    label_smoothing: float = 0.0
    augment: Augment = "none"
    standardise: bool = False
    precision: Precision = "auto"
    seed: int = 0
    threads: int = 2
    warm_up: float = field(default=0.3, metadata=LATER)
    average: float = field(default=0.0, metadata=LATER)
    patience: int = field(default=0, metadata=LATER)

    def __post_init__(self) -> None:
        choices = {"optimizer": Optimizer, "augment": Augment, "precision": Precision}
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise SoftscopeError(
                    f"{name}: no {getattr(self, name)!r}", f"Choose one of {', '.join(get_args(kind))}"
                )
        for name in ("epochs", "batch", "threads"):
            if getattr(self, name) < 1:
                raise SoftscopeError(f"{name}: {getattr(self, name)}", "Give a whole number of at least 1")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise SoftscopeError(f"lr: {self.lr}", "Give a learning rate above 0")
        if self.patience < 0 or (self.patience and self.optimizer != "adam"):
            raise SoftscopeError(
                f"patience: {self.patience} with {self.optimizer}",
                "Give a whole number of at least 0; a one-cycle rate needs all of its epochs, so only with adam",
            )
        for name in ("weight_decay", "momentum", "label_smoothing", "warm_up", "average"):
            limit = math.inf if name == "weight_decay" else 1.0
            if not 0 <= getattr(self, name) < limit:
                raise SoftscopeError(f"{name}: {getattr(self, name)}", f"Give a number in [0, {limit})")

    def is_flat(self, losses: Sequence[float]) -> bool:
        """Whether the last `patience` of the epochs' losses brought nothing below the lowest before them."""
        if not self.patience or len(losses) <= self.patience:
            return False
        return min(losses[-self.patience :]) > 0.99 * min(losses[: -self.patience])

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of `step` (from 0) out of `steps`."""
        return self.lr if self.optimizer == "adam" else one_cycle(step, steps, self.lr, self.warm_up)


def one_cycle(step: int, steps: int, peak: float, warm_up: float = 0.3) -> float:
    """From peak/25 up to `peak` over the share `warm_up` of the steps, then down to peak/250,000, both by a cosine."""
    top = warm_up * steps - 1.0
    last = steps - 1.0
    if step <= top:
        return _arc(peak / 25, peak, step / top if top > 0 else 1.0)
    return _arc(peak, peak / 25e4, (step - top) / (last - top) if last > top else 1.0)


def _arc(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1.0 + math.cos(math.pi * share)) / 2.0
