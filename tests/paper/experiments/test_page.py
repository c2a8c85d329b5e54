"""docs/results.md: rendered from the committed results alone, and up to date with them."""

import json
from pathlib import Path

import pytest

from softscope.errors import SoftscopeError
from softscope.paper.experiments.base import Mean, Reported, Row, Statement
from softscope.paper.experiments.page import COMMAND, results_page

ROOT = Path(__file__).parents[3]


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
    agrees = Row("AUROC | U", Mean(98.0, 0.3, 3), Reported(98.6, 0.4), "%")
    says = Row("share", Mean(3.0), Statement("rises", False), "%")
    kept(tmp_path, "X10", "laptop", agrees)
    kept(tmp_path, "X4", "smoke", says)
    kept(tmp_path, "X4", "paper", agrees, says, Row("mine", Mean(1.0)))
    page = results_page(tmp_path)
    assert page.index("## X4") < page.index("## X10")
    assert "--scale smoke" not in page
    assert "| [X4](#x4) | title of X4 | paper | 1 of 1 | 0 of 1 | 4 min |" in page
    assert "| AUROC \\| U | 98.6 ± 0.4 | 98.0 ± 0.3 % | agrees |" in page
    assert "| share | rises | 3.0 % | not as the paper says |" in page
    assert "| mine |  | 1.0 |  |" in page
    assert "![main](../results/X4/paper.png)\n\n*main.* A caption." in page
    assert "![second](../results/X4/paper-second.png)" in page
    assert "- mnist: 3 of 10 classes" in page


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_result_is_one_clear_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "X4").mkdir()
    (tmp_path / "X4" / "paper.json").write_text(content)
    with pytest.raises(SoftscopeError, match=r"paper\.json: is no result"):
        results_page(tmp_path)


def test_no_results_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SoftscopeError, match="no result of an experiment"):
        results_page(tmp_path / "absent")
