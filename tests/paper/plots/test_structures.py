"""Pictures of structures: a flattened head keeps its softmax, and every panel holds what it should."""

import numpy as np
from scipy.special import softmax

from softscope.geometry import lopsided, optimal_structure, sandwich, stack
from softscope.head import Head
from softscope.paper.plots.structures import (
    Outcome,
    flattened,
    loss_figure,
    scale_figure,
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
    area = {"the paper": (98.0, 0.4), "U_entropy": (97.0, 0.2), "U_density": (90.0, None), "kNN": (93.0, 1.0)}
    figure = structure_figure([Outcome(name, make(3, 2), "accuracy", area) for name, make in makers.items()])
    *panels, below = figure.axes
    assert [panel.get_title(loc="left") for panel in panels] == [f"{n}) {name}" for n, name in enumerate(makers, 1)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(area)
    assert below.get_ylim()[0] < 90
    shown = {c.get_label(): c.lines[0].get_ydata().tolist() for c in below.containers}
    assert shown == {name: [value] * 4 for name, (value, _) in area.items()}
    assert [label.get_text() for label in below.get_xticklabels()] == list(makers)
    assert below.get_ylabel() == "AUROC, %"
    assert to_png(figure).startswith(b"\x89PNG")


def test_planes_show_every_point_and_name_the_classes(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 5)), classes=["cat", "dog", "owl"])
    test, labels, ood = rng.normal(size=(30, 5)), np.arange(30) % 3, rng.normal(size=(20, 5))
    figure = structure_planes(dict.fromkeys("abcde", (head, test, labels, ood)))
    assert sum(len(cloud.get_offsets()) for cloud in figure.axes[0].collections) == 50
    names = [text.get_text() for text in figure.axes[5].get_legend().get_texts()]
    assert names == ["test, class cat", "test, class dog", "test, class owl", "OOD"]


def test_the_dependence_on_scale_has_a_line_a_structure_and_one_for_the_trainable_layer() -> None:
    row = {"norm": 1.0, "accuracy": 99.0, "cross_entropy": 0.02, "entropy": 97.0}
    other = {"norm": 10.0, "accuracy": 90.0, "cross_entropy": 0.3, "entropy": 70.0}
    figure = scale_figure({"optimal": [row, other], "stack": [row]}, 10.0, row)
    for axes, what in zip(figure.axes, ("accuracy", "cross_entropy", "entropy")):
        (line,) = [line for line in axes.lines if line.get_label() == "optimal"]
        assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([1.0, 10.0], [row[what], other[what]])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["accuracy, %", "cross-entropy", "AUROC of U_entropy, %"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["trainable", "optimal", "stack"]
    assert all(axes.get_xscale() == "log" for axes in figure.axes)


def test_every_network_and_the_papers_stand_in_one_picture() -> None:
    row = {"cross_entropy": 0.02, "entropy": 97.0}
    figure = loss_figure(
        {"optimal": [row, row], "stack": [row]}, [row], {"optimal": (0.01, 98, 0.1), "stack": (0.3, 70, 1)}
    )
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["optimal", "stack", "sandwich, aligned", "the paper"]
    (axes,) = figure.axes
    stars = [c.lines[0] for c in axes.containers]
    assert [(s.get_xdata().tolist(), s.get_ydata().tolist()) for s in stars] == [([0.01], [98]), ([0.3], [70])]
    own = {line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.lines}
    assert own["optimal"] == ([0.02, 0.02], [97.0, 97.0])
    assert own["sandwich, aligned"] == ([0.02], [97.0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cross-entropy on test data", "AUROC of U_entropy, %")
