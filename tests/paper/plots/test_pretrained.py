"""X10's pictures: final layers by kind and data set, and the surest OOD images with their class and confidence."""

import numpy as np

from softscope.head import Head
from softscope.paper.plots.pretrained import Layer, Sure, few_colours, final_layers, surest


def test_layers_stand_by_kind_and_data_set_with_both_kinds_of_points(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 4)))
    layer = Layer(head, rng.normal(size=(30, 4)), rng.normal(size=(20, 4)))
    figure = final_layers({"fine-tuned": {"beans": layer, "pets": layer}, "scratch": {"beans": layer, "pets": layer}})
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["beans", "pets"]
    assert [figure.axes[0].get_ylabel(), figure.axes[2].get_ylabel()] == ["fine-tuned", "scratch"]
    points = {line.get_label(): len(line.get_xdata()) for line in figure.axes[0].lines}
    assert points == {"OOD": 20, "test": 30}


def test_the_surest_images_carry_the_class_they_were_taken_for_and_never_certainty() -> None:
    grey, colour = np.full((4, 4, 1), 7, np.uint8), np.full((4, 4, 3), 9, np.uint8)
    figure = surest({"Pets": [Sure(grey, "a_very_long_class_name", 0.99999), Sure(colour, "cat", 0.5)]})
    first, second = figure.axes
    assert first.get_xlabel() == "a very long cl…\n> 99.9 %"
    assert second.get_xlabel() == "cat\n50.0 %"
    assert first.get_ylabel() == "Pets"
    assert first.images[0].get_array().shape == (4, 4)
    assert second.images[0].get_array().shape == (4, 4, 3)
    assert few_colours(figure).startswith(b"\x89PNG")
