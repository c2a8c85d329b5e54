"""From pixels to what a network takes: scaled, standardised, channels first."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..torch_door import nn, torch


class Normalise(nn.Module):
    """(x - mean) / std over the last axis, kept as buffers so that a saved network takes raw pixels.

    The default for images is x / 255; `fit` takes mean and standard deviation of each channel from training images.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, channels: int, std: float = 255.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.full((channels,), std))

    def fit(self, images: Any) -> None:
        """Take mean and std of each channel from `images` [N, ..., C]; a constant channel gets std 1."""
        channels = self.mean.numel()
        values = np.asarray(images)
        axes = tuple(range(values.ndim - 1 if values.shape[-1] == channels else values.ndim))
        mean = values.mean(axis=axes, dtype=np.float64).reshape(-1)
        std = values.std(axis=axes, dtype=np.float64).reshape(-1)
        self.mean.copy_(torch.from_numpy(mean))
        self.std.copy_(torch.from_numpy(np.where(std > 0, std, 1.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(self.mean.dtype) - self.mean) / self.std


class FromPixels(nn.Module):
    """A model of the user's behind the usual first step: pixels / 255, then (x - mean) / std, as [N, C, H, W]."""

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalise = Normalise(len(mean))
        self.normalise.mean.copy_(255.0 * torch.tensor(mean))
        self.normalise.std.copy_(255.0 * torch.tensor(std))
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(self.normalise(x).movedim(-1, 1).contiguous())

    def get_classifier(self) -> Any:
        """The model's own answer to timm's question, where it has one."""
        getter = getattr(self.model, "get_classifier", None)
        return getter() if callable(getter) else None
