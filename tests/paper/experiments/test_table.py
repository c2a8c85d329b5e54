"""Golden tests of the benchmark's tables and figures: known networks in, exact cells, labels and axes out."""

import numpy as np
import pytest

from softscope.paper.experiments import table
from softscope.paper.experiments.judgement import Judged
from softscope.paper.experiments.table import COLUMNS, SCORES, TEMPERATURE, paper_lines
from softscope.paper.experiments.verdict import Mean, Reported
from softscope.paper.experiments.x09_five_sets import mental
from softscope.paper.plots.benchmark import auroc_grids, causes_beside

from .known import area, network


def lines() -> dict[str, list[Judged]]:
    """Two data sets, two runs each: cause 2 is 10 and 16 on a, -6 and -4 on b."""
    return {
        "a": [
            network("a", {"b": area(80, 81, 85, 91)}, seed=0, accuracy=90),
            network("a", {"b": area(82, 83, 87, 99)}, seed=1000, accuracy=92),
        ],
        "b": [
            network("b", {"a": area(70, 72, 75, 66)}, seed=0, accuracy=60),
            network("b", {"a": area(72, 74, 75, 70)}, seed=1000, accuracy=62),
        ],
    }


def test_the_papers_lines_are_those_of_its_table() -> None:
    x9 = paper_lines("X9")
    assert {name: [line[c].value for c in ("accuracy", *SCORES)] for name, line in x9.items() if name != "mean"} == {
        "mnist": [99.6, 96.3, 96.3, 96.3, 99.5],
        "fashion_mnist": [94.5, 87.4, 88.7, 88.7, 98.5],
        "svhn": [96.4, 90.7, 90.9, 90.9, 93.2],
        "cifar10": [93.5, 85.4, 85.7, 85.7, 89.3],
        "cifar100": [72.0, 78.6, 80.6, 80.6, 82.5],
    }
    assert x9["cifar100"]["density"] == Reported(82.5, 0.6)
    assert [x9["mean"][column].value for column in list(COLUMNS)[1:]] == [87.7, 88.4, 88.4, 92.6, 0.0, 4.2, 7.4]


@pytest.mark.parametrize("name", ["X9", "X10"])
def test_the_papers_causes_and_means_follow_from_its_aurocs(name: str) -> None:
    own = paper_lines(name)
    mean = own.pop("mean")
    for line in own.values():
        b, c, d = (line[column].value for column in ("plain-entropy", "cool", "density"))
        assert line["overlap"].value == pytest.approx(100 - d, abs=0.11)
        if name == "X9":
            assert line["saturation"].value == pytest.approx(c - b, abs=0.11)
            assert line["extrapolation"].value == pytest.approx(d - c, abs=0.11)
    for column in SCORES:
        assert mean[column].value == pytest.approx(np.mean([line[column].value for line in own.values()]), abs=0.11)


def test_the_grid_has_a_row_for_what_was_learned_and_a_column_for_what_is_ood() -> None:
    own = lines()
    np.testing.assert_array_equal(table.grid(own, "density"), [[np.nan, 95.0], [68.0, np.nan]])
    figure = auroc_grids(["a", "b"], {"U_density": table.grid(own, "density")})
    axes = figure.axes[0]
    assert {text.get_position(): text.get_text() for text in axes.texts} == {(1, 0): "95.0", (0, 1): "68.0"}
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("learned", "OOD")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_title(loc="left") == "U_density"
    shown = np.asarray(axes.images[0].get_array().filled(np.nan))
    np.testing.assert_array_equal(shown, [[np.nan, 95.0], [68.0, np.nan]])


def test_the_benchmark_has_exact_cells_and_the_papers_line_under_ours() -> None:
    headings = {**COLUMNS, **TEMPERATURE}
    paper = {"a": paper_lines("X9")["mnist"], "b": paper_lines("X9")["svhn"], "mean": paper_lines("X9")["mean"]}
    cells = table.benchmark(lines(), paper, headings, lambda name, runs: f"{name}, {len(runs)} runs", "paper")
    ours, theirs, _, _, mean, papers_mean = cells
    assert ours == {
        "data set": "a, 2 runs",
        "accuracy": "91.0 ± 1.0",
        "U_max": "81.0 ± 1.0",
        "U_entropy": "82.0 ± 1.0",
        "U_cool": "82.0 ± 1.0",  # nothing rounds, so that C = B
        "U_density": "95.0 ± 4.0",
        "cause 1": "0.0 ± 0.0",
        "cause 2": "13.0 ± 3.0",
        "cause 3": "5.0 ± 4.0",
        "temperature gain": "4.0 ± 0.0",
    }
    assert theirs["U_density"] == "99.5 ± 0.1"
    assert theirs["temperature gain"] == ""
    assert mean["cause 2"] == "4.0 ± 2.0 (size 9.0)", "13 and -5: the mean does not stand alone"
    assert mean["cause 3"] == "18.5 ± 3.0"
    assert papers_mean["U_max"] == "87.7"
    assert papers_mean["accuracy"] == ""


