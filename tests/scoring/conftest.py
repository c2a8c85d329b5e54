"""A small network's features in files, a guard on its density and one on its softmax."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from softscope.guard import Guard
from softscope.head import Head

CLASSES, WIDTH = 4, 12


def draw(rng, rows):
    """Rows along the weights of the network below, with the class of each."""
    weight = np.random.default_rng(4).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    labels = rng.integers(0, CLASSES, rows)
    return (1.5 * weight[labels] + 0.8 * rng.normal(size=(rows, WIDTH))).astype(np.float32), labels


def lists(z):
    return pa.table({"z": pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), z.shape[1])})


@pytest.fixture(scope="session")
def world():
    rng = np.random.default_rng(5)
    weight = np.random.default_rng(4).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    head = Head(weight, 0.1 * rng.normal(size=CLASSES), ["cat", "dog", "hen", "<owl>"])
    train, calibration = draw(rng, 800), draw(rng, 400)
    return SimpleNamespace(
        head=head,
        train=train,
        calibration=calibration,
        density=Guard.fit(head, train, calibration, "density"),
        softmax=Guard.fit(head, None, calibration, "max"),
        fresh=draw(rng, 500)[0],
        strange=(6 * rng.normal(size=(100, WIDTH))).astype(np.float32),
    )


@pytest.fixture
def inputs(world, tmp_path):
    """The fresh and the strange rows in a folder, in every format; `z` has them in the order of the files' names."""
    folder = tmp_path / "in"
    (folder / "deeper").mkdir(parents=True)
    parts = [world.fresh[:200], world.fresh[200:300], world.fresh[300:], world.strange]
    save_file({"z": parts[0], "labels": np.zeros(200, np.int64)}, folder / "a.safetensors")
    np.save(folder / "b.npy", parts[1])
    np.savez_compressed(folder / "deeper" / "c.npz", z=parts[2])
    pq.write_table(lists(parts[3]), folder / "e.parquet", row_group_size=30)
    (folder / "README.txt").write_text("is not an input")
    names = ["a.safetensors"] * 200 + ["b.npy"] * 100 + ["deeper/c.npz"] * 200 + ["e.parquet"] * 100
    return SimpleNamespace(folder=folder, z=np.concatenate(parts), names=names)
