"""A fit over shards equals that of one process, in the same number of iterations."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from softscope.engine import Engine
from softscope.estimators import estimator
from softscope.features import FeatureSet
from softscope.guard import Guard
from softscope.mixture import in_tree_order
from softscope.scoring import sharded_features

HERE = Engine(workers=1, progress=False)


@pytest.fixture
def train(world, tmp_path):
    z, labels = world.train
    save_file({"z": z, "labels": labels}, tmp_path / "train.safetensors")
    return tmp_path / "train.safetensors"


def same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert np.allclose(array, other[name], rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(array).max()))), name


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal", "spherical"])
@pytest.mark.parametrize("rows", [37, 333, 5000])
def test_em_over_shards_is_em(world, train, covariance, rows):
    whole = estimator("density", covariance=covariance).fit(world.head, FeatureSet.open(train))
    with sharded_features(train, HERE, shard_rows=rows) as shards:
        cut = estimator("density", covariance=covariance).fit(world.head, shards)
    assert len(cut.mixture_.history) == len(whole.mixture_.history)
    assert np.allclose(cut.mixture_.history, whole.mixture_.history, rtol=0, atol=1e-9)
    assert len(whole.mixture_.history) > 1
    same({k: np.asarray(v) for k, v in whole.state().items()}, {k: np.asarray(v) for k, v in cut.state().items()})
    assert np.allclose(cut.uncertainty(world.fresh), whole.uncertainty(world.fresh), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["mahalanobis", "relative-mahalanobis"])
def test_class_moments_over_shards_are_class_moments(world, train, name):
    whole = estimator(name).fit(world.head, FeatureSet.open(train))
    with sharded_features(train, HERE, shard_rows=37) as shards:
        cut = estimator(name).fit(world.head, shards)
    assert np.allclose(cut.uncertainty(world.fresh), whole.uncertainty(world.fresh), rtol=1e-9, atol=0)


def test_the_density_of_chosen_columns_and_logs_is_cut_the_same_way(world, train):
    options = {"transform": "log", "neurons": 7, "init": "kmeans", "components": 3}
    whole = estimator("density", **options).fit(world.head, FeatureSet.open(train))
    with sharded_features(train, HERE, shard_rows=100) as shards:
        cut = estimator("density", **options).fit(world.head, shards)
    assert len(cut.mixture_.history) == len(whole.mixture_.history)
    assert np.allclose(cut.uncertainty(world.fresh), whole.uncertainty(world.fresh), rtol=1e-6, atol=0)


def test_processes_give_what_one_process_gives_to_the_last_bit(world, train):
    with sharded_features(train, HERE, shard_rows=300) as shards:
        here = Guard.fit(world.head, shards, world.calibration)
    with sharded_features(train, Engine(workers=2, progress=False), shard_rows=300) as shards:
        there = Guard.fit(world.head, shards, world.calibration)
    assert all(np.array_equal(a, b) for a, b in zip(here.estimator.state().values(), there.estimator.state().values()))
    assert here.thresholds == there.thresholds


@pytest.mark.slow
@pytest.mark.apart
def test_ray_gives_what_processes_give(world, train):
    pytest.importorskip("ray")
    with sharded_features(train, HERE, shard_rows=300) as shards:
        here = Guard.fit(world.head, shards, world.calibration, estimator="density")
    with sharded_features(train, Engine("ray", workers=2, progress=False), shard_rows=300) as shards:
        there = Guard.fit(world.head, shards, world.calibration, estimator="density")
    assert all(np.array_equal(a, b) for a, b in zip(here.estimator.state().values(), there.estimator.state().values()))
    whole = Guard.fit(world.head, FeatureSet.open(train), world.calibration, estimator="density")
    assert np.allclose(there.thresholds, whole.thresholds, rtol=1e-9, atol=0)
    assert len(there.estimator.mixture_.history) == len(whole.estimator.mixture_.history)


@pytest.mark.parametrize("span", [slice(0, 5), slice(7, 40), slice(None), slice(90, 100)])
@pytest.mark.parametrize("name", ["a.npy", "a.safetensors", "a.parquet"])
def test_a_part_of_a_file_is_those_rows(world, tmp_path, name, span):
    z = world.fresh[:100]
    path = tmp_path / name
    if name.endswith(".npy"):
        np.save(path, z)
    elif name.endswith(".safetensors"):
        save_file({"z": z, "labels": np.arange(100)}, path)
    else:
        column = pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), z.shape[1])
        pq.write_table(pa.table({"z": column}), path, row_group_size=30)
    part = FeatureSet.open(path).part(span)
    assert np.array_equal(part.array(), z[span])
    assert np.array_equal(np.concatenate(list(part.chunks(7))), z[span])
    assert np.array_equal(part.rows([0, 2]), z[span][[0, 2]])
    assert np.array_equal(np.concatenate(list(part.unchecked_chunks(3, first=2))), z[span][2:])
    if name.endswith(".safetensors"):
        assert np.array_equal(part.labels, np.arange(100)[span])


@pytest.mark.parametrize("count", range(1, 12))
def test_parts_are_merged_in_an_order_that_their_number_sets(count):
    merged = in_tree_order([str(number) for number in range(count)], lambda one, other: f"({one} {other})")
    assert merged.replace("(", "").replace(")", "").split() == [str(number) for number in range(count)]
    depth = max(merged[:place].count("(") - merged[:place].count(")") for place in range(len(merged) + 1))
    assert depth == int(np.ceil(np.log2(count)))


@pytest.mark.parametrize("name", ["knn", "nnguide"])
def test_a_bank_is_the_same_sample_of_the_rows_however_they_are_cut(world, train, name):
    whole = estimator(name, max_rows=100, seed=3).fit(world.head, FeatureSet.open(train))
    with sharded_features(train, HERE, shard_rows=37) as shards:
        cut = estimator(name, max_rows=100, seed=3).fit(world.head, shards)
    assert cut.rows_ == whole.rows_ == 100
    assert all(np.array_equal(cut.state()[name], array) for name, array in whole.state().items())
    assert np.array_equal(cut.uncertainty(world.fresh), whole.uncertainty(world.fresh))
