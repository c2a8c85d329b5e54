"""X9: every cell of the paper's table, from networks whose AUROCs scikit-learn confirms."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.canonical import fingerprint, plain
from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.estimators import Entropy
from softscope.head import Head
from softscope.metrics import balanced
from softscope.paper.claims.trained import check_ensemble, check_entropy_preferred, check_mental, check_saturation
from softscope.paper.experiments import find, load, reproduce
from softscope.paper.experiments.base import Result
from softscope.paper.experiments.judge import judged
from softscope.paper.experiments.judgement import record_name
from softscope.paper.experiments.table import CAUSES, Lines, paper_lines
from softscope.paper.experiments.x09_course import recipes
from softscope.paper.experiments.x09_five_sets import _tables, densities, measured, rows, run
from softscope.paper.experiments.x09_plans import NAMES, SCALES, FiveSettings, Recipe, half_as_long, plans, strong_decay
from softscope.runs import Store

TINY = replace(
    SCALES["smoke"], recipes=dict.fromkeys(("digits-0-1-2", "digits-3-4-5", "digits-6-7-8-9"), Recipe(2)), runs=2
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def by_set(store: Store) -> Lines:
    return measured(TINY, store, Engine(workers=1, progress=False))


@pytest.fixture(scope="module")
def result(store: Store, by_set: Lines) -> Result:
    whole = run(TINY, store, Engine(workers=1, progress=False))
    assert isinstance(whole, Result)
    return whole


@pytest.mark.parametrize("name", ["X9", "table_AUROC_bench", "fig_grid_auroc", "fig_cifar_etc"])
def test_the_papers_labels_lead_to_x9(name: str) -> None:
    assert "X9" in [entry.id for entry in find(name)]


def test_the_plans_of_the_networks_that_results_rest_on_have_not_changed() -> None:
    laptop = [fingerprint(plain(plan, "plan"))[:12] for plan in plans(SCALES["laptop"])]
    assert laptop == ["1aad0c7805ea", "c34c59019f46", "cb2a8275385d", "b2bcd06fda63", "b8cc30e099d7"]
    paper = plans(SCALES["paper"])
    assert [plan.data.name for plan in paper] == list(NAMES)
    assert {plan.training.epochs for plan in paper} == {100}
    assert all(plan.data.train is None and plan.data.test is None and len(plan.ood) == 4 for plan in paper)


def test_the_names_of_the_overnight_networks_stay_and_do_not_depend_on_the_number_of_runs(tmp_path: Path) -> None:
    store, overnight = Store(tmp_path), SCALES["overnight"]
    names = {
        runs: [store.run(plan).path.name for own in replace(overnight, runs=runs).single_runs() for plan in plans(own)]
        for runs in (1, 3)
    }
    assert names[3][:5] == names[1]
    assert len(set(names[3])) == 15
    assert names[1][0] == "NetworkPlan-8c884641645cb43c5c4adac120634ba0"
    assert [plan.training.augment for plan in plans(overnight)] == ["crop", "crop+flip", "crop", *2 * ["crop+flip"]]


def test_every_network_meets_all_data_sets_but_its_own() -> None:
    one, *_ = plans(FiveSettings(recipes={"digits-0-1": Recipe(1), "digits-2-3": Recipe(1), "mnist": Recipe(1, 50)}))
    assert one.data.classes == (0, 1)
    assert [ood.name for ood in one.ood] == ["digits-2-3", "mnist"]
    assert all(ood.train is None for ood in one.ood)


def test_a_balanced_auroc_agrees_with_scikit_learn(by_set: Lines) -> None:
    from sklearn.metrics import roc_auc_score

    own = by_set["digits-6-7-8-9"][1]
    for ood, features in own.network.ood.items():
        low, high = balanced(len(own.network.test), len(features), own.seed)
        assert len(low) == len(high) == min(len(own.network.test), len(features))
        asked = densities(own.network)
        for name, estimator in {**asked, "entropy": Entropy()}.items():
            estimator.fit(own.network.head, own.network.train)
            sides = estimator.uncertainty(own.network.test)[low], estimator.uncertainty(features)[high]
            expected = roc_auc_score(np.repeat([0, 1], len(low)), np.concatenate(sides))
            assert own.auroc(name, ood) == pytest.approx(100 * expected), name


def test_the_table_holds_the_mean_of_the_pairs_and_causes_that_add_up(by_set: Lines, result: Result) -> None:
    cells = {row.label: row.ours for row in result.rows}
    for name, runs in by_set.items():
        means = [np.mean([own.auroc("density", ood) for ood in own.network.ood]) for own in runs]
        assert cells[f"{name}: U_density"].value == pytest.approx(np.mean(means))
        assert cells[f"{name}: U_density"].standard_error == pytest.approx(np.std(means, ddof=1) / 2**0.5)
        for own in runs:
            parts = ("rounding", "temperature", "extrapolation_proper", "ambiguity", "misfit", "overlap_proper")
            left = 100 - own.auroc("plain-entropy")
            assert sum(own.cause(name) for name in CAUSES) == pytest.approx(left)
            assert sum(own.cause(name) for name in parts) == pytest.approx(left)
            assert set(own.numbers["densities"]) == {"density-labels", "density-log", "density-labels-log"}
    means = [cells[f"{name}: cause 3"].value for name in by_set]
    assert cells["mean: cause 3"].value == pytest.approx(np.mean(means))
    difference = cells["mean: cause 3"].value - cells["mean: cause 2"].value
    assert cells["mean: cause 3 less cause 2"].value == pytest.approx(difference)


def test_the_statements_are_decided_by_their_intervals(by_set: Lines) -> None:
    decided = {row.label: row for row in rows(by_set)}
    for label in ("mean: cause 3 less cause 2", "mean: U_density less U_entropy"):
        low, high = decided[label].ours.interval() or (0.0, 0.0)
        assert decided[label].verdict == ("holds" if low >= 0 else "does not hold" if high < 0 else "undecided")
    single = rows({name: runs[:1] for name, runs in by_set.items()})
    assert {row.verdict for row in single if row.paper} == {"undecided"}
    beaten = [sum(own.auroc("density") > own.auroc("plain-entropy") for own in run) for run in zip(*by_set.values())]
    assert decided["data sets where U_density exceeds U_entropy"].ours.value == np.mean(beaten)


def test_the_papers_line_stands_under_ours_where_it_has_one(by_set: Lines) -> None:
    named = {"cifar10": by_set["digits-0-1-2"], "svhn": by_set["digits-3-4-5"]}
    lines = _tables(named)["benchmark"]
    assert [line["data set"].split()[0] for line in lines] == ["cifar10", "paper", "svhn", "paper", "mean"]
    assert lines[1]["U_density"] == "89.3 ± 0.4"
    assert lines[1]["cause 3"] == "10.7"
    assert lines[0]["data set"] == "cifar10 (2 epochs, 387 images, 2 runs)"
    judged = {row.label: row for row in rows(named)}
    assert judged["cifar10: U_density"].paper == paper_lines("X9")["cifar10"]["density"]
    assert judged["mean: U_density"].paper is None, "the paper's mean is over five data sets"


def test_all_pairs_reference_scores_and_claims_are_kept(result: Result) -> None:
    pairs = result.tables["pairs"]
    assert len(pairs) == 3 * 2 * 2
    wanted = {"max", "entropy", "cool", "density", "mental", "norm", "familiarity", "mahalanobis", "vim", "gen"}
    assert wanted <= pairs[0]["auroc"].keys()
    assert set(result.shown) <= set(result.tables)
    assert check_mental(rows=result.tables["T19"]).numbers["networks"] == 6
    assert check_entropy_preferred(rows=result.tables["T23"]).numbers["rows"] == 12
    assert check_ensemble(rows=result.tables["T26"]).numbers["rows"] == 6
    assert len(result.tables["T24"]) == 12
    named = [row | {"network": name} for row in result.tables["T24"] for name in ("ResNet18", "EfficientNet")]
    assert check_saturation(rows=named).numbers["rows"] == 24


def test_one_run_alone_gives_no_ensemble_and_no_spread(by_set: Lines) -> None:
    single = {name: runs[:1] for name, runs in by_set.items()}
    assert "T26" not in _tables(single)
    assert all(row.ours.standard_error is None for row in rows(single))


def test_pictures_and_captions_say_how_long_the_networks_trained(result: Result) -> None:
    assert list(result.figures) == list(result.captions) == ["grids", "causes", "histograms"]
    assert all("2 epochs, 387 images" in caption for caption in result.captions.values())
    grids = [axes for axes in result.figures["grids"].axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in grids] == ["U_max", "U_entropy", "U_density", "max cos", "norm(z)"]
    assert all(len(axes.texts) == 6 for axes in grids)
    assert len(result.figures["histograms"].axes) == 9


def test_each_line_names_a_command_whose_files_exist(result: Result) -> None:
    commands = [line["report"].strip("`") for line in result.tables["commands"]]
    assert len(commands) == 6
    for command in commands:
        files = [word.split("=")[-1] for word in shlex.split(command) if word.endswith(".safetensors")]
        assert len(files) == 5
        assert all(Path(file).exists() for file in files)


def test_what_is_trained_is_judged_at_once_and_the_rest_is_named(store: Store, by_set: Lines, tmp_path: Path) -> None:
    one = replace(TINY, runs=3, piecewise=True)
    engine = Engine(workers=1, progress=False)
    assert {name: len(runs) for name, runs in measured(one, store, engine).items()} == dict.fromkeys(by_set, 2)
    first = next(iter(run(one, store, engine)))
    assert len(first.tables["pairs"]) == 12, "what needs no training makes one result"
    assert first.left is not None
    assert first.left.startswith("3 networks, about ")
    assert any("Not trained yet" in note and "digits-0-1-2, 2 epochs, seed 2000" in note for note in first.notes)
    last = list(run(replace(one, runs=2), store, engine))[-1]
    assert not isinstance(last, tuple)
    assert last.left is None
    assert [row.ours.value for row in last.rows] == [row.ours.value for row in rows(by_set)]


def test_results_keep_what_another_machine_needs_to_go_on(store: Store, by_set: Lines, tmp_path: Path) -> None:
    settings, engine = replace(TINY, piecewise=True), Engine(workers=1, progress=False)
    x9 = replace(load(find("X9")[0]), scales={"smoke": settings})
    written = reproduce(x9, "smoke", store=store, engine=engine, folder=tmp_path)
    records = list(tmp_path.glob("X9/networks/*.json"))
    assert len(records) == 6
    for own in (own for runs in by_set.values() for own in runs):
        beside = tmp_path / "X9" / record_name(own.plan).replace(".json", ".safetensors")
        np.testing.assert_array_equal(Head.load(beside).weight, own.network.head.weight)
    assert not any(str(store.root) in record.read_text() for record in records), "paths of this machine stay here"
    elsewhere = Store(tmp_path / "empty", results=tmp_path)
    lines = measured(settings, elsewhere, engine)
    assert not any(own.in_store for runs in lines.values() for own in runs)
    assert [row.to_dict() for row in rows(lines)] == [row.to_dict() for row in rows(by_set)]
    again = reproduce(x9, "smoke", store=elsewhere, engine=engine, folder=tmp_path)
    assert not list(elsewhere.root.glob("*/train-*")), "nothing is trained again"
    assert again["tables"]["pairs"] == written["tables"]["pairs"]
    assert again["tables"]["benchmark"] == written["tables"]["benchmark"]
    assert again["tables"]["commands"] == [], "reports need features, which stayed behind"


def test_recipes_stand_side_by_side_where_a_data_set_was_learned_by_several(store: Store, by_set: Lines) -> None:
    settings = replace(TINY, runs=1, piecewise=True, halved=("digits-6-7-8-9",))
    strong, *_ = plans(strong_decay(settings))
    (half,) = half_as_long(settings)
    others = [judged(store, plan, densities=densities) for plan in (strong, half)]
    ours, other, longer, shorter = recipes(by_set, others)
    assert [line["data set"] for line in (ours, other)] == ["digits-0-1-2"] * 2
    assert [line["data set"] for line in (longer, shorter)] == ["digits-6-7-8-9"] * 2
    assert [line["peak, decay"] for line in (ours, other, shorter)] == ["0.1, 0.0005", "0.05, 0.01", "0.1, 0.0005"]
    assert [line["epochs"] for line in (ours, other, longer, shorter)] == ["2", "2", "2", "1"]
    assert ours["accuracy"] == f"{by_set['digits-0-1-2'][0].accuracy:.1f}"
    assert other["U_density"] == f"{others[0].auroc('density'):.1f}"
    assert other["cause 3"] == f"{100 - others[0].auroc('density'):.1f}"
    assert shorter["accuracy"] == f"{others[1].accuracy:.1f}"
    largest = np.mean([others[0].network.head.cosines(z.array()).max(1).mean() for z in others[0].network.ood.values()])
    assert other["max cos, OOD"] == f"{largest:.2f}"
    last = list(run(settings, store, Engine(workers=1, progress=False)))[-1]
    assert last.tables["recipes"] == [ours, other, longer, shorter]
    assert record_name(half) in last.kept


def test_half_the_epochs_come_last_and_are_named_as_long_as_they_are_missing(store: Store, by_set: Lines) -> None:
    settings = replace(TINY, piecewise=True, seed=0, halved=("digits-3-4-5",))
    first, last = run(settings, store, Engine(workers=1, progress=False))
    assert any("Not trained yet" in note and "digits-3-4-5, 1 epoch, seed 0" in note for note in first.notes)
    assert first.left is not None
    assert first.left.startswith("1 network, about ")
    assert not first.part
    assert last.left is None
    assert last.rows == first.rows
    (half,) = half_as_long(settings)
    assert (half.snapshots, half.training.seed) == (0, 0)


def test_the_networks_with_the_authors_decay_are_those_that_results_keep() -> None:
    kept = {path.name for path in (Path(__file__).parents[3] / "results" / "X9" / "networks").glob("*.json")}
    strong = {record_name(plan).split("/")[1] for plan in plans(strong_decay(SCALES["overnight"]))}
    assert {name.split("-")[0] for name in kept & strong} == {"mnist", "cifar10", "cifar100"}


def test_a_damaged_record_of_a_network_is_one_line(store: Store, by_set: Lines, tmp_path: Path) -> None:
    settings, engine = replace(TINY, piecewise=True, runs=1), Engine(workers=1, progress=False)
    record = tmp_path / "X9" / record_name(plans(settings)[0])
    record.parent.mkdir(parents=True)
    record.write_text('{"facts": ')
    with pytest.raises(SoftscopeError, match="not a whole JSON file"):
        measured(settings, Store(tmp_path / "empty", results=tmp_path), engine)
