"""Sets of images as people have them: folders, parquet, npz, npy, arrays."""

import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from softscope import SoftscopeError
from softscope.images import ArrayImages, Decoder, Preprocessing, alternatives, open_images, open_splits
from softscope.images.preprocessing import IMAGENET_MEAN, IMAGENET_STD

RNG = np.random.default_rng(0)


def picture(path, size=(8, 8), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return np.asarray(Image.open(path).convert("RGB"))


def decoded(source, **options):
    decoder = Decoder(**options)
    return np.concatenate([block.images for block in decoder.decode_all(source.blocks(np.arange(len(source))))])


def test_a_folder_of_class_folders_is_labelled_by_their_sorted_names(tmp_path):
    pixels = {
        name: picture(tmp_path / "pets" / name) for name in ("dog/b.png", "cat/a.png", "cat/deep/er.png", "dog/a.bmp")
    }
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "pets" / ".hidden" / "x").mkdir(parents=True)
    source = open_images(tmp_path / "pets")
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 0, 1, 1]
    expected = [pixels[name] for name in ("cat/a.png", "cat/deep/er.png", "dog/a.bmp", "dog/b.png")]
    assert np.array_equal(decoded(source), np.stack(expected))


def test_a_flat_folder_has_no_labels_and_loose_images_are_said(tmp_path):
    picture(tmp_path / "flat" / "a.png")
    picture(tmp_path / "flat" / "B.PNG")
    assert open_images(tmp_path / "flat").labels is None
    assert len(open_images(tmp_path / "flat")) == 2
    picture(tmp_path / "flat" / "cat" / "c.png")
    source = open_images(tmp_path / "flat")
    assert source.labels is None
    assert source.notes == ("2 images lie beside the class folders, so the set has no labels",)


def test_an_empty_class_folder_keeps_its_number_and_is_said(tmp_path):
    picture(tmp_path / "pets" / "cat" / "a.png")
    (tmp_path / "pets" / "bird").mkdir()
    source = open_images(tmp_path / "pets")
    assert source.class_names == ("bird", "cat")
    assert source.labels.tolist() == [1]
    assert source.notes == ("class folder 'bird' has no image",)


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    picture(tmp_path / "secret" / "s.png")
    picture(tmp_path / "pets" / "cat" / "a.png")
    os.symlink(tmp_path / "secret" / "s.png", tmp_path / "pets" / "cat" / "out.png")
    os.symlink(tmp_path / "secret", tmp_path / "pets" / "dog")
    os.symlink(tmp_path / "pets", tmp_path / "pets" / "cat" / "cycle")
    os.symlink(tmp_path / "pets" / "cat" / "a.png", tmp_path / "pets" / "cat" / "inside.png")
    source = open_images(tmp_path / "pets")
    assert source.files == ["cat/a.png", "cat/inside.png"]
    assert source.notes == ("3 links to folders or out of the folder were not followed",)


def test_a_folder_of_several_sets_is_not_taken_for_one(tmp_path):
    for place in ("train/cat", "test/cat"):
        picture(tmp_path / "pets" / place / "a.png")
    with pytest.raises(SoftscopeError, match=r"holds train, test, not one set. Give one of them: .*pets/train"):
        open_images(tmp_path / "pets")


def test_splits_and_unfamiliar_sets_of_a_folder_are_found(tmp_path):
    for place in ("train/cat", "train/dog", "valid/cat", "ood/birds/x", "ood/noise"):
        picture(tmp_path / "pets" / place / "a.png")
    splits = open_splits(tmp_path / "pets")
    assert list(splits) == ["train", "valid", "ood/birds", "ood/noise"]
    assert splits["train"].name == "pets"
    assert splits["valid"].class_names == ("cat",)
    assert splits["ood/birds"].labels is None
    alone = tmp_path / "alone"
    picture(alone / "test" / "cat" / "a.png")
    picture(alone / "ood" / "a.png")
    assert list(open_splits(alone)) == ["test", "ood/ood"]
    assert list(open_splits(tmp_path / "pets" / "train")) == ["train"]


def test_parquet_with_and_without_labels(tmp_path):
    stream = io.BytesIO()
    Image.new("L", (8, 8)).save(stream, "PNG")
    pq.write_table(pa.table({"image": [stream.getvalue()] * 3}), tmp_path / "a.parquet")
    source = open_images(tmp_path / "a.parquet")
    assert source.labels is None
    assert decoded(source).shape == (3, 8, 8, 1)
    pq.write_table(pa.table({"image": [stream.getvalue()] * 3, "label": [0, 1, 1]}), tmp_path / "b.parquet")
    assert open_images(tmp_path / "b.parquet").labels.tolist() == [0, 1, 1]


