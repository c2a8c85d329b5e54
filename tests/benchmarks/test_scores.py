"""The benchmark of fused scores runs, and its comparison with pytorch-ood notices a wrong score. No clock is read."""

import numpy as np
import pytest

from benchmarks import scores as bench
from benchmarks.peers import detector
from softscope.estimators import scores

HEAD = bench._head(7)
Z = np.random.default_rng(0).standard_normal((5000, HEAD.n_features), dtype=np.float32)


@pytest.fixture(scope="module")
def peers():
    detectors = {module: detector(module, name) for module, name in bench._PEERS.items()}
    if any(why for _, why in detectors.values()):
        pytest.skip("pytorch-ood is not installed")
    return {module: cls for module, (cls, _) in detectors.items()}


@pytest.mark.parametrize("sharing", [True, False])
def test_pytorch_ood_gives_the_values_that_our_scores_rank(peers, sharing):
    theirs = bench._pytorch_ood(peers, HEAD, Z, sharing)()
    same, check = bench._compare(scores(HEAD, Z), theirs, HEAD.n_classes)
    assert same, check
    theirs["cool"] = theirs["entropy"]
    assert not bench._compare(scores(HEAD, Z), theirs, HEAD.n_classes)[0]


def test_each_row_says_what_it_was_measured_against():
    rows = list(bench._product_rows("five scores", HEAD, Z, repeats=1))
    assert len(rows) == 2
    assert all("product" in row.against and row.theirs and row.target == 0.85 for row in rows)


def test_without_pytorch_ood_the_row_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(bench, "detector", lambda module, name: (None, "pytorch-ood is not installed"))
    (row,) = bench._pytorch_ood_rows("five scores", HEAD, Z, repeats=1)
    assert row.theirs is None
    assert "not installed" in row.note
