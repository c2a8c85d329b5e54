"""Starts put every row at its nearest centre, and repeat with the seed."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from softscope import FeatureSet, SoftscopeError
from softscope.mixture.starts import start


def blobs(rows=300, components=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % components
    return FeatureSet(rng.normal(size=(rows, 4)) * 0.1 + labels[:, None] * 5.0), labels


def test_kmeans_finds_separated_groups():
    features, labels = blobs()
    assert adjusted_rand_score(labels, start(features, 3, "kmeans", 0)) == 1.0


@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_the_same_seed_gives_the_same_start(how):
    features, _ = blobs()
    np.testing.assert_array_equal(start(features, 5, how, 7), start(features, 5, how, 7))


def test_random_puts_each_row_at_the_nearest_of_its_rows():
    features, labels = blobs()
    groups = start(features, 2, "random", 0)
    assert set(groups) == {0, 1}
    # Rows of one tight group go together.
    assert all(len(set(groups[labels == k])) == 1 for k in range(3) if len(set(groups[labels == k])) == 1)
    assert sum(len(set(groups[labels == k])) == 1 for k in range(3)) >= 1


def test_one_component_takes_every_row():
    features, _ = blobs()
    assert (start(features, 1, "kmeans", 0) == 0).all()


def test_fewer_distinct_rows_than_components_is_no_crash():
    assert start(FeatureSet(np.ones((10, 2))), 3, "kmeans", 0).max() < 3


@pytest.mark.parametrize("components", [0, 301])
def test_an_impossible_number_is_explained(components):
    with pytest.raises(SoftscopeError, match=f"{components} components for 300 rows"):
        start(blobs()[0], components, "kmeans", 0)
