"""The page's pictures that stand alone: ROC curves, the map of the final layer, its structure, strength."""

from dataclasses import dataclass

from markupsafe import Markup

from ..diagnosis.model import Diagnosis, Histogram
from .charts import Row, histogram_rows, roc, set_rows
from .layer_map import final_layer_map


@dataclass(frozen=True)
class Curves:
    """ROC curves by OOD set; `legend` has the number of each line and its estimator's symbol."""

    legend: list[tuple[int, str]]
    pictures: dict[str, Markup]


def curve_pictures(diagnosis: Diagnosis) -> Curves:
    """One picture an OOD set."""
    symbols = {name: label.symbol for name, label in diagnosis.estimators.items()}
    pictures = {}
    for name, curves in diagnosis.curves.items():
        aurocs = {key: diagnosis.scores[name][key].auroc.value for key in curves}
        pictures[name] = roc(name, curves, symbols, aurocs)
    order = list(next(iter(diagnosis.curves.values()), {}))
    return Curves([(index % 8, symbols[key]) for index, key in enumerate(order)], pictures)


def layer_maps(diagnosis: Diagnosis) -> dict[str, Markup]:
    """One map for each OOD set."""
    return {
        name: final_layer_map(diagnosis.map, name, diagnosis.classes)
        for name in diagnosis.ood
        if name in diagnosis.map.points
    }


def structure_picture(diagnosis: Diagnosis) -> Markup:
    """Cosines between the weights of classes, beside random weights and the optimum."""
    structure = diagnosis.structure
    names = {"head": ("this network", "head"), "random": ("random weights of the same shape", "train")}
    rows = [Row(words, "", {kind: structure.cosines.counts[key]}) for key, (words, kind) in names.items()]
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
