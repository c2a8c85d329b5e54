"""The page's pictures that stand alone: ROC curves, the map of the final layer, its structure, strength."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from ..diagnosis.model import Diagnosis, FinalLayerMap, Histogram
from .charts import HistogramRow, histogram_rows, roc, set_rows
from .svg import AxisScale, Drawing, brief, shorten

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
    for name, mark, shape, step in (("train", "dot", "h0", 0.0), (ood, "cross", "l4 4m0-4l-4 4", 2.0)):
        points = layer_map.points.get(name, ())
        sure = layer_map.sure.get(name) or (1.0,) * len(points)
        for band in range(BANDS):
            here = [point for point, one in zip(points, sure) if band_of(one, len(classes)) == band]
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


def _scales(layer_map: FinalLayerMap) -> tuple[AxisScale, AxisScale]:
    """Both axes at the same scale, so that angles show as they are."""
    ratio = (layer_map.y[-1] - layer_map.y[0]) / max(layer_map.x[-1] - layer_map.x[0], 1e-300)
    height = _SIDE * min(max(ratio, 0.3), 1.5)
    return AxisScale(layer_map.x[0], layer_map.x[-1], 0.0, _SIDE), AxisScale(
        layer_map.y[0], layer_map.y[-1], height, 0.0
    )


def _name_classes(
    drawing: Drawing, layer_map: FinalLayerMap, classes: Sequence[str], x: AxisScale, y: AxisScale
) -> None:
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


@dataclass(frozen=True)
class CurvePictures:
    """ROC curves by OOD set; `legend` has the number of each line and its estimator's symbol."""

    legend: list[tuple[int, str]]
    pictures: dict[str, Markup]


def curve_pictures(diagnosis: Diagnosis) -> CurvePictures:
    symbols = {name: label.symbol for name, label in diagnosis.estimators.items()}
    pictures = {}
    for name, curves in diagnosis.curves.items():
        aurocs = {key: diagnosis.scores[name][key].auroc.value for key in curves}
        pictures[name] = roc(name, curves, symbols, aurocs)
    order = list(next(iter(diagnosis.curves.values()), {}))
    return CurvePictures([(index % 8, symbols[key]) for index, key in enumerate(order)], pictures)


def layer_maps(diagnosis: Diagnosis) -> dict[str, Markup]:
    return {
        name: final_layer_map(diagnosis.map, name, diagnosis.classes)
        for name in diagnosis.ood
        if name in diagnosis.map.points
    }


def structure_picture(diagnosis: Diagnosis) -> Markup:
    """Cosines between the weights of classes, beside random weights and the optimum."""
    structure = diagnosis.structure
    names = {"head": ("this network", "head"), "random": ("random weights of the same shape", "train")}
    rows = [HistogramRow(words, "", {kind: structure.cosines.counts[key]}) for key, (words, kind) in names.items()]
    optimum = (structure.optimal_cosine, f"optimum {structure.optimal_cosine:.3g}")
    label = (
        f"Histograms of the cosines between the weights of {structure.classes} classes, of this network and of random "
        f"weights; the optimum is {structure.optimal_cosine:.3g}"
    )
    return histogram_rows(
        structure.cosines.edges, rows, "cosine between the weights of two classes", label, optimum=optimum
    )


def strength_pictures(diagnosis: Diagnosis) -> list[tuple[str, Markup]]:
    """Strength, familiarity and the other cosines, of train, test and each OOD set."""
    told: list[tuple[str, str, Histogram]] = [
        ("Strength", "norm of the features", diagnosis.strength),
        ("Familiarity", "largest cosine to a class", diagnosis.familiarity),
        ("Other classes", "cosine to the other classes", diagnosis.other_cosines),
    ]
    names = list(diagnosis.ood)
    return [
        (title, histogram_rows(found_.edges, set_rows(found_, names), axis, f"Histograms of {axis} by set"))
        for title, axis, found_ in told
    ]
