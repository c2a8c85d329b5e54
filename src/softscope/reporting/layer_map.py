"""The final layer seen from above (X1): its plane of two principal components, confidence behind the points."""

import io
from base64 import b64encode
from collections.abc import Sequence
from statistics import median

import numpy as np
from markupsafe import Markup

from ..diagnosis.model import FinalLayerMap
from .style import CONFIDENCE_MAP
from .svg import Drawing, Scale, brief, shorten

_SIDE, _MARGIN = 320.0, 20.0
_MAX_LABELS = 12


def map_background(found: FinalLayerMap, classes: int) -> str:
    """The confidence over the plane as a PNG data URI: dark = 1/K, bright = 1."""
    import matplotlib
    from PIL import Image

    confidence = np.asarray(found.confidence, dtype=np.float64)[::-1]
    shades = matplotlib.colormaps[CONFIDENCE_MAP]((confidence - 1 / classes) / (1 - 1 / classes), bytes=True)
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(shades[..., :3])).save(stream, "png", optimize=True)
    return "data:image/png;base64," + b64encode(stream.getvalue()).decode()


def final_layer_map(found: FinalLayerMap, background: str, ood: str, classes: Sequence[str]) -> Markup:
    """Training points and one OOD set on the plane. `background` is the id of the page's image of the confidence."""
    x, y = _scales(found)
    width, height = x.stop + 1, y.start + _MARGIN
    words = f"Map of the final layer with the training inputs and {ood}; bright where the network is confident"
    drawing = Drawing(width, height, words, "map")
    drawing.put('<use href="#{}" x="0" y="0" width="{}" height="{}"/>', background, x.stop, y.start)
    dots = "".join(f"M{brief(x(a))} {brief(y(b))}h0" for a, b in found.points.get("train", ()))
    crosses = "".join(f"M{brief(x(a) - 2)} {brief(y(b) - 2)}l4 4m0-4l-4 4" for a, b in found.points[ood])
    drawing.put('<path d="{}" class="dot-edge"/><path d="{}" class="dot"/>', dots, dots)
    drawing.put('<path d="{}" class="cross-edge"/><path d="{}" class="cross"/>', crosses, crosses)
    _name_classes(drawing, found, classes, x, y)
    first, second = found.explained[:2]
    drawing.text(2.0, height - 5, f"1st component, {first:.0%} of variance →", "tick")
    drawing.text(width - 2, height - 5, f"↑ 2nd, {second:.0%}", "tick", "end")
    return drawing.markup()


def map_size(found: FinalLayerMap) -> tuple[float, float]:
    """Width and height of the map, in the units of the picture."""
    x, y = _scales(found)
    return x.stop, y.start


def _scales(found: FinalLayerMap) -> tuple[Scale, Scale]:
    """Both axes at the same scale, so that angles show as they are."""
    ratio = (found.y[-1] - found.y[0]) / max(found.x[-1] - found.x[0], 1e-300)
    height = _SIDE * min(max(ratio, 0.3), 1.5)
    return Scale(found.x[0], found.x[-1], 0.0, _SIDE), Scale(found.y[0], found.y[-1], height, 0.0)


def _name_classes(drawing: Drawing, found: FinalLayerMap, classes: Sequence[str], x: Scale, y: Scale) -> None:
    """Each class's name at the median of its training points, where there are few enough to read."""
    if "train" not in found.points or len(classes) > _MAX_LABELS:
        return
    predicted = found.classes["train"]
    for index, name in enumerate(classes):
        mine = [point for point, k in zip(found.points["train"], predicted) if k == index]
        if mine:
            a, b = x(median(a for a, _ in mine)), y(median(b for _, b in mine))
            short = shorten(name, 90)
            inset = 3.2 * len(short) + 2
            drawing.text(min(max(a, inset), x.stop - inset), min(max(b, 12.0), y.start - 6), short, "halo", "middle")
