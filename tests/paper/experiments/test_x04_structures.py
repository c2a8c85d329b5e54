"""X4: the frozen layers are what they should be, the stack arrives, and the experiment runs at its smallest scale."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.networks import NetworkPlan, trained
from softscope.paper.experiments.x01_mnist import SCALES as PLANE_SCALES
from softscope.paper.experiments.x04_structures import MAKERS, PAPER, SCALES, StructurePlan, run
from softscope.runs import Store

SMOKE = SCALES["smoke"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def result(store: Store) -> Result:
    return run(SMOKE, store, Engine(workers=1, progress=False))


@pytest.mark.parametrize("structure", MAKERS)
def test_training_leaves_the_last_layer_in_its_structure(store: Store, result: Result, structure: str) -> None:
    plan = SMOKE.plan(structure, SMOKE.norm)
    assert isinstance(plan, StructurePlan)
    head, expected = trained(store, plan).head, MAKERS[structure](3, 16, norm=SMOKE.norm, seed=0)
    np.testing.assert_allclose(head.weight, expected.weight, atol=1e-5)
    if expected.bias.any():
        np.testing.assert_allclose(head.bias, expected.bias, atol=1e-5)


def test_the_stack_moves_there_from_the_optimal_structure() -> None:
    plan = SMOKE.plan("stack", 2.0)
    net, move = plan.build(3), plan.after_step()
    assert move is not None
    start, end = (MAKERS[name](3, 16, norm=2.0, seed=0).weight for name in ("optimal", "stack"))
    np.testing.assert_allclose(net.classifier.weight.detach(), start, atol=1e-6)
    import torch

    with torch.no_grad():
        move(net, 25, 100)
        np.testing.assert_allclose(net.classifier.weight, (start + end) / 2, atol=1e-6)
        move(net, 50, 100)
        np.testing.assert_allclose(net.classifier.weight, end, atol=1e-6)
    assert not net.classifier.weight.requires_grad


def test_features_that_are_not_negative_never_favour_the_first_class_of_an_aligned_sandwich() -> None:
    plan = SMOKE.plan("sandwich", 1.0, aligned=True)
    assert isinstance(plan, StructurePlan)
    z = np.random.default_rng(0).exponential(size=(1000, 16))
    aligned, rotated = plan.head(3).logits(z), replace(plan, aligned=False).head(3).logits(z)
    assert not (aligned.argmax(axis=1) == 0).any()
    assert len(np.unique(rotated.argmax(axis=1))) == 3


def test_each_run_turns_its_structure_another_way() -> None:
    first, second = (SMOKE.plan("optimal", 1.0), replace(SMOKE, seed=1).plan("optimal", 1.0))
    assert isinstance(first, StructurePlan)
    assert isinstance(second, StructurePlan)
    assert not np.allclose(first.head(3).weight, second.head(3).weight)


def test_the_trainable_network_is_that_of_the_plane() -> None:
    for scale in ("laptop", "paper"):
        one = SCALES[scale].plan("trainable", 1.0)
        assert type(one) is NetworkPlan
        assert one == PLANE_SCALES[scale].plan((0, 1, 2), 0)


def test_an_unknown_structure_is_one_clear_line() -> None:
    plan = SMOKE.plan("heap", 1.0)
    with pytest.raises(SoftscopeError, match="no structure is called 'heap'"):
        plan.build(3)


def test_the_table_has_the_papers_numbers_and_the_pictures_their_captions(result: Result) -> None:
    found = {row.label: row for row in result.rows}
    for name, line in PAPER.items():
        assert found[f"{name}: accuracy"].paper == line["accuracy"]
        assert found[f"{name}: cross-entropy"].paper == line["cross_entropy"]
        assert found[f"{name}: AUROC of U_entropy"].paper == line["auroc"]
        assert found[f"{name}: AUROC of U_density (past the paper)"].paper is None
    assert found["trainable: accuracy"].ours.value > 90
    assert found["optimal: accuracy"].ours.value > 90
    assert list(result.figures) == list(result.captions)
    assert [row["structure"] for row in result.tables["networks"]] == list(PAPER)
    assert len(result.tables["T23"]) == len(PAPER)
