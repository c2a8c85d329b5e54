"""Judged networks made of known numbers, for golden tests of tables and figures."""

from types import SimpleNamespace
from typing import Any

from softscope.metrics import Interval
from softscope.paper.experiments.judgement import Judged

#: by OOD set: plain-max, plain-entropy, entropy, cool, density; a part of each cause, all different
SCORES = ("plain-max", "plain-entropy", "entropy", "cool", "density")


def interval(percent: float) -> Interval:
    return Interval(percent / 100, percent / 100 - 0.01, percent / 100 + 0.01)


def network(
    learned: str,
    aurocs: dict[str, dict[str, float]],
    *,
    seed: int = 0,
    accuracy: float = 90.0,
    mental: dict[str, Any] | None = None,
    parts: dict[str, float] | None = None,
    equal_share: float = 0.0,
    densities: dict[str, dict[str, float]] | None = None,
) -> Judged:
    """A network that learned `learned`, with AUROCs in percent by OOD set and score; classes: 5."""
    known = {"extrapolation_proper": 0.0, "ambiguity": 0.0, "misfit": 0.0, "overlap_proper": 0.0, "ceiling": 99.0}
    causes = {}
    for ood, area in aurocs.items():
        b, e, c, d = (area[name] for name in SCORES[1:])
        own = {"rounding": e - b, "temperature": c - e, "saturation": c - b, "extrapolation": d - c, "overlap": 100 - d}
        fields = {"entropy": b, "cool": c, "density": d, **own, **known, **(parts or {})}
        causes[ood] = SimpleNamespace(**{name: interval(value) for name, value in fields.items()})
    names = {name for area in aurocs.values() for name in area}
    means = {name: sum(area[name] for area in aurocs.values()) / len(aurocs) for name in names}
    fields = {name for own in causes.values() for name in vars(own)}
    mean_causes = {
        name: interval(100 * sum(getattr(own, name).value for own in causes.values()) / len(causes)) for name in fields
    }
    diagnosis = SimpleNamespace(
        ood={ood: SimpleNamespace(rows=10) for ood in aurocs},
        test=SimpleNamespace(rows=20),
        scores={
            ood: {name: SimpleNamespace(auroc=interval(value)) for name, value in area.items()}
            for ood, area in aurocs.items()
        },
        mean_scores={name: SimpleNamespace(auroc=interval(value)) for name, value in means.items()},
        causes=causes,
        mean_causes=SimpleNamespace(**mean_causes),
        estimators={name: SimpleNamespace(symbol=f"symbol of {name}") for name in names},
    )
    plan = SimpleNamespace(
        data=SimpleNamespace(name=learned), training=SimpleNamespace(seed=seed, epochs=7), net="resnet18"
    )
    evidence = {"T19": {"spearman": 0.9}, "T24": {"equal_share": equal_share}}
    record = {
        "facts": {"classes": 5, "images": 1200, "subsets": [], "training": 60.0, "seconds": 90.0},
        "numbers": {
            "accuracy": accuracy,
            "claims": dict.fromkeys(aurocs, evidence),
            "mental": mental,
            "densities": densities or {},
        },
        "course": [],
    }
    stored: Any = SimpleNamespace(plan=plan, head=SimpleNamespace(n_classes=5), train=range(1200), test=range(300))
    judged = Judged(stored.plan, record, stored)
    judged.__dict__["diagnosis"] = diagnosis
    return judged


def area(
    plain_max: float, plain_entropy: float, cool: float, density: float, rounding: float = 0.0
) -> dict[str, float]:
    values = (plain_max, plain_entropy, plain_entropy + rounding, cool, density)
    return dict(zip(SCORES, values))
