"""docs/results.md: rendered from the committed results alone, and up to date with them."""

import json
import re
from pathlib import Path

import pytest

from softscope.errors import SoftscopeError
from softscope.paper.experiments.page import COMMAND, results_page
from softscope.paper.experiments.verdict import Mean, Reported, Row, Statement

ROOT = Path(__file__).parents[3]


def test_committed_results_name_no_folder_of_the_machine_that_made_them():
    outside = re.compile(r"""(?<![\w.$}])/[\w./-]*/?\w+Plan-[0-9a-f]{32}""")
    assert outside.search("of /home/me/store/NetworkPlan-" + 32 * "0"), "what is looked for"
    assert not outside.search("--head softscope-runs/NetworkPlan-" + 32 * "0")
    named = [str(path) for path in (ROOT / "results").rglob("*.json") if outside.search(path.read_text())]
    assert not named, "run the command in a folder that holds the store, and let messages name sets, not files"


def kept(folder: Path, name: str, scale: str, *rows: Row) -> None:
    written = {
        "id": name,
        "title": f"title of {name}",
        "figures": ["fig_a"],
        "scale": scale,
        "command": f"softscope reproduce {name} --scale {scale}",
        "rows": [row.to_dict() for row in rows],
        "captions": {"main": "A caption.", "second": "Another."},
        "notes": ["a note"],
        "subsets": ["mnist: 3 of 10 classes"],
        "files": [f"{scale}.png", f"{scale}-second.png"],
        "provenance": {"seconds": 3.0, "step_seconds": 240.0, "machine": {"cores": 2}},
    }
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{scale}.json").write_text(json.dumps(written))


def test_the_committed_page_is_what_the_committed_results_give() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == results_page(ROOT / "results"), f"docs/results.md is out of date: run {COMMAND}"


def test_every_committed_picture_on_the_page_exists() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    files = [part.split(")")[0] for part in page.split("](../")[1:]]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_tables_that_a_result_wants_shown_stand_under_its_rows(tmp_path: Path) -> None:
    kept(tmp_path, "X9", "laptop", Row("share", Mean(3.0)))
    path = tmp_path / "X9" / "laptop.json"
    written = json.loads(path.read_text())
    lines = [{"data set": "a|b", "U_max": "96.3 ± 1.1"}, {"data set": "mean"}]
    path.write_text(
        json.dumps(written | {"tables": {"benchmark": lines, "hidden": lines}, "shown": {"benchmark": "Words."}})
    )
    page = results_page(tmp_path)
    assert "*benchmark.* Words.\n\n| data set | U_max |\n| --- | --- |\n| a\\|b | 96.3 ± 1.1 |\n| mean |  |" in page
    assert "hidden" not in page


def test_numbers_verdicts_and_pictures_of_the_largest_scale_are_shown(tmp_path: Path) -> None:
    agrees = Row("AUROC | U", Mean(98.5, 0.1, 3), Reported(98.6, 0.4), "%", kind="AUROC")
    says = Row("share", Mean(3.0, 0.1, 3), Statement("rises", least=5), "%")
    single = Row("another", Mean(98.6), Reported(98.6, 0.4), "%", kind="AUROC")
    again = Row("once more", Mean(98.5, 0.1, 3), Reported(98.6, 0.4), "%", kind="AUROC", counts=False)
    kept(tmp_path, "X10", "laptop", agrees)
    kept(tmp_path, "X4", "smoke", says)
    kept(tmp_path, "X4", "paper", agrees, says, single, again, Row("mine", Mean(1.0)))
    page = results_page(tmp_path)
    assert page.index("## X4") < page.index("## X10")
    assert "--scale smoke" not in page
    assert "| [X4](#x4) | title of X4 | paper | 1 of 1 | 0 of 1 | 1 | 4 min |" in page
    assert "| AUROC \\| U | 98.6 ± 0.4 | 98.5 ± 0.1 % | ± 1.8 | agrees: -0.1 [-0.5, 0.3] |" in page
    assert "| share | rises | 3.0 ± 0.1 % | at least 5 | does not hold: 3.0 [2.6, 3.4] |" in page
    assert "| another | 98.6 ± 0.4 | 98.6 % | ± 1.8 | undecided: a single run |" in page
    assert "| mine |  | 1.0 |  |  |" in page
    assert "![main](../results/X4/paper.png)\n\n*main.* A caption." in page
    assert "![second](../results/X4/paper-second.png)" in page
    assert "- Data sets used in part: mnist: 3 of 10 classes." in page


def conclusion(page: str, start: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith("| ") and start in line.split(" | ")[1]]
    return line.strip("| ").split(" | ")


