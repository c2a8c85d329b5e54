"""Augmentation of a whole batch at once, on tensors [N, height, width, channels]."""

from ...torch_door import torch
from .settings import Augment

PADDING = 4


def augmented(batch: torch.Tensor, how: Augment, generator: torch.Generator) -> torch.Tensor:
    """Each image shifted by up to 4 pixels (black comes in) and, for "crop+flip", mirrored half the time."""
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
