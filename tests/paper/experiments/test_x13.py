"""X13: the leaderboard of scores."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softscope.engine import Engine
from softscope.estimators import ESTIMATORS, estimator
from softscope.files import write_json
from softscope.metrics import auroc, fpr_at_recall
from softscope.paper.experiments import x13_board as board
from softscope.paper.experiments import x13_leaderboard
from softscope.paper.experiments.networks import trained
from softscope.paper.experiments.x13_advice import COMMAND, advice_page
from softscope.paper.experiments.x13_leaderboard import CHOICES, MIXTURES, kept_classes, linear_head, run
from softscope.paper.experiments.x13_plans import SCALES, SEEN_CLASSES
from softscope.runs import Store

SMOKE = SCALES["smoke"]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def result(store):
    *earlier, last = run(SMOKE, store, Engine(workers=1, progress=False))
    assert [one.left.split(":")[0] for one in earlier] == ["2 networks", "1 network"]
    assert last.left is None
    return last


def test_every_score_has_every_pair_and_the_best_mean_comes_first(result):
    lines = result.tables["scores"]
    assert {line["score"] for line in lines} == {*ESTIMATORS, *MIXTURES}
    assert {line["pairs"] for line in lines} == {7}
    means = [float(line["mean AUROC, %"]) for line in lines]
    assert means == sorted(means, reverse=True)


def test_a_cell_is_the_auroc_and_fpr_of_that_score_on_that_pair(store, result):
    network = trained(store, SMOKE.networks[0])
    fitted = estimator("mahalanobis").fit(network.head, network.train)
    name, z = next(iter(network.ood.items()))
    low, high = fitted.uncertainty(network.test), fitted.uncertainty(z)
    area, passed = auroc(low, high), fpr_at_recall(low, high)
    (case,) = [one for one in result.tables["cases"] if name in one[board.NUMBERS] and one["trained on"] != name][:1]
    expected = [100 * x for x in (area.value, area.low, area.high, passed.value)]
    np.testing.assert_allclose(case[board.NUMBERS][name]["mahalanobis"], expected, atol=0.005)


def test_unseen_classes_are_a_third_that_the_head_never_saw(result):
    (near,) = [case for case in result.tables["cases"] if any(board.NEAR in name for name in case["rows"])]
    assert near["classes"] == 3, "of four classes one is left out"
    assert sorted(kept_classes(21, 0)) == kept_classes(21, 0).tolist()
    assert len(kept_classes(21, 0)) == 14
    assert kept_classes(21, 0).tolist() != kept_classes(21, 1).tolist()


def test_it_runs_again_from_the_store_without_a_fit(store, result, monkeypatch):
    monkeypatch.setattr(x13_leaderboard, "measured", None)
    monkeypatch.setattr(x13_leaderboard, "source", lambda *parts: _sources(parts))
    *_, again = run(SMOKE, store, Engine(workers=1, progress=False))
    assert again.tables == result.tables


def test_another_machine_goes_on_from_what_the_result_kept(store, result, tmp_path, monkeypatch):
    for name, record in result.kept.items():
        write_json(tmp_path / "X13" / name, record)
    monkeypatch.setattr(x13_leaderboard, "trained", None)
    monkeypatch.setattr(x13_leaderboard, "transferred", None)
    empty = Store(tmp_path / "store", results=tmp_path)
    *_, again = run(SMOKE, empty, Engine(workers=1, progress=False))
    assert again.tables == result.tables
    assert again.rows == result.rows
    assert again.subsets == result.subsets
    assert again.kept == {}, "a record is written by the machine that has the network"


def test_a_record_that_lacks_a_score_of_today_is_not_read(store, result, tmp_path, monkeypatch):
    for name, record in result.kept.items():
        numbers = record["numbers"] | {"scores": record["numbers"]["scores"][1:]}
        write_json(tmp_path / "X13" / name, record | {"numbers": numbers})
    calls = []
    monkeypatch.setattr(x13_leaderboard, "trained", lambda _, plan: calls.append(plan) or trained(store, plan))
    list(run(replace(SMOKE, heads=()), Store(tmp_path / "store", results=tmp_path), Engine(workers=1, progress=False)))
    assert calls == list(SMOKE.networks)


def test_what_the_store_has_comes_first(store, result, tmp_path):
    half = Store(tmp_path)
    trained(half, SMOKE.networks[1])
    first = next(run(SMOKE, half, Engine(workers=1, progress=False)))
    assert {case["trained on"] for case in first.tables["cases"]} == {SMOKE.networks[1].data.name}
    assert "parts" not in first.tables, "one training set leaves nothing to choose on"


def _sources(parts):
    from softscope.paper.experiments.judge import source

    return source(*(ORIGINAL if part is None else part for part in parts))


ORIGINAL = x13_leaderboard.measured


def test_parts_chosen_without_a_training_set_are_judged_on_its_pairs():
    """Two training sets with one pair each: what is best on one is worst on the other."""
    choices = [", ".join(names) for names in CHOICES]
    areas = np.full((2, len(choices)), 50.0)
    areas[0, 0], areas[1, 0] = 90, 60
    areas[0, 1], areas[1, 1] = 55, 95
    parts = [{"trained on": name, "choices": choices, "AUROC": {"other": list(own)}} for name, own in zip("ab", areas)]
    first, second, in_turn, on_all = board.chosen_parts(parts, {"consensus": {"a / other": 70.0, "b / other": 80.0}})
    assert (first["left out"], first["chosen on the others"], first["its mean"]) == ("a", choices[1], "55.0")
    assert (second["left out"], second["chosen on the others"], second["its mean"]) == ("b", choices[0], "60.0")
    assert (in_turn["its mean"], in_turn["its worst"], in_turn["consensus mean"]) == ("57.5", "55.0", "75.0")
    assert on_all["chosen on the others"] == choices[0], "75 + 60 is more than 75 + 55"


def test_the_best_single_score_elsewhere_is_chosen_without_the_set_it_is_judged_on():
    areas = {
        "max": {"a / x": 90.0, "b / x": 60.0},
        "knn": {"a / x": 50.0, "b / x": 99.0},
        "consensus": {"a / x": 80.0, "b / x": 80.0},
        "scale": {"a / x": 100.0},
    }
    lines = board.elsewhere(areas)
    assert [line["best single score elsewhere"] for line in lines] == ["knn", "max"]
    assert [line["its mean"] for line in lines] == ["50.0", "60.0"]
    assert board.best_single(areas, board.worst) == "max"


def chosen(mean, worst):
    line = {"chosen on the others": "knn, energy", "its mean": f"{mean:.1f}", "its worst": f"{worst:.1f}"}
    return [line | {"left out": "each in turn"}, line | {"left out": "none"}]


@pytest.mark.parametrize(
    ("consensus", "left_out", "parts", "default"),
    [
        ((90.0, 80.0), (85.0, 70.0), "no", "consensus"),  # above knn's mean 83.5 and max's worst pair 79
        ((90.0, 78.0), (95.0, 77.0), "no", "max"),  # new parts must win on both counts, and so must consensus
        ((80.0, 70.0), (85.0, 80.0), "yes", "consensus"),  # judged by the left-out figures
    ],
)
def test_the_default_follows_the_rule_that_was_written_before(consensus, left_out, parts, default):
    areas = {
        "knn": {"a / x": 99.0, "b / x": 68.0},
        "max": {"a / x": 87.0, "b / x": 79.0},
        "gen": {"a / x": 82.0, "b / x": 82.0},  # the best worst pair of all, but 1.5 below the best mean
        "scale": {"a / x": 100.0},
        "consensus": dict(zip(("a / x", "b / x"), (2 * consensus[0] - consensus[1], consensus[1]))),
    }
    if default == "consensus":
        del areas["gen"]
    lines = board.decision(areas, chosen(*left_out))
    assert [lines[0]["answer"].split(":")[0], lines[-1]["answer"]] == [parts, default]


def test_the_page_of_advice_is_up_to_date_with_the_leaderboard():
    page = (ROOT / "docs" / "which-score.md").read_text(encoding="utf-8")
    assert page == advice_page(ROOT / "results"), f"docs/which-score.md is out of date: run {COMMAND}"


def test_advice_reads_the_pairs_and_scores_of_each_situation(tmp_path):
    def case(name, rows, **areas):
        numbers = {
            ood: {score: [area, 0, 0, 0] for score, area in zip(("knn", "max", "consensus"), own)}
            for ood, own in areas.items()
        }
        facts = {"trained on": name, "classes": 3, "features": 10, "training rows": rows, "rectified": True}
        return facts | {board.NUMBERS: numbers}

    cases = [case("a", 5, far=(90.0, 60.0, 95.0)), case("b", 50, far=(80.0, 70.0, 85.0), unseen=(50.0, 99.0, 75.0))]
    written = {"id": "X13", "rows": [], "command": "softscope reproduce X13", "tables": {"cases": cases}}
    (tmp_path / "X13").mkdir()
    (tmp_path / "X13" / "laptop.json").write_text(json.dumps(written))
    page = advice_page(tmp_path)
    assert "| the head alone | 3 | `max` 76.3 (60.0) | needs labels |" in page
    assert "(far) | 2 | `consensus` 90.0 (85.0), `knn` 85.0 (80.0), `max` 65.0 (60.0) | 90.0 (85.0) |" in page
    assert "(near) | 1 | `max` 99.0 (99.0)" in page
    assert "| fewer training rows than features | 1 | `consensus` 95.0 (95.0)" in page
    assert "| 20 classes or more | 0 |" in page


def test_the_picture_has_a_line_of_dots_for_each_score_and_the_best_mean_on_top():
    areas = {"max": {"a / x": 60.0, "a / unseen": 80.0}, "knn": {"a / x": 90.0, "a / unseen": 92.0}}
    axes = board.picture(areas).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["max", "knn"]
    drawn = {(float(x), float(y)) for line in axes.lines for x, y in zip(line.get_xdata(), line.get_ydata())}
    assert {(60.0, 0.0), (80.0, 0.0), (70.0, 0.0), (90.0, 1.0), (92.0, 1.0), (91.0, 1.0)} <= drawn


def test_scale_overnight_reads_the_networks_of_x9_and_x14():
    from softscope.paper.experiments import x09_plans, x14_transformer

    plans = SCALES["overnight"].networks
    trained = [plan for own in x09_plans.SCALES["overnight"].single_runs() for plan in x09_plans.plans(own)]
    assert [plan.data.name for plan in plans[:5]] == list(x09_plans.NAMES)
    assert all(plan in trained for plan in plans[:5])
    assert plans[5] == x14_transformer.plan(x14_transformer.SCALES["laptop"])
    learned, (unseen,) = plans[6].data, plans[6].ood
    assert learned.dataset == unseen.dataset == "cifar100"
    assert not set(learned.classes) & set(unseen.classes)


def test_the_linear_head_of_two_classes_has_two_rows():
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal(-2, 1, (50, 3)), rng.normal(2, 1, (50, 3))])
    head = linear_head(z, np.repeat([0, 1], 50))
    assert head.weight.shape == (2, 3)
    assert (head.logits(z.astype(np.float32)).argmax(axis=1) == np.repeat([0, 1], 50)).mean() > 0.95


def test_cifar100_of_scale_laptop_faces_its_unseen_classes():
    (plan,) = [plan for plan in SCALES["laptop"].networks if plan.data.dataset == "cifar100"]
    (near,) = [ood for ood in plan.ood if ood.dataset == "cifar100"]
    assert plan.data.classes == tuple(range(SEEN_CLASSES))
    assert not set(near.classes) & set(plan.data.classes)
    assert len(plan.ood) == 5
