"""Pure image functions against hand-made images and second computations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from softscope.errors import SoftscopeError
from softscope.images import as_rgb, balanced_rows, binarise9, greyscale, select_classes, to_rgb32

LABELS = arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 5))


def test_classes_are_relabelled_by_their_position_in_the_list():
    rows, labels = select_classes(np.array([3, 1, 2, 3, 0, 1]), [3, 1])
    assert rows.tolist() == [0, 1, 3, 5]
    assert labels.tolist() == [0, 1, 0, 1]


@given(labels=LABELS, data=st.data())
def test_chosen_classes_keep_every_row_of_theirs_and_no_other(labels, data):
    chosen = data.draw(st.lists(st.sampled_from(np.unique(labels).tolist()), min_size=1, unique=True))
    rows, new = select_classes(labels, chosen)
    assert rows.tolist() == [row for row, label in enumerate(labels.tolist()) if label in chosen]
    assert [chosen[label] for label in new] == labels[rows].tolist()


@pytest.mark.parametrize("classes", [[], [1, 1], [9]])
def test_classes_that_are_empty_repeated_or_absent_are_refused(classes):
    with pytest.raises(SoftscopeError, match="classes"):
        select_classes(np.array([0, 1, 2]), classes)


@settings(max_examples=200)
@given(labels=LABELS, data=st.data())
def test_a_balanced_sample_is_as_even_as_the_class_sizes_allow(labels, data):
    count = data.draw(st.integers(1, len(labels)))
    rows = balanced_rows(labels, count, seed=data.draw(st.integers(0, 9)))
    assert len(set(rows.tolist())) == count
    assert rows.tolist() == sorted(rows.tolist())
    classes, sizes = np.unique(labels, return_counts=True)
    taken = np.array([(labels[rows] == c).sum() for c in classes])
    unfilled = taken[taken < sizes]
    if len(unfilled):
        assert taken.max() - unfilled.min() <= 1


def test_a_balanced_sample_repeats_with_its_seed_and_changes_with_another():
    labels = np.arange(1000) % 10
    assert np.array_equal(balanced_rows(labels, 50, seed=1), balanced_rows(labels, 50, seed=1))
    assert not np.array_equal(balanced_rows(labels, 50, seed=1), balanced_rows(labels, 50, seed=2))


@pytest.mark.parametrize("count", [0, 4, -1])
def test_a_balanced_sample_of_more_rows_than_there_are_is_refused(count):
    with pytest.raises(SoftscopeError, match="rows asked"):
        balanced_rows(np.array([0, 1, 1]), count)


def test_the_exchange_format_pads_two_black_pixels_and_repeats_the_channel():
    image = np.zeros((1, 28, 28, 1), dtype=np.uint8)
    image[0, 0, 0], image[0, 27, 27], image[0, 3, 5] = 7, 9, 200
    wide = to_rgb32(image)
    assert wide.shape == (1, 32, 32, 3)
    for channel in range(3):
        assert np.array_equal(wide[0, 2:30, 2:30, channel], image[0, :, :, 0])
        assert wide[0, :, :, channel].sum() == image.sum(dtype=int)


def test_the_exchange_format_leaves_32x32_colour_images_as_they_are():
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    assert np.array_equal(to_rgb32(images), images)
    grey = images[..., :1]
    assert np.array_equal(to_rgb32(grey), np.concatenate([grey] * 3, axis=3))


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((1, 30, 30, 1), np.uint8),
        np.zeros((1, 28, 28, 1), np.float32),
        np.zeros((28, 28, 1), np.uint8),
        np.zeros((1, 28, 28, 4), np.uint8),
    ],
)
def test_images_of_another_size_type_or_shape_are_refused(images):
    with pytest.raises(SoftscopeError, match="images"):
        to_rgb32(images)


def test_greyscale_agrees_with_pillow_on_every_pixel():
    images = np.random.default_rng(1).integers(0, 256, (3, 17, 23, 3), dtype=np.uint8)
    expected = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in images])
    assert np.array_equal(greyscale(images)[..., 0], expected)
    assert greyscale(images[..., :1]) is not None
    assert np.array_equal(greyscale(images[..., :1]), images[..., :1])


def test_grey_images_become_rgb_of_equal_channels():
    grey = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    rgb = as_rgb(grey)
    assert rgb.shape == (1, 4, 4, 3)
    assert np.array_equal(greyscale(rgb), grey)


def test_nine_by_nine_pixels_are_area_means_against_the_threshold():
    image = np.zeros((1, 27, 27, 1), dtype=np.uint8)
    image[0, 0:3, 0:3] = 255
    image[0, 3, 3:6] = 255
    image[0, 6:9, 6:9, 0] = [[255, 255, 255], [0, 0, 0], [255, 0, 0]]
    small = binarise9(image, threshold=4 / 9)
    assert small.shape == (1, 9, 9, 1)
    assert small[0, 0, 0] == 1
    assert small[0, 1, 1] == 0
    assert small[0, 2, 2] == 1
    assert small.sum() == 2


def test_nine_by_nine_of_28_pixels_equals_the_exact_area_mean():
    images = np.random.default_rng(2).integers(0, 256, (5, 28, 28, 1), dtype=np.uint8)
    # Each pixel nine times along each side: blocks of 28 x 28 are then exactly one of the 81 areas.
    fine = np.repeat(np.repeat(images[..., 0].astype(int), 9, axis=1), 9, axis=2)
    totals = fine.reshape(5, 9, 28, 9, 28).sum(axis=(2, 4))
    assert np.array_equal(binarise9(images)[..., 0], 10 * totals >= 3 * 255 * 28 * 28)


def test_nine_by_nine_of_a_white_image_is_all_ones_and_of_black_all_zeros():
    white = np.full((2, 28, 28, 1), 255, dtype=np.uint8)
    assert binarise9(white, threshold=1.0).all()
    assert not binarise9(white * 0).any()
