"""X1b at its smallest scale, and which triples it draws."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.networks import Images
from softscope.paper.experiments.x01_mnist import SCALES, other_triples, run
from softscope.runs import Store


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(SCALES["smoke"], Store(tmp_path_factory.mktemp("store")), Engine(workers=1, progress=False))


def test_the_network_learns_and_finds_what_it_never_saw(result: Result) -> None:
    rows = {row.label: row for row in result.rows}
    assert rows["accuracy on test data"].ours.value > 90
    assert rows["AUROC of U_entropy"].ours.value > 75
    assert rows["share of OOD more confident than the median of training"].verdict == "undecided", "a single run"
    assert rows["its worst triple"].ours.value <= rows["AUROC of U_entropy over 2 triples of classes"].ours.value


def test_every_figure_has_a_caption_and_every_network_a_row(result: Result) -> None:
    assert list(result.figures) == list(result.captions) == ["plane", "triples", "histograms"]
    assert result.tables["networks"][0]["classes"] == (0, 1, 2)
    assert len(result.tables["networks"]) == len(result.tables["T23"]) == 2


def test_the_same_settings_give_the_same_numbers(result: Result, tmp_path: Path) -> None:
    settings = replace(SCALES["smoke"], others=1)
    assert run(settings, Store(tmp_path), Engine(workers=1, progress=False)).rows == result.rows


def test_other_triples_are_new_and_share_nothing_with_the_ood_set() -> None:
    settings = replace(SCALES["smoke"], others=20)
    drawn = other_triples(settings)
    assert len(set(drawn)) == 20
    assert (0, 1, 2) not in drawn
    assert not {5, 7, 9} & {k for triple in drawn for k in triple}
    elsewhere = replace(settings, ood=Images("fashion_mnist"), others=119)
    assert len(set(other_triples(elsewhere))) == 119