def test_the_page_opens_with_the_papers_conclusions_each_decided_by_its_rows(tmp_path: Path) -> None:
    rows = [
        Row("mean: U_max", Mean(87.0, 0.2, 3), Reported(87.7), "%", kind="AUROC"),
        Row("mean: cause 3 less cause 2", Mean(-9.0, 0.2, 3), Statement("outweighs", least=0), "points"),
        Row("mean: U_entropy less U_max", Mean(1.0, 0.1, 3), Statement("preferable", least=0), "points"),
        Row("largest share of equal float32 values of U_max", Mean(26.8, 0.3, 3), Statement("absent", most=1), "%"),
        Row("largest loss to rounding", Mean(0.0, 0.001, 3), Statement("avoided", most=0.05), "points", 2),
    ]
    kept(tmp_path, "X9", "overnight", *rows)
    kept(tmp_path, "X7", "laptop", *(Row(f"{name}: AUROC of U_entropy, 8 less 2 layers", Mean(9.0, 0.1, 3),
                                         Statement("improves", least=0)) for name in ("mnist", "fashion")))  # fmt: skip
    page = results_page(tmp_path)
    assert "**The paper's 10 main conclusions: holding here 3, not holding 2, undecided 5.**" in page
    brief = {line.split(": ")[0]: line for line in page.splitlines() if line.startswith("- What")}
    assert list(brief) == ["- What the paper got right", "- What it did not", "- What we can't decide"]
    assert brief["- What it did not"].endswith("extrapolation (6); Saturation is absent from ResNet18 (10).")
    assert [line.count(" (") for line in brief.values()] == [3, 2, 5]
    assert page.index("better than its reputation") < page.index("**The rule**") < page.index("## X7")
    assert conclusion(page, "reputation")[2:4] == ["holds", "[X9](#x9) mean: U_max: 87.0 ± 0.2 % (at least 75: holds)"]
    assert conclusion(page, "overlap outweighs")[2] == "does not hold"
    assert conclusion(page, "Depth helps")[2] == "holds"
    assert conclusion(page, "Density beats")[2:4] == ["undecided", "no result"]
    entropy = conclusion(page, "Entropy is preferable")
    assert entropy[2] == "holds", "X10 has no result, so that it rests on X9 alone"
    saturation = conclusion(page, "Saturation is absent")
    assert saturation[2] == "does not hold"
    assert "(at most 1: does not hold); beside it, [X9](#x9) largest loss to rounding" in saturation[3]


def test_no_committed_verdict_breaks_the_rule() -> None:
    for path in (ROOT / "results").glob("*/*.json"):
        for written in json.loads(path.read_text(encoding="utf-8")).get("rows", []):
            row = Row.from_dict(written)
            assert written["verdict"] == row.verdict, (path.name, row.label)
            assert row.ours.runs != 1 or row.verdict in ("", "undecided"), (path.name, row.label)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_result_is_one_clear_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "X4").mkdir()
    (tmp_path / "X4" / "paper.json").write_text(content)
    with pytest.raises(SoftscopeError, match=r"paper\.json: is not a result"):
        results_page(tmp_path)


def test_no_results_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SoftscopeError, match="no result of an experiment"):
        results_page(tmp_path / "absent")


def test_a_scale_without_one_whole_run_stands_beside_the_whole_one_and_in_no_count(tmp_path: Path) -> None:
    kept(tmp_path, "X9", "laptop", Row("mean: U_max", Mean(84.5), Reported(87.7), "%", kind="AUROC"))
    kept(tmp_path, "X9", "overnight", Row("mean: U_max", Mean(93.4), Reported(87.7), "%", kind="AUROC"))
    path = tmp_path / "X9" / "overnight.json"
    written = json.loads(path.read_text()) | {"part": True, "left": "14 networks"}
    table = {"tables": {"benchmark": [{"data set": "mnist", "U_max": "93.4"}]}, "shown": {"benchmark": "Words."}}
    path.write_text(json.dumps(written | table))
    page = results_page(tmp_path)
    assert "X9 --scale laptop`" in page
    whole, begun = page.split("### X9 at scale overnight, so far")
    assert "93.4" not in whole
    assert "To come: 14 networks" in begun
    assert "| mnist | 93.4 |" in begun
    path.write_text(json.dumps(written | table | {"part": False}))
    assert "so far" not in results_page(tmp_path)
    (tmp_path / "X9" / "laptop.json").unlink()
    path.write_text(json.dumps(written | table))
    assert "*Not complete: 14 networks to come.*" in results_page(tmp_path)
