"""AUROC with ties, its 95 % interval and the paired test, beside scikit-learn and the bootstrap."""

from collections.abc import Iterator

import numpy as np

from softscope.arrays import Floats
from softscope.metrics import auroc, auroc_difference

from .measuring import Cost, Row, measure, race

_BOOTSTRAPS, _MEASURED = 1000, 5


def run(quick: bool = False) -> Iterator[Row]:
    """10^6 + 10^6 scores (10^4 + 10^4 if quick) rounded to three decimals, so that nearly all are tied."""
    from sklearn.metrics import roc_auc_score

    exponent = 4 if quick else 6
    rows, size = 10**exponent, f"10^{exponent} + 10^{exponent} scores with ties"
    familiar, unfamiliar = _scores(rows)
    truth, scores = np.repeat([0, 1], rows), np.concatenate([familiar, unfamiliar])
    auroc(familiar, unfamiliar)  # numba compiles, or reads its cache, before the clock starts
    ours, area, theirs, expected = race(
        lambda: auroc(familiar, unfamiliar), lambda: float(roc_auc_score(truth, scores)), repeats=7
    )
    yield Row(
        f"AUROC, {size}",
        "scikit-learn's roc_auc_score",
        ours,
        theirs,
        target=5.0,
        same=abs(area.value - expected) < 1e-12,
        check=f"{area.value:.15f} and {expected:.15f}; our time includes the interval",
    )
    yield _interval_row(truth, scores, ours, f"95 % interval of AUROC, {size}")
    yield _paired_row(familiar, unfamiliar, f"paired test of two AUROCs, {size}")


def _interval_row(truth: Floats, scores: Floats, ours: Cost, work: str) -> Row:
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(1)

    def resample() -> float:
        drawn = generator.integers(0, truth.size, truth.size)
        return float(roc_auc_score(truth[drawn], scores[drawn]))

    one, _ = measure(resample, repeats=_MEASURED)
    theirs = Cost(one.wall * _BOOTSTRAPS, one.cpu * _BOOTSTRAPS)
    note = f"theirs = {_BOOTSTRAPS} x the best of {_MEASURED} resamples"
    return Row(work, f"{_BOOTSTRAPS} bootstraps of it", ours, theirs, limit=0.5, note=note)


def _paired_row(familiar: Floats, unfamiliar: Floats, work: str) -> Row:
    other = [side + np.random.default_rng(2).normal(0, 1, side.size).round(3) for side in (familiar, unfamiliar)]
    auroc_difference(familiar, unfamiliar, *other)
    ours, compared = measure(lambda: auroc_difference(familiar, unfamiliar, *other))
    note = f"difference {compared.difference:.4f}, p = {compared.p_value:.2g}"
    return Row(work, "no peer", ours, note=note)


def _scores(rows: int) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(0)
    return generator.normal(0.0, 1.0, rows).round(3), generator.normal(0.7, 1.0, rows).round(3)
