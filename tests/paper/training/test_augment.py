"""Augmentation against images cut by hand."""

import numpy as np
import torch

from softscope.paper.training.parts import augmented, random_crop, random_flip


def images(n=40, size=6, channels=3):
    return torch.from_numpy(np.random.default_rng(0).integers(1, 256, (n, size, size, channels), dtype=np.uint8))


def test_each_crop_is_a_window_of_its_own_padded_image_and_all_offsets_occur():
    batch = images(n=400)
    cropped = random_crop(batch, 1, torch.Generator().manual_seed(0))
    assert cropped.dtype == torch.uint8
    offsets = set()
    for image, crop in zip(batch.numpy(), cropped.numpy()):
        padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
        matches = [(i, j) for i in range(3) for j in range(3) if np.array_equal(padded[i : i + 6, j : j + 6], crop)]
        assert len(matches) == 1
        offsets.add(matches[0])
    assert len(offsets) == 9


def test_a_flip_mirrors_left_and_right_in_about_half_of_the_images():
    batch = images(n=400)
    flipped = random_flip(batch, torch.Generator().manual_seed(0))
    mirrored = [np.array_equal(a[:, ::-1], b) for a, b in zip(batch.numpy(), flipped.numpy())]
    same = [np.array_equal(a, b) for a, b in zip(batch.numpy(), flipped.numpy())]
    assert all(m != s for m, s in zip(mirrored, same))
    assert 150 < sum(mirrored) < 250


def test_none_leaves_the_batch_alone_and_crop_alone_never_mirrors():
    batch = images()
    assert augmented(batch, "none", torch.Generator()) is batch
    left_dark = torch.zeros(50, 16, 16, 1, dtype=torch.uint8)
    left_dark[:, :, 8:] = 1
    cropped = augmented(left_dark, "crop", torch.Generator().manual_seed(0))
    assert (cropped[:, :, :4] == 0).all()
    both = augmented(left_dark, "crop+flip", torch.Generator().manual_seed(0))
    assert (both[:, 8, 4] == 1).any()
