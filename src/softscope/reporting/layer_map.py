"""The final layer from above (X1): its first two principal components, each input in the colour of its confidence."""

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from ..diagnosis.model import FinalLayerMap
from .svg import Drawing, Scale, brief, shorten

_SIDE, _MARGIN = 320.0, 20.0
_MAX_LABELS = 12
BANDS = 5


def final_layer_map(layer_map: FinalLayerMap, ood: str, classes: Sequence[str]) -> Markup:
    """Training points and one OOD set on the plane, each coloured by the confidence the network has in it."""
    x, y = _scales(layer_map)
    width, height = x.stop + 1, y.start + _MARGIN
    words = f"Map of the final layer with the training inputs and {ood}, coloured by the confidence in each input"
    drawing = Drawing(width, height, words, "map")
    drawing.put('<rect width="{}" height="{}" class="ground"/>', x.stop, y.start)
    for name, mark in (("train", "dot"), (ood, "cross")):
        points = layer_map.points.get(name, ())
        sure = layer_map.sure.get(name) or (1.0,) * len(points)
        for band in range(BANDS):
            here = [point for point, one in zip(points, sure) if band_of(one, len(classes)) == band]
            shape = "h0" if mark == "dot" else "l4 4m0-4l-4 4"
            step = 0.0 if mark == "dot" else 2.0
            line = "".join(f"M{brief(x(a) - step)} {brief(y(b) - step)}{shape}" for a, b in here)
            if line:
                drawing.put('<path d="{}" class="{} sure-{}"/>', line, mark, band)
    _name_classes(drawing, layer_map, classes, x, y)
    first, second = layer_map.explained[:2]
    drawing.text(2.0, height - 5, f"1st component, {first:.0%} of variance →", "tick")
    drawing.text(width - 2, height - 5, f"↑ 2nd, {second:.0%}", "tick", "end")
    return drawing.markup()


def band_of(sure: float, classes: int) -> int:
    """The colour of a confidence: BANDS equal steps from 1/K to 1."""
    return min(BANDS - 1, max(0, int(BANDS * (sure - 1 / classes) / (1 - 1 / classes))))


def _scales(layer_map: FinalLayerMap) -> tuple[Scale, Scale]:
    """Both axes at the same scale, so that angles show as they are."""
    ratio = (layer_map.y[-1] - layer_map.y[0]) / max(layer_map.x[-1] - layer_map.x[0], 1e-300)
    height = _SIDE * min(max(ratio, 0.3), 1.5)
    return Scale(layer_map.x[0], layer_map.x[-1], 0.0, _SIDE), Scale(layer_map.y[0], layer_map.y[-1], height, 0.0)


def _name_classes(drawing: Drawing, layer_map: FinalLayerMap, classes: Sequence[str], x: Scale, y: Scale) -> None:
    """Each class's name at the median of its training points, where there are few enough to read."""
    if "train" not in layer_map.points or len(classes) > _MAX_LABELS:
        return
    predicted = layer_map.classes["train"]
    for index, name in enumerate(classes):
        mine = [point for point, k in zip(layer_map.points["train"], predicted) if k == index]
        if mine:
            a, b = x(median(a for a, _ in mine)), y(median(b for _, b in mine))
            short = shorten(name, 90)
            inset = 3.2 * len(short) + 2
            drawing.text(min(max(a, inset), x.stop - inset), min(max(b, 12.0), y.start - 6), short, "halo", "middle")
