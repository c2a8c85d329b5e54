"""X14: a small transformer is trained, judged against every OOD set, and named like any other network."""

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.paper.experiments import find
from softscope.paper.experiments.networks import trained
from softscope.paper.experiments.x14_transformer import SCALES, plan, run
from softscope.runs import Store


def test_the_transformer_is_found_by_name():
    assert [entry.id for entry in find("transformer")] == ["X14"]


def test_a_run_reports_accuracy_and_every_score_against_every_set(tmp_path):
    store = Store(tmp_path)
    result = run(SCALES["smoke"], store, Engine(workers=1))
    labels = [row.label for row in result.rows]
    assert labels[0] == "test accuracy"
    assert "AUROC of density, digits-3-4-5" in labels
    assert {row.verdict for row in result.rows} == {""}  # the paper has no such network
    network = trained(store, plan(SCALES["smoke"]))
    assert result.rows[0].ours.value == pytest.approx(network.numbers["accuracy"])
    z = network.test.array()
    assert (z < 0).any(), "no ReLU before the last layer"
    with_net = network.net().eval()
    images = network.plan.data.load("test").images[:4]
    from softscope.images import fit_images
    from softscope.torch_door import torch

    with torch.inference_mode():
        own = with_net(torch.from_numpy(fit_images(images, with_net.input_shape))).numpy()
    np.testing.assert_allclose(network.head.logits(z[:4]), own, atol=1e-4)
