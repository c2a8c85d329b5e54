"""X2: every geometry picture is written, and the numbers the paper's pictures state are set beside ours."""

from softscope.engine import Engine
from softscope.paper.experiments import find, load
from softscope.paper.experiments.base import reproduce
from softscope.paper.plots.geometry import PICTURES
from softscope.runs import Store


def test_x2_writes_every_picture_as_png_and_svg_with_its_caption(tmp_path):
    (entry,) = find("fig_costheta_diag_w2")
    assert entry.id == "X2"
    written = reproduce(load(entry), "smoke", store=Store(tmp_path / "runs"), engine=Engine("local"), folder=tmp_path)
    names = {path.name for path in (tmp_path / "X2").iterdir()}
    assert len([name for name in names if name.endswith(".png")]) == len(PICTURES)
    assert len([name for name in names if name.endswith(".svg")]) == len(PICTURES)
    assert set(written["captions"]) == set(PICTURES)
    verdicts = {row["label"]: row["verdict"] for row in written["rows"]}
    assert verdicts["cos(w_i, w_j) after descent, K = 3 (T12)"] == "agrees"
    assert verdicts["pairs ordered against max cos, K = 3, H = 2, norm 5 (T15)"] == "holds"
    assert verdicts["pairs ordered against max cos, K = 3, H = 3, norm 5 (T15)"] == "does not hold"
