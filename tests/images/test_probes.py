"""Probes keep the size of the images they are made from, and nothing else of them than their kind says."""

import io

import numpy as np
import pytest
from PIL import Image

from softscope.images import PROBES, ArrayImages, Decoder, open_images, probe_images


@pytest.mark.parametrize("shape", [(28, 28), (30, 41, 3), (3, 2)], ids=str)
def test_every_kind_has_the_shape_of_its_original_and_repeats(rng, shape) -> None:
    source = ArrayImages(rng.integers(0, 256, (7, *shape), np.uint8))
    rows = np.arange(7)
    for kind, probes in probe_images(source).items():
        assert probes.name == kind
        first, again = (Decoder().decode(next(iter(probes.blocks(rows)))).images for _ in range(2))
        assert first.shape[:3] == (7, *shape[:2])
        assert np.array_equal(first, again)
        part = Decoder().decode(next(iter(probes.blocks(rows[3:5])))).images
        assert np.array_equal(part, first[3:5])
    assert len({probes.fingerprint() for probes in probe_images(source).values()}) == len(PROBES)


def test_the_kinds_do_what_they_say(rng) -> None:
    pixels = rng.integers(0, 256, (2, 16, 16), np.uint8)
    made = {
        kind: Decoder().decode(next(iter(probes.blocks(np.arange(2))))).images[..., 0]
        for kind, probes in probe_images(ArrayImages(pixels)).items()
    }
    assert np.array_equal(made["inverted"], 255 - pixels)
    assert np.array_equal(np.sort(made["shuffled"].ravel()), np.sort(pixels.ravel()))
    assert not np.array_equal(made["shuffled"], pixels)
    assert made["blurred"].std() < 0.2 * pixels.std()
    assert 60 < made["noise"].std() < 90


def test_at_most_500_are_made_and_a_broken_file_stays_broken(tmp_path, rng) -> None:
    assert len(probe_images(ArrayImages(np.zeros((800, 4, 4), np.uint8)))["noise"]) == 500
    folder = tmp_path / "images" / "a"
    folder.mkdir(parents=True)
    stream = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (9, 9), np.uint8)).save(stream, "png")
    (folder / "1.png").write_bytes(stream.getvalue())
    (folder / "2.png").write_bytes(b"no image")
    probes = probe_images(open_images(tmp_path / "images"))["inverted"]
    decoded = Decoder().decode(next(iter(probes.blocks(np.arange(2)))))
    assert len(decoded.images) == 1
    assert len(decoded.bad) == 1