def test_npz_and_npy_of_images(tmp_path):
    grey = RNG.integers(0, 256, (5, 6, 7), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=grey, y=np.arange(5) % 2, classes=np.array(["cat", "dog"]))
    source = open_images(tmp_path / "a.npz")
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 1, 0, 1, 0]
    assert np.array_equal(decoded(source)[..., 0], grey)
    colour = RNG.integers(0, 256, (4, 3, 6, 7), dtype=np.uint8)
    np.save(tmp_path / "b.npy", colour)
    assert np.array_equal(decoded(open_images(tmp_path / "b.npy")), colour.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((2, 4, 4))}, r"expected one uint8 array .*found x float64"),
        ({"x": np.zeros((2, 4, 4), np.uint8), "z": np.zeros((2, 4, 4), np.uint8)}, "expected one uint8 array"),
        ({"x": np.zeros((2, 4, 4, 5), np.uint8)}, "1 or 3 channels"),
        ({"x": np.zeros((2, 4, 4), np.uint8), "y": np.zeros(3, int)}, "3 labels for 2 rows"),
        ({"x": np.array([{}], dtype=object)}, "not a whole npz file"),
    ],
)
def test_npz_files_of_another_kind_are_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(SoftscopeError, match=words):
        open_images(tmp_path / "a.npz")


def test_what_holds_no_images_is_one_clear_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").write_text("x")
    with pytest.raises(SoftscopeError, match=r"no image in this folder \(1 other files\)"):
        open_images(tmp_path / "empty")
    with pytest.raises(SoftscopeError, match="expected a folder of images"):
        open_images(tmp_path / "empty" / "a.txt")
    with pytest.raises(SoftscopeError, match="no such file"):
        open_images(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(SoftscopeError, match="neither a file nor a folder"):
        open_images(tmp_path / "pipe.parquet")
    with pytest.raises(SoftscopeError, match="expected uint8 images"):
        ArrayImages(np.zeros((2, 4, 4)))


def test_a_fingerprint_changes_with_the_images(tmp_path):
    picture(tmp_path / "pets" / "cat" / "a.png")
    first = open_images(tmp_path / "pets").fingerprint()
    assert open_images(tmp_path / "pets").fingerprint() == first
    picture(tmp_path / "pets" / "cat" / "b.png")
    assert open_images(tmp_path / "pets").fingerprint() != first
    grey = np.zeros((2, 4, 4), np.uint8)
    assert ArrayImages(grey).fingerprint() != ArrayImages(grey + 1).fingerprint()


def test_crop_takes_the_centre_of_the_resized_image_as_torchvision_does(tmp_path):
    pixels = picture(tmp_path / "flat" / "a.png", (50, 90))
    (images,) = decoded(open_images(tmp_path / "flat"), size=28, crop=0.875, interpolation="bilinear", channels=3)
    whole = Image.fromarray(pixels).resize((57, 32), Image.Resampling.BILINEAR)
    expected = np.asarray(whole)[2:30, 14:42]
    assert np.array_equal(images, expected)
    (squashed,) = decoded(open_images(tmp_path / "flat"), size=(20, 30), squash=True, channels=1)
    assert squashed.shape == (20, 30, 1)


def test_preprocessing_is_the_formula():
    pixels = RNG.integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    chosen = Preprocessing(mean=IMAGENET_MEAN, std=IMAGENET_STD, bgr=True)
    expected = (pixels[..., ::-1] / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    np.testing.assert_allclose(chosen.apply(pixels), expected.transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-6)
    last = Preprocessing(layout="NHWC", scale=1.0)
    assert np.array_equal(last.apply(pixels), pixels.astype(np.float32))
    assert "BGR" in str(chosen)
    assert chosen.flags() == "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --bgr"
    assert set(alternatives(Preprocessing())) == {
        "pixels -1 to 1", "pixels 0 to 255", "ImageNet's mean and std", "BGR",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "size 0"),
        ({"size": 9999}, "size 9999"),
        ({"crop": 0.0}, "crop 0.0"),
        ({"interpolation": "magic"}, "interpolation magic: unknown value"),
    ],
)
def test_a_decoder_refuses_what_makes_no_sense(options, words):
    with pytest.raises(SoftscopeError, match=words):
        Decoder(**options)
    with pytest.raises(SoftscopeError, match="channels 2"):
        Preprocessing(channels=2)
