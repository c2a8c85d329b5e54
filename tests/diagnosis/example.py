"""A small real diagnosis from synthetic features, in a few seconds: for tests here and of the report.

Run as `python tests/diagnosis/example.py OUT.json` to look at one.
"""

import sys
from functools import cache

import numpy as np

from softscope.diagnosis import Diagnosis, diagnose
from softscope.features import FeatureSet
from softscope.geometry import optimal_structure
from softscope.head import Head

CLASSES = ("cat", "dog", "hen", "<script>alert(1)</script>")
FEATURES = 16


def example_head() -> Head:
    """Four classes, one with a hostile name, at the corners of a simplex, with a small bias."""
    head = optimal_structure(4, FEATURES, norm=3.0, seed=1)
    return Head(head.weight.astype(np.float32), [0.1, -0.1, 0.05, 0.0], CLASSES)


def class_features(rows: int, seed: int, spread: float = 0.25, name: str = "features") -> FeatureSet:
    """Rows around the class weights, as a trained network's features lie; 6 % lie between two classes, half wrongly."""
    rng = np.random.default_rng(seed)
    labels, others = rng.integers(0, 4, (2, rows))
    means = 0.7 * example_head().weight
    share = np.where(rng.random(rows) < 0.06, rng.uniform(0.3, 0.7, rows), 0.0)[:, None]
    z = (1 - share) * means[labels] + share * means[others] + spread * rng.standard_normal((rows, FEATURES))
    return FeatureSet(z.astype(np.float32), labels, name=name)


def ood_features(kind: str, rows: int, seed: int) -> FeatureSet:
    """Three ways to be OOD: `weak` features near the origin, `far` beyond a class, `overlap` among the classes."""
    rng = np.random.default_rng(seed)
    if kind == "weak":
        z = 0.5 * rng.standard_normal((rows, FEATURES))
    elif kind == "far":
        z = example_head().weight[0] + 0.3 * rng.standard_normal((rows, FEATURES))
    else:
        z = class_features(rows, seed + 1, spread=0.27).array()
    return FeatureSet(z.astype(np.float32), name=kind)


@cache
def example(rows: int = 600, bootstraps: int = 100) -> Diagnosis:
    """Head, training, test and three OOD sets, one with a hostile name, diagnosed."""
    ood = {kind: ood_features(kind, rows, 10 + place) for place, kind in enumerate(("weak", "far", "overlap"))}
    ood["<b>overlap</b> & co"] = ood.pop("overlap")
    return diagnose(
        example_head(),
        class_features(2 * rows, 1, name="train"),
        class_features(rows, 2, name="test"),
        ood,
        bootstraps=bootstraps,
    )


if __name__ == "__main__":
    example().save(sys.argv[1])