def test_cooling_takes_part_only_where_rounding_costs_something() -> None:
    calm, rounded = (network("a", {"b": area(80, 81, 90, 95, rounding)}) for rounding in (0.0, 2.0))
    assert [calm.cause(name) for name in ("saturation", "extrapolation", "overlap")] == pytest.approx([0, 14, 5])
    assert [rounded.cause(name) for name in ("saturation", "extrapolation", "overlap")] == pytest.approx([9, 5, 5])
    assert table.value(calm, "cool") == pytest.approx(81)
    assert table.value(rounded, "cool") == pytest.approx(90)
    assert calm.cause("temperature") == pytest.approx(9)
    assert rounded.cause("temperature") == pytest.approx(7)


def test_rounding_and_temperature_stand_under_their_own_headings() -> None:
    parts = {"extrapolation_proper": 3.0, "ambiguity": 2.0, "misfit": 1.5, "overlap_proper": 3.5, "ceiling": 96.5}
    cells = table.parts([network("a", {"b": area(80, 81, 90, 95, 2.0)}, parts=parts)])
    assert {name: cell.split()[0] for name, cell in cells.items()} == {
        "B, U_entropy": "81.0",
        "1 rounding": "2.0",
        "1 temperature": "7.0",
        "2a extrapolation": "3.0",
        "2b ambiguity": "2.0",
        "3 misfit": "1.5",
        "3 overlap proper": "3.5",
        "ceiling": "96.5",
    }
    assert cells["1 rounding"] == "2.0 [1.0, 3.0]"


def test_the_mental_table_reads_each_set_under_its_own_name() -> None:
    sets = {name: {"largest": large, "others_deviation": other} for name, large, other in (
        ("train", 0.95, 0.11), ("test", 0.85, 0.12), ("b", 0.45, 0.33), ("c", 0.55, 0.35),
    )}  # fmt: skip
    head = {"norm_spread": 0.21, "bias_share": 0.02, "cosine_deviation": 0.13, "distance": 0.4, "centred_distance": 0.3}
    own = network("a", {"b": area(80, 81, 90, 95), "c": area(80, 81, 90, 95)}, mental={"head": head, "sets": sets})
    assert mental([own]) == {
        "rank agreement": "0.90",
        "-1/(K-1)": "-0.25",
        "norm(w): std / mean": "0.21",
        "abs(b) / norm(w)": "0.02",
        "cos(w, w): deviation": "0.13",
        "distance to optimum (centred)": "0.40 (0.30)",
        "largest cos, train": "0.95",
        "largest cos, test": "0.85",
        "largest cos, OOD": "0.50",
        "other cos: deviation, test": "0.12",
        "other cos: deviation, OOD": "0.34",
    }


def test_cause_bars_show_the_mean_over_runs_and_the_papers_number() -> None:
    own = lines()
    drawn = {
        name: table.cause_line({name: runs}, ["overlap"], {"overlap": Reported(7.4)}) for name, runs in own.items()
    }
    drawn["mean"] = table.cause_line(own, ["overlap"], {})
    figure = causes_beside({"overlap": "3 overlap"}, drawn)
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([5.0, 32.0, 18.5])
    dots = [line.get_xdata().tolist() for line in axes.lines if line.get_label() == "ours, single runs"]
    assert dots == [pytest.approx([9.0, 1.0]), pytest.approx([34.0, 30.0]), pytest.approx([21.5, 15.5])]
    assert [line.get_xdata().tolist() for line in axes.lines if line.get_label() == "the paper"] == [[7.4], [7.4]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "mean"]
    assert (axes.get_title(loc="left"), axes.get_xlabel()) == ("3 overlap", "points of AUROC")


def test_every_score_has_its_mean_over_pairs_and_its_worst_pair() -> None:
    own = lines()
    own["a"][0].numbers["densities"] = own["a"][1].numbers["densities"] = {"density-log": {"b": 60.0}}
    for run in own["b"]:
        run.numbers["densities"] = {"density-log": {"a": 50.0}}
    cells = {line["score"]: line for line in table.every_score(own)}
    assert cells["symbol of density"] == {
        "score": "symbol of density",
        "mean": "81.5 ± 3.0",
        "worst pair": "68.0 (b against a)",
    }
    assert cells["density-log"]["mean"] == "55.0 ± 0.0"
    assert cells["density-log"]["worst pair"] == "50.0 (b against a)"
    means = [float(line["mean"].split()[0]) for line in table.every_score(own)]
    assert means == sorted(means, reverse=True)


def test_differences_are_taken_run_by_run() -> None:
    own = lines()
    assert table.difference(own, "density", own, "plain-entropy") == Mean.of(
        [np.mean([10.0, -6.0]), np.mean([16.0, -4.0])]
    )
    rows = {row.label: row.ours.value for row in table.size_rows("mean", own)}
    assert rows == {"mean: mean size of cause 2, whatever its sign": pytest.approx(9.0)}


def test_cells_of_causes_are_in_no_count() -> None:
    own = lines()["a"]
    rows = table.cells("a", lambda column: table.over_runs(own, column), COLUMNS, paper_lines("X9")["mnist"])
    assert {row.label: row.counts for row in rows} == {
        "a: accuracy": True, "a: U_max": True, "a: U_entropy": True, "a: U_cool": True, "a: U_density": True,
        "a: cause 1": False, "a: cause 2": False, "a: cause 3": False,
    }  # fmt: skip
    assert {row.kind for row in rows} == {"accuracy", "AUROC"}
