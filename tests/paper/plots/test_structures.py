"""Pictures of structures: a flattened head keeps its softmax, and every panel holds what it should."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from softscope.geometry import Plane, lopsided, optimal_structure, sandwich, stack
from softscope.head import Head
from softscope.paper.plots.structures import (
    StructurePanel,
    bound_figure,
    flattened,
    structure_figure,
    structure_planes,
)
from softscope.reporting.style import to_png


def test_three_classes_have_the_same_softmax_on_the_plane_of_their_centred_weights(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 16)), rng.normal(size=3))
    z = rng.normal(size=(50, 16))
    flat = flattened(head)
    centred = head.weight - head.weight.mean(axis=0)
    onto = np.linalg.lstsq(flat.weight, centred, rcond=None)[0]  # the plane's axes: rows of flat times these = centred
    np.testing.assert_allclose(softmax(flat.logits(z @ onto.T), axis=1), softmax(head.logits(z), axis=1), atol=1e-9)


def test_weights_on_a_line_are_flattened_too() -> None:
    flat = flattened(stack(3, 1))
    assert flat.weight.shape == (3, 2)
    np.testing.assert_allclose(np.sort(flat.weight_norms), [0, 1, 1], atol=1e-12)


def test_every_structure_gets_its_panel_and_its_aurocs() -> None:
    makers = {"optimal": optimal_structure, "sandwich": sandwich, "stack": stack, "lopsided": lopsided}
    scores = {"the paper": (98.0, 0.4), "U_entropy": (97.0, 0.2), "U_density": (90.0, None), "kNN": (93.0, 1.0)}
    outcomes = [
        StructurePanel(
            name, make(3, 2), f"{name} words", {key: (own - n, error) for key, (own, error) in scores.items()}
        )
        for n, (name, make) in enumerate(makers.items())
    ]
    figure = structure_figure(outcomes)
    *panels, below = figure.axes
    assert [panel.get_title(loc="left") for panel in panels] == [f"{n}) {name}" for n, name in enumerate(makers, 1)]
    assert [panel.get_xlabel() for panel in panels] == [f"{name} words" for name in makers]
    for panel, outcome in zip(panels, outcomes):
        tips = np.concatenate([line.get_xydata() for line in panel.lines])
        np.testing.assert_allclose(tips, outcome.shape.weight / outcome.shape.weight_norms.max(), atol=1e-12)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(scores)
    assert below.get_ylim()[0] < 90
    shown = {c.get_label(): c.lines[0].get_ydata().tolist() for c in below.containers}
    assert shown == {name: [value - n for n in range(4)] for name, (value, _) in scores.items()}
    arms = {c.get_label(): np.ptp(c.lines[2][0].get_segments()[3][:, 1]) / 2 for c in below.containers}
    assert arms == pytest.approx({name: error or 0.0 for name, (_, error) in scores.items()})
    assert [label.get_text() for label in below.get_xticklabels()] == list(makers)
    assert below.get_ylabel() == "AUROC, %"
    assert to_png(figure).startswith(b"\x89PNG")


def test_planes_show_every_point_and_name_the_classes(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 5)), classes=["cat", "dog", "owl"])
    test, labels, ood = rng.normal(size=(30, 5)), np.arange(30) % 3, rng.normal(size=(24, 5))
    figure = structure_planes({name: (head, test, labels, ood[n:]) for n, name in enumerate("abcde")})
    for number, (axes, name) in enumerate(zip(figure.axes, "abcde")):
        counts = {cloud.get_label(): len(cloud.get_offsets()) for cloud in axes.collections}
        assert counts == {**{f"test, class {own}": 10 for own in ("cat", "dog", "owl")}, "OOD": 24 - number}
        assert axes.get_title(loc="left") == f"{number + 1}) {name}"
    drawn = figure.axes[0].collections[-1].get_offsets()
    np.testing.assert_allclose(drawn, Plane.principal(test, ood).project(ood))
    names = [text.get_text() for text in figure.axes[5].get_legend().get_texts()]
    assert names == ["test, class cat", "test, class dog", "test, class owl", "OOD"]


def test_every_network_stands_at_its_predicted_bounds_and_the_paper_as_a_star() -> None:
    def network(structure: str, cap: float, floor: float, loss: float, top: float, area: float) -> dict[str, Any]:
        bounds = {"caps": [1.0, cap], "loss_floor": floor, "auroc_cap": top}
        return {"structure": structure, **bounds, "cross_entropy": loss, "auroc": {"max": area, "entropy": 1.0}}

    table = [
        network("optimal", 1.0, 0.0, 0.01, 100.0, 98.0),
        network("optimal, one class out of reach", 0.33, 0.36, 0.37, 75.0, 71.0),
        network("0, 5, 10 degrees", 1.0, 0.0, 0.08, 99.0, 80.0),
    ]
    figure = bound_figure(table, {"optimal": (0.014, 98.9), "stack": (0.276, 69.5)})
    loss, area = figure.axes
    assert (loss.get_xlabel(), loss.get_ylabel()) == ("predicted: its floor", "measured: cross-entropy")
    assert (area.get_xlabel(), area.get_ylabel()) == ("predicted: its cap, %", "measured: AUROC of U_max, %")
    assert drawn(loss) == [("filled", 0.36, 0.37), ("hollow", 0.0, 0.01), ("star", 0.0, 0.014), ("hollow", 0.0, 0.08)]
    assert drawn(area) == [
        ("filled", 75.0, 71.0),
        ("hollow", 100.0, 98.0),
        ("star", 100.0, 98.9),
        ("hollow", 99.0, 80.0),
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["optimal", "readings", "the paper"]


def drawn(axes: Any) -> list[tuple[str, float, float]]:
    """(look, x, y) of every point, in the order of drawing."""
    points = []
    for line in axes.lines:
        look = "star" if line.get_marker() == "*" else "hollow" if line.get_mfc() == "white" else "filled"
        if line.get_marker() != "None":
            points += [
                (look, x, y) for x, y in zip(np.ravel(line.get_xdata()).tolist(), np.ravel(line.get_ydata()).tolist())
            ]
    return points
