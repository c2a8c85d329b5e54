"""The decision boundary structure beside the optimal one (X3, T12) and beside heads that were never trained."""

import tomllib
from collections.abc import Callable
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..estimators import Estimator, each_chunk
from ..features import FeatureSet
from ..geometry import StructureReport, TrainingView, region_sizes, structure_report
from ..head import Head
from ..metrics import Interval
from ..mixture import RANK_TOLERANCE, ClassMoments
from .model import Histogram, Structure, StructureFigure
from .sets import COSINE_EDGES, Observed

ROOM_SAMPLES = 5_000
# Heads drawn at random: few where a single one is large.
_RANDOM_HEADS, _RANDOM_COST = (4, 100), 1e9

_MEANINGS = tomllib.loads(files(__package__).joinpath("structure.toml").read_text("utf-8"))


def find_structure(
    head: Head, train: Observed, moments: ClassMoments, nearest: NDArray[np.int64], density: Estimator, seed: int
) -> Structure:
    """Every figure of the head and of the class means, and the room it leaves for OOD inputs.

    `nearest` are the `nearest_means` of the training features, `density` is fitted to them.
    """
    report = structure_report(head)
    random = _random_heads(head, seed)
    pairs = np.triu_indices(head.n_classes, 1)
    view = TrainingView(train.odds, train.values["entropy"], train.norms, moments.mean, moments.total_root)
    sizes = region_sizes(head, train.features, density=density, samples=ROOM_SAMPLES, seed=seed, seen=view)
    return Structure(
        classes=head.n_classes,
        features=head.n_features,
        optimal_cosine=report.optimal_cosine,
        weight_norms=tuple(head.weight_norms.tolist()),
        biases=tuple(head.bias.tolist()),
        cosines=Histogram(
            tuple(COSINE_EDGES.tolist()),
            {"head": _binned([head.class_cosines[pairs]]), "random": _binned([r.class_cosines[pairs] for r in random])},
        ),
        figures=(
            *_head_figures(head, report, moments, random),
            *_mean_figures(moments, float((nearest == train.predicted).mean())),
        ),
        room={
            "ball": {name: share.value for name, share in sizes.ball.items()},
            "gaussian": {name: share.value for name, share in sizes.gaussian.items()},
        },
    )


def _head_figures(
    head: Head, report: StructureReport, moments: ClassMoments, random: list[Head]
) -> list[StructureFigure]:
    cosine = report.optimal_cosine
    reports = [structure_report(one) for one in random]
    readings: dict[str, tuple[Callable[[StructureReport], float | None], float]] = {
        "norm spread": (lambda own: own.norms.std / own.norms.mean if own.norms.mean > 0 else 0.0, 0.0),
        "bias share": (lambda own: own.bias_to_norm, 0.0),
        "cosine": (lambda own: own.cosines.mean, cosine),
        "cosine spread": (lambda own: own.cosines.std, 0.0),
        "distance": (lambda own: own.distance, 0.0),
        "centred distance": (lambda own: own.centred_distance, 0.0),
    }
    figures = []
    for name, (read, optimal) in readings.items():
        value = read(report)
        if value is not None:
            drawn = [value for value in map(read, reports) if value is not None]
            figures.append(StructureFigure(name, _MEANINGS[name], value, optimal, _spread(drawn)))
    aligned = _spread([_alignment(one, moments) for one in random])
    figures.append(StructureFigure("alignment", _MEANINGS["alignment"], _alignment(head, moments), 1.0, aligned))
    return figures


def _mean_figures(moments: ClassMoments, agreement: float) -> list[StructureFigure]:
    present = moments.counts > 0
    steps = _centred(moments.means[present])
    norms = np.linalg.norm(steps, axis=1)
    directions = steps / np.where(norms > 0, norms, 1.0)[:, None]
    cosines = (directions @ directions.T)[np.triu_indices(len(steps), 1)]
    values = {
        "mean norm spread": (float(norms.std() / norms.mean()) if norms.mean() > 0 else 0.0, 0.0),
        "mean cosine": (float(cosines.mean()), -1.0 / (len(steps) - 1)),
        "collapse": (_collapse(moments), 0.0),
        "nearest mean": (agreement, 1.0),
    }
    return [StructureFigure(name, _MEANINGS[name], value, best, None) for name, (value, best) in values.items()]


def _alignment(head: Head, moments: ClassMoments) -> float:
    present = moments.counts > 0
    weights, means = _centred(head.weight[present].astype(np.float64)), _centred(moments.means[present])
    scale = np.linalg.norm(weights, axis=1) * np.linalg.norm(means, axis=1)
    return float((np.einsum("kh,kh->k", weights, means) / np.where(scale > 0, scale, 1.0)).mean())


def _collapse(moments: ClassMoments) -> float:
    """trace(S_within S_between^+) / K, on the at most K - 1 directions in which class means differ."""
    steps = (moments.means - moments.mean) * np.sqrt(moments.counts / moments.counts.sum())[:, None]
    _, sizes, directions = np.linalg.svd(steps, full_matrices=False)
    kept = sizes**2 > RANK_TOLERANCE * sizes[0] ** 2
    within = np.einsum("rh,hg,rg->r", directions[kept], moments.tied_covariance, directions[kept], optimize=True)
    return float((within / sizes[kept] ** 2).sum() / (moments.counts > 0).sum())


def nearest_means(features: FeatureSet, moments: ClassMoments) -> NDArray[np.int64]:
    """The class whose mean is nearest to each row."""
    present = np.flatnonzero(moments.counts > 0)
    means = moments.means[present]
    half = 0.5 * np.einsum("kh,kh->k", means, means)
    out = np.empty(len(features), np.int64)
    for span, rows in each_chunk(features):
        out[span] = present[(rows @ means.T - half).argmax(axis=1)]
    return out


def _random_heads(head: Head, seed: int) -> list[Head]:
    """Heads as a network starts with: weights and bias uniform in +-1/sqrt(H)."""
    rng = np.random.default_rng([seed, 4])
    least, most = _RANDOM_HEADS
    count = int(np.clip(_RANDOM_COST / (head.n_classes**2 * head.n_features), least, most))
    bound = head.n_features**-0.5
    return [
        Head(rng.uniform(-bound, bound, head.weight.shape), rng.uniform(-bound, bound, head.n_classes))
        for _ in range(count)
    ]


def _spread(values: list[float]) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    mean = float(np.mean(values))
    return Interval(mean, min(mean, float(low)), max(mean, float(high)))


def _binned(cosines: list[Floats]) -> tuple[int, ...]:
    return tuple(np.histogram(np.concatenate(cosines), COSINE_EDGES)[0].tolist())


def _centred(rows: Floats) -> Floats:
    centred: Floats = rows - rows.mean(axis=0)
    return centred
