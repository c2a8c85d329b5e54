"""Extraction by many workers: the file of one process, also where some parts are there already."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from softscope.engine import Engine
from softscope.features import FeatureSet
from softscope.images import open_images
from softscope.models import Options, make_plan, open_model, write_splits
from softscope.models import files as parts
from softscope.scoring import SpreadExtraction
from tests.faults.formats import onnx_file

ROWS = 100


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A plan of several parts, one image of which can't be decoded."""
    from PIL import Image

    monkeypatch.setattr(parts, "_PART_ROWS", 30)
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (ROWS, 8, 8), np.uint8)):
        path = tmp_path / "pets" / "abc"[number % 3] / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    (tmp_path / "pets" / "b" / "004.png").write_bytes(b"not an image")
    opener = partial(open_model, str(onnx_file(tmp_path)))
    return make_plan(opener(), {"pets": open_images(tmp_path / "pets", "pets")}), opener


def check_alike(plan, opener, engine, tmp_path):
    (whole,) = write_splits(plan, tmp_path / "whole", Options())
    told = []
    spread = SpreadExtraction(opener, engine, progress=lambda what, done, total: told.append((done, total)))
    (spread_out,) = write_splits(plan, tmp_path / "spread", Options(spread=spread))
    here, there = FeatureSet.open(whole.path), FeatureSet.open(spread_out.path)
    assert np.array_equal(here.array(), there.array())
    assert (there.labels is None) == (here.labels is None)
    assert there.metadata == here.metadata
    assert (spread_out.rows, len(spread_out.skipped)) == (ROWS - 1, 1)
    assert told[0] == (0, ROWS)
    assert told[-1] == (ROWS, ROWS)
    assert not list((tmp_path / "spread").glob(".*.parts"))


def test_one_worker_writes_the_file_of_no_workers(plan, tmp_path):
    check_alike(*plan, Engine(workers=1, progress=False), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.apart)])
def test_processes_and_ray_write_the_file_of_one_process(plan, tmp_path, engine):
    pytest.importorskip("ray")
    check_alike(*plan, Engine(engine, workers=2, progress=False), tmp_path)


def test_parts_that_are_there_are_not_made_again(plan, tmp_path, monkeypatch):
    planned, opener = plan
    written, write = [], parts.write_part

    def breaking(plan, chosen, part, options):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(part.rows.start)
        write(plan, chosen, part, options)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "write_part", breaking)
        with pytest.raises(KeyboardInterrupt):
            write_splits(planned, tmp_path, Options())
    seen = []

    def spread(plan, chosen, todo):
        seen.extend(todo)
        SpreadExtraction(opener, Engine(workers=1, progress=False))(plan, chosen, todo)

    (out,) = write_splits(planned, tmp_path, Options(spread=spread))
    assert [part.rows.start for part in seen] == [60, 90]
    assert out.rows == ROWS - 1
