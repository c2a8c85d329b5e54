"""X11: the table of the literature is complete, cited, and set beside our networks where the pairs are the same."""

from types import SimpleNamespace
from typing import Any

import pytest

from softscope.engine import Engine
from softscope.paper.experiments import find
from softscope.paper.experiments.literature import beside, literature, shared_pairs
from softscope.paper.experiments.verdict import Reported
from softscope.runs import Store

FIVE = ("mnist", "fashion_mnist", "svhn", "cifar10", "cifar100")


def network(learned: str, auroc: float) -> Any:
    others = dict.fromkeys(name for name in FIVE if name != learned)
    return SimpleNamespace(diagnosis=SimpleNamespace(ood=others), auroc=lambda score, ood: auroc)


def test_every_line_of_the_papers_table_is_there_with_its_study() -> None:
    lines = literature()
    assert len(lines) == 15
    assert len({line.citation.arxiv for line in lines}) == 7
    assert sum(len(line.scores) for line in lines) == 5 + 3 + 2 + 3 + 3 + 3 + 4 + 4 + 3 + 2 + 2
    assert all("Softmax" in line.scores for line in lines)
    assert all(50 < value <= 100 for line in lines for value in line.scores.values())
    assert [line.citation.short for line in lines if line.metric != "AUROC"] == ["Shafaei et al. 2018"]
    for line in lines:
        assert str(line.citation.year) in line.citation.full
        assert line.citation.title in line.citation.full
        assert line.citation.short.endswith(str(line.citation.year))


def test_the_pairs_that_the_literature_shares_with_x9() -> None:
    shared = shared_pairs(FIVE)
    assert {pair: len(lines) for pair, lines in shared.items()} == {
        ("cifar10", "svhn"): 4,
        ("fashion_mnist", "mnist"): 1,
        ("cifar10", "cifar100"): 1,
    }
    assert [line.scores["Softmax"] for line in shared["cifar10", "svhn"]] == [89.9, 90.6, 93.0, 91.8]


def test_ours_stand_beside_the_lines_of_the_same_pair_alone() -> None:
    table = beside({"cifar10": [network("cifar10", 88.0), network("cifar10", 90.0)]})
    told = {(line["learned"], line["OOD"]): line["ours"] for line in table}
    assert len(table) == 15
    assert told["cifar10", "svhn"].startswith("U_max 89.0 ± 1.0, U_entropy")
    assert told["cifar10", "various"] == told["fashion_mnist", "mnist"] == ""


def test_a_range_of_studies_holds_within_it_and_a_single_study_is_a_number() -> None:
    pytest.importorskip("torch")
    from softscope.paper.experiments.x11_literature import _rows

    by_set = {"cifar10": [network("cifar10", 92.0), network("cifar10", 92.01)]}
    pair = "cifar10", "svhn", shared_pairs(FIVE)["cifar10", "svhn"]
    rows = _rows(by_set, *pair)
    assert [row.label.split(": ")[1].split(" (")[0] for row in rows] == ["U_max", "Mahalanobis", "U_density"]
    assert rows[0].verdict == "holds"
    assert _rows({"cifar10": [network("cifar10", 92.0)]}, *pair)[0].verdict == "undecided"
    assert rows[1].paper == Reported(93.9)
    outside = _rows({"cifar10": [network("cifar10", 80.0), network("cifar10", 80.01)]}, *pair)
    assert outside[0].verdict == "does not hold"


def test_at_the_smallest_scale_the_table_stands_alone(tmp_path: Any) -> None:
    pytest.importorskip("torch")
    from softscope.paper.experiments.x11_literature import SCALES, run

    result = run(SCALES["smoke"], Store(tmp_path), Engine(workers=1, progress=False))
    assert [entry.id for entry in find("table_reported_results")] == ["X11"]
    assert len(result.tables["literature"]) == 15
    assert [row.verdict for row in result.rows] == ["holds", "agrees"]
    assert not list(tmp_path.iterdir()), "no network was trained"
