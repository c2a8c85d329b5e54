"""X4: the frozen layers are what they should be, the stack arrives, and the experiment runs at its smallest scale."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.geometry import confidence_caps, lopsided
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.networks import Images, trained
from softscope.paper.experiments.x04_structures import (
    OUT,
    PAPER,
    PLACES,
    REACHED,
    SCALES,
    SHAPES,
    GlorotPlan,
    StructurePlan,
    run,
)
from softscope.runs import Store

SMOKE = SCALES["smoke"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def result(store: Store) -> Result:
    first, last = run(SMOKE, store, Engine(workers=1, progress=False))
    assert (first.left, last.left) == ("4 networks", None)
    assert len(first.rows) < len(last.rows)
    return last


@pytest.mark.parametrize("structure", SHAPES)
def test_training_leaves_the_last_layer_in_its_structure(store: Store, result: Result, structure: str) -> None:
    plan = SMOKE.plan(structure, place=PLACES.get(structure, "plane"))
    assert isinstance(plan, StructurePlan)
    head, shape = trained(store, plan).head, SHAPES[structure]
    order = slice(None, None, -1 if structure in PLACES else 1)
    np.testing.assert_allclose(head.weight @ head.weight.T, (shape.weight @ shape.weight.T)[order, order], atol=1e-5)
    np.testing.assert_allclose(head.bias, shape.bias[order], atol=1e-5)


def test_a_random_plane_is_that_of_the_structures_own_embedding() -> None:
    plan = SMOKE.plan("lopsided", 2.0)
    assert isinstance(plan, StructurePlan)
    np.testing.assert_allclose(plan.head().weight, lopsided(3, 16, norm=2.0, seed=0).weight, atol=1e-12)


def test_the_stack_moves_there_from_the_optimal_structure() -> None:
    plan = SMOKE.plan("stack", 2.0)
    assert isinstance(plan, StructurePlan)
    net, move = plan.build(3), plan.after_step()
    assert move is not None
    start, end = plan.head("optimal"), plan.head()
    np.testing.assert_allclose(net.classifier.weight.detach(), start.weight, atol=1e-6)
    import torch

    with torch.no_grad():
        move(net, 25, 100)
        np.testing.assert_allclose(net.classifier.weight, (start.weight + end.weight) / 2, atol=1e-6)
        np.testing.assert_allclose(net.classifier.bias, end.bias / 2, atol=1e-6)
        move(net, 50, 100)
        np.testing.assert_allclose(net.classifier.weight, end.weight, atol=1e-6)
    assert not net.classifier.weight.requires_grad


@pytest.mark.parametrize("structure", ["sandwich", "optimal"])
def test_spread_over_halves_the_first_class_is_out_of_reach_in_a_plane_none_is(structure: str) -> None:
    for place, bounded in (("halves", [True, False, False]), ("plane", [False] * 3)):
        plan = SMOKE.plan(structure, place=place)
        assert isinstance(plan, StructurePlan)
        assert (confidence_caps(plan.head()) < 0.9).tolist() == bounded
        np.testing.assert_allclose(plan.head().weight_norms, 1.0)


def test_each_run_turns_its_structure_another_way() -> None:
    first, second = (SMOKE.plan("optimal"), replace(SMOKE, seed=1).plan("optimal"))
    assert isinstance(first, StructurePlan)
    assert isinstance(second, StructurePlan)
    assert not np.allclose(first.head().weight, second.head().weight)


def test_every_layer_starts_as_keras_draws_it_by_the_seed() -> None:
    first, again, other = (replace(SMOKE, seed=seed).plan("trainable").build(3) for seed in (0, 0, 1))
    for layer in (first.body[0], first.classifier):
        fans = layer.weight[0].numel() + layer.weight.numel() // layer.weight.shape[1]
        limit = float(np.sqrt(6 / fans))
        assert 0.8 * limit < float(layer.weight.detach().abs().max()) <= limit
        assert not layer.bias.any()
    assert (first.classifier.weight == again.classifier.weight).all()
    assert not (first.classifier.weight == other.classifier.weight).all()


def test_scale_paper_is_the_protocol_that_matches_the_papers_numbers() -> None:
    paper = SCALES["paper"]
    assert (paper.runs, paper.norm, paper.batch, paper.epochs, paper.features) == (5, 1.0, 32, 2, 16)
    assert paper.data == Images("mnist", (0, 1, 2))
    assert PLACES == {"sandwich": "halves"}
    assert type(paper.plan("trainable")) is GlorotPlan


def test_an_unknown_structure_is_one_clear_line() -> None:
    plan = SMOKE.plan("heap")
    with pytest.raises(SoftscopeError, match="no structure is called 'heap'"):
        plan.build(3)


def test_the_table_has_the_papers_numbers_and_the_pictures_their_captions(result: Result) -> None:
    rows = {row.label: row for row in result.rows}
    for name, line in PAPER.items():
        assert rows[f"{name}: accuracy"].paper == line["accuracy"]
        assert rows[f"{name}: cross-entropy"].paper == line["cross_entropy"]
        assert rows[f"{name}: AUROC of U_entropy"].paper == line["auroc"]
        assert rows[f"{name}: AUROC of U_density (past the paper)"].paper is None
    assert rows["trainable: accuracy"].ours.value > 90
    assert rows["optimal: accuracy"].ours.value > 90
    assert list(result.figures) == list(result.captions)
    assert len(result.tables["T23"]) == len(PAPER)


def test_statements_compare_the_right_networks(result: Result) -> None:
    areas = {(row["part"], row["structure"]): row["auroc"]["entropy"] for row in result.tables["networks"]}
    best, sandwich = areas["main", "optimal"], areas["main", "sandwich"]
    known = {
        f"{OUT}, less optimal": areas["swapped", OUT] - best,
        f"sandwich, one class out of reach, less {REACHED}": sandwich - areas["swapped", REACHED],
        f"{REACHED}, less optimal": areas["swapped", REACHED] - best,
        "lopsided, all classes in reach, less optimal": areas["main", "lopsided"] - best,
        "stack, norm 10, its cap near 1, less norm 1": areas["norm", "stack, norm 10"] - areas["main", "stack"],
    }
    rows = {row.label.removeprefix("AUROC of U_entropy: "): row for row in result.rows}
    assert {label: rows[label].ours.value for label in known} == pytest.approx(known)
    gap = min(best, areas["main", "trainable"]) - max(areas["main", name] for name in SHAPES if name != "optimal")
    (row,) = [row for row in result.rows if row.label.startswith("AUROC of the worse")]
    assert row.ours.value == pytest.approx(gap)
    assert {row.verdict for row in result.rows} <= {"undecided", ""}


def test_no_network_beats_the_bounds_of_its_head(result: Result) -> None:
    for row in result.tables["networks"]:
        assert row["cross_entropy"] >= row["loss_floor"] - 1e-6
        assert row["auroc"]["max"] <= row["auroc_cap"] + 1e-6
        assert (row["loss_floor"] > 0.3) == (row["structure"] in ("sandwich", OUT))


def test_a_reading_is_set_beside_the_papers_lopsided_line(store: Store) -> None:
    name = "0, 5, 10 degrees"
    settings = replace(SMOKE, readings=(name,), compared=1)
    *_, last = run(settings, store, Engine(workers=1, progress=False))
    table = last.tables["readings"]
    assert [line["reading"] for line in table][1:] == [name]
    assert table[1]["place"] == "plane"
    assert table[1]["matches"] == "no"
    assert set(table[1]) == {"reading", "place", "accuracy", "cross-entropy", "AUROC of U_entropy", "matches"}
