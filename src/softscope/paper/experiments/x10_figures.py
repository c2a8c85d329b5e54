"""The pictures of X10: causes and grids by kind of network, final layers, and the OOD images networks are sure of."""

from typing import TYPE_CHECKING

import numpy as np

from ...arrays import Floats
from .x09_paper import CAUSES
from .x09_rows import value
from .x10_paper import MEAN, TABLE
from .x10_plans import GREY, LAST, SCRATCH, TUNED
from .x10_rows import Found, Topics
from .x10_scores import Compared

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..plots.causes import CauseLine
    from ..plots.pretrained import Layer, Sure

PANELS = {
    "saturation": "1 saturation", "extrapolation": "2 extrapolation", "overlap": "3 overlap",
    "overlap_proper": "of 3: proper",
}  # fmt: skip
_SURE = 7  # images of each network


def figures(found: Found) -> "dict[str, Figure | bytes]":
    """By name, the experiment's own picture first."""
    from ..plots.causes import causes_beside
    from ..plots.grids import auroc_grids
    from ..plots.pretrained import few_colours, final_layers, surest

    topics = list(found[TUNED])
    kinds = {"fine-tuned": TUNED, "last layer": LAST, "scratch": SCRATCH}
    grids = {
        f"{title}, {kind}": _grid(found[name], score)
        for score, title in {"plain-entropy": "U_entropy", "density": "U_density"}.items()
        for kind, name in kinds.items()
    }
    layers = {kind: {topic: _layer(runs[0]) for topic, runs in found[name].items()} for kind, name in kinds.items()}
    return {
        "causes": causes_beside(PANELS, _cause_lines(found)),
        "grids": auroc_grids(topics, grids),
        "planes": few_colours(final_layers(layers)),
        "surest": few_colours(surest({topic: surest_of(runs[0]) for topic, runs in found[TUNED].items()})),
    }


def captions(found: Found, how: str) -> dict[str, str]:
    """What each picture shows, and of which networks."""
    return {
        "causes": "Points of AUROC lost to each cause, mean over the OOD sets, by data set (fine-tuned) and by kind of "
        "network (mean over the data sets); the last panel is what is left of cause 3 without the density's misfit, "
        f"100 less the ceiling. {how}",
        "grids": "AUROC of the network that learned a data set (rows) against every other (columns), balanced pairs, "
        f"mean over runs. {how}",
        "planes": "The final layer's first two principal components, first run: test inputs (dots) and all OOD sets "
        "(crosses), a sample of each; dark where U_entropy is high.",
        "surest": "The OOD images that each fine-tuned network is surest of, at most one a class, surest first: the "
        "class it was taken for and max_i s_i (first run).",
    }


def surest_of(own: Compared, count: int = _SURE) -> "list[Sure]":
    """Of each class the OOD image taken for it with most confidence; of these the `count` surest."""
    from ..plots.pretrained import Sure

    best: dict[int, tuple[float, str, int]] = {}
    for name, features in own.network.ood.items():
        logits = own.network.head.logits(features.array()).astype(np.float64)
        top = np.exp(logits.max(axis=1) - np.logaddexp.reduce(logits, axis=1))
        for row, (label, sure) in enumerate(zip(logits.argmax(axis=1).tolist(), top.tolist())):
            if sure > best.get(label, (0.0, "", 0))[0]:
                best[label] = (sure, name, row)
    chosen = sorted(best.items(), key=lambda item: -item[1][0])[:count]
    images = {ood.name: ood.load("test").images for ood in own.network.plan.ood}
    return [Sure(images[name][row], own.network.head.class_name(label), sure) for label, (sure, name, row) in chosen]


def _grid(topics: Topics, score: str) -> Floats:
    names = {runs[0].name: place for place, runs in enumerate(topics.values())}
    values = np.full((len(names), len(names)), np.nan)
    for row, runs in enumerate(topics.values()):
        for ood in runs[0].diagnosis.ood:
            values[row, names[ood]] = np.mean([own.auroc(score, ood) for own in runs])
    return values


def _layer(own: Compared) -> "Layer":
    from ..plots.pretrained import Layer

    ood = np.concatenate([features.array() for features in own.network.ood.values()])
    return Layer(own.network.head, own.network.test.array(), ood)


def _cause_lines(found: Found) -> "dict[str, CauseLine]":
    from ..plots.causes import CauseLine

    lines = {}
    for topic, runs in found[TUNED].items():
        paper = {part: TABLE[topic][part].value for part in CAUSES} if topic in TABLE else {}
        lines[topic] = CauseLine({part: [_part(own, part) for own in runs] for part in PANELS}, paper)
    known = {part: MEAN[part].value for part in CAUSES} if set(found[TUNED]) == set(TABLE) else {}
    for kind in (TUNED, LAST, GREY, SCRATCH):
        every = list(zip(*found[kind].values()))
        means = {part: [float(np.mean([_part(own, part) for own in run])) for run in every] for part in PANELS}
        lines[f"mean, {kind}"] = CauseLine(means, known if kind == TUNED else {})
    return lines


def _part(own: Compared, part: str) -> float:
    return value(own, part) if part in CAUSES else own.cause(part)
