"""X6 (fig_noise): does a network, bombarded with inputs drawn uniformly, call those certain that look like digits?

A small network learns digits as 9x9 bits; then 2^27 inputs are drawn, and the five most confident of each class shown.
Past the paper: how alike finds and training data are, measured, with a permutation test; where real digits rank among
noise; the same with fewer convolutions; and how far a climb by bit flips gets beyond what drawing finds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...engine import Engine
from ...estimators.softmax import entropy, log_odds
from ...images import binarise9
from ...progress import bar
from ...provenance import cores
from ...runs import Draft, Store
from ..filter import (
    QUANTITIES,
    Climbed,
    Folded,
    Match,
    Range,
    ScanStatistics,
    climb,
    edges,
    exact_binomial,
    log_odds_of,
    nearest_distances,
    permutation_test,
    scan_in_store,
    scanned,
    template_correlations,
    told,
)
from ..filter import inputs as bits_of
from ..training import TrainSettings
from . import texts
from .base import Result, Settings
from .networks import Images, wall_time
from .verdict import Row, rows_of

LEVELS = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class Digits:
    """Bits [N, 9, 9], labels, and the names of the classes."""

    bits: NDArray[np.uint8]
    labels: NDArray[np.int64]
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FilterSettings(Settings):
    """`inputs` drawn for the network of each of `depths`, the number of convolutions; the first is the paper's."""

    data: Images = field(default_factory=lambda: Images("mnist"))
    inputs: int = 1 << 27
    depths: tuple[int, ...] = (3, 2, 1)
    epochs: int = 15
    batch: int = 128
    top: int = 5
    permutations: int = 9999
    threads: int = 2


SCALES = {
    "smoke": FilterSettings(
        data=Images("digits"), inputs=1 << 18, depths=(3, 1), epochs=6, batch=16, threads=1, permutations=999
    ),
    "laptop": FilterSettings(data=Images("mnist", train=20_000), inputs=1 << 24, epochs=5),
    "paper": FilterSettings(),
}


@dataclass(frozen=True, kw_only=True)
class BinaryPlan:
    """All that determines a trained FilterNet; the seed of `training` also draws the first weights."""

    data: Images
    conv_layers: int
    training: TrainSettings


def digits(data: Images, split: str) -> Digits:
    """The images of `split` downsampled and binarised (`data.binarise9`)."""
    images = data.load(split)
    return Digits(binarise9(images.images)[..., 0], np.asarray(images.labels), tuple(map(str, images.class_names)))


def _train(plan: BinaryPlan, draft: Draft) -> None:
    """`model.safetensors` and, as numbers, the accuracy on the test split."""
    from ..nets import build, save_model
    from ..training import evaluate, train

    known, test = digits(plan.data, "train"), digits(plan.data, "test")
    net = build("filter", seed=plan.training.seed, classes=len(known.names), conv_layers=plan.conv_layers)
    train(net, known.bits[..., None], known.labels, plan.training, checkpoint_dir=draft.scratch)
    tested = evaluate(net, test.bits[..., None], test.labels)
    save_model(net, draft.path("model.safetensors"), classes=known.names, dataset=plan.data.dataset)
    draft.json({"accuracy": tested.accuracy, "rows": len(test.labels)})


@dataclass(frozen=True)
class Scan:
    """One network's scan and what was measured on it; `seconds` of its training and of its scan."""

    depth: int
    accuracy: float
    network: Folded
    statistics: ScanStatistics
    finds: NDArray[np.uint8]
    templates: Match
    nearest: Match
    seconds: tuple[float, float]

    @property
    def wanted(self) -> NDArray[np.int64]:
        """The class of each find, in the order of `words`."""
        return np.nonzero(self.statistics.odds > -np.inf)[0]

    @property
    def words(self) -> bits_of.Words:
        """All finds as words."""
        return bits_of.pack(self.finds[self.statistics.odds > -np.inf])


def run(settings: FilterSettings, store: Store, engine: Engine) -> Result:
    """Train, scan, measure and climb, for each depth and run."""
    known, test = digits(settings.data, "train"), digits(settings.data, "test")
    every = [[_scan(own, depth, known, store, engine) for depth in own.depths] for own in settings.single_runs()]
    climbs = [climb(scans[0].network, scans[0].words, scans[0].wanted) for scans in every]
    logits = [scans[0].network.evaluate(test.bits) for scans in every]
    first = every[0]
    timings = {
        f"{what}_seconds": sum(s.seconds[i] for own in every for s in own)
        for i, what in enumerate(("training", "scan"))
    }
    return Result(
        rows=_rows(every, climbs, [-log_odds(own) for own, _ in logits]),
        figures=figures(first, climbs[0], known, test, *logits[0]),
        tables=tables(first, climbs[0]),
        **texts(
            "X6", inputs=settings.inputs, permutations=settings.permutations, least=1 / (settings.permutations + 1)
        ),
        subsets=[]
        if settings.data.train is None
        else [f"{settings.data.dataset}: {settings.data.train:,} training images"],
        seconds=sum(timings.values()),
        timings=timings | {"inputs_per_second": settings.runs * len(first) * settings.inputs / timings["scan_seconds"]},
    )


def _scan(settings: FilterSettings, depth: int, known: Digits, store: Store, engine: Engine) -> Scan:
    from ..nets import load_model

    plan = BinaryPlan(data=settings.data, conv_layers=depth, training=settings.training())
    home = store.run(plan)
    files = {split: plan.data.digests(split) for split in ("train", "test")}
    fit = home.step("train", partial(_train, plan), inputs={"images": files})
    network = scanned(load_model(fit.path("model.safetensors")).net)
    assert isinstance(network, Folded)
    what = Range(settings.seed, 0, settings.inputs, settings.top)
    with bar(show=engine.progress) as progress:
        watch = told(progress, settings.inputs)
        statistics, seconds = scan_in_store(home, network, what, engine, threads=cores(), watch=watch)
    finds = bits_of.images(settings.seed, statistics.numbers, network.shape)
    templates, nearest = _resemblance(settings, statistics, finds, known)
    spent = wall_time(fit), seconds
    return Scan(depth, fit.json()["accuracy"], network, statistics, finds, templates, nearest, spent)


def _resemblance(
    settings: FilterSettings, statistics: ScanStatistics, finds: NDArray, known: Digits
) -> tuple[Match, Match]:
    """How well finds match their own class: correlation with its mean image, distance to its nearest image."""
    real = statistics.odds > -np.inf
    wanted = np.nonzero(real)[0]
    alike = template_correlations(finds[real], known.bits, known.labels, statistics.classes)
    away = nearest_distances(bits_of.pack(finds[real]), bits_of.pack(known.bits), known.labels, statistics.classes)
    tests = (alike, -away.astype(np.float64))
    one, other = (permutation_test(match, wanted, settings.permutations, settings.seed) for match in tests)
    return one, other


def _rows(every: list[list[Scan]], climbs: list[Climbed], real: list[Floats]) -> list[Row]:
    """Of the first depth in each run, the paper's; `real` are the log-odds of test digits. Then depth by depth."""
    first = [scans[0] for scans in every]
    rows = rows_of("X6", {"accuracy": [100 * s.accuracy for s in first]})
    for level in LEVELS:
        rows += rows_of("X6", {"share": _per_million(first, [log_odds_of(level)] * len(first))}, level=level)
    best = [float(s.statistics.odds.max()) for s in first]
    middle = [float(np.median(odds)) for odds in real]
    ours = {"best": best, "middle": middle, "above": _per_million(first, middle)}
    ours["beyond"] = [100 * float((odds > b).mean()) for odds, b in zip(real, best)]
    rows += rows_of("X6", ours | {"climbed": [c.odds.max() for c in climbs]})
    for i, scan in enumerate(every[0]):
        rows += _depth_rows(scan.depth, [scans[i] for scans in every], stated=i == 0)
    return rows


def _per_million(scans: list[Scan], odds: list[float]) -> list[float]:
    """Of a million inputs drawn, those with larger log-odds."""
    return [1e6 * scan.statistics.share_above(limit).value for scan, limit in zip(scans, odds)]


def _depth_rows(depth: int, scans: list[Scan], stated: bool) -> list[Row]:
    """How alike finds and training data are, for networks of one depth; the paper speaks of the deepest."""
    ours: dict[str, list[float]] = {}
    if not stated:
        ours["depth_accuracy"] = [100 * s.accuracy for s in scans]
        ours["depth_share"] = _per_million(scans, [log_odds_of(0.99)] * len(scans))
    # What is nearest has the smallest distance: its match is the distance with a minus.
    for match, sign in (("templates", 1), ("nearest", -1)):
        own: list[Match] = [getattr(scan, match) for scan in scans]
        ours |= {f"{match}_{name}": [sign * getattr(one, name) for one in own] for name in ("own", "dealt")}
        ours[f"{match}_p_value"] = [one.p_value for one in own]
    return rows_of("X6", ours, {} if stated else {"templates_p_value": None}, depth=depth)


def tables(scans: "Sequence[Scan]", climbed: Climbed) -> dict[str, list[dict[str, Any]]]:
    """Shares above confidences with exact intervals, quantiles, the finds with their numbers, and the climbs."""
    every = [_tables(scan.statistics) for scan in scans]
    depths = {
        name: [{"conv_layers": scan.depth, **line} for scan, own in zip(scans, every) for line in own[name]]
        for name in every[0]
    }
    columns = (scans[0].wanted, scans[0].words, climbed.words, climbed.odds, climbed.steps)
    climbs = [
        dict(zip(("predicted", "from_word", "to_word", "log_odds", "steps"), line))
        for line in zip(*(column.tolist() for column in columns))
    ]
    return {**depths, "climbs": climbs}


def _tables(statistics: ScanStatistics) -> dict[str, list[dict[str, Any]]]:
    """Those of a single network."""
    quantiles = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 0.9999, 1.0)
    best = [float(odds) if np.isfinite(odds) else None for odds in statistics.odds[:, 0]]
    shares = [exact_binomial(int(count), statistics.inputs).to_dict() for count in statistics.predicted]
    return {
        "shares": [
            {"confidence": level, "share": statistics.share_above(log_odds_of(level)).to_dict()} for level in LEVELS
        ],
        "classes": [
            {"predicted": k, "share": share, "best_log_odds": odds} for k, (share, odds) in enumerate(zip(shares, best))
        ],
        "quantiles": [
            {"quantity": quantity, **{f"{at:g}": statistics.quantile(quantity, at).value for at in quantiles}}
            for quantity in QUANTITIES
        ],
        "finds": [
            {"predicted": k, "number": int(statistics.numbers[k, i]), "log_odds": float(statistics.odds[k, i])}
            for k, i in np.argwhere(statistics.odds > -np.inf).tolist()
        ],
    }


def figures(
    scans: "Sequence[Scan]", climbed: Climbed, known: Digits, test: Digits, logits: NDArray, norms: NDArray
) -> dict[str, Any]:
    """The finds (fig_noise), the gallery, and noise beside digits; of one run, deepest network first."""
    from ..plots.filter import finds_figure, gallery_figure, noise_and_digits

    statistics = scans[0].statistics
    drawn = f"{statistics.inputs:,} inputs drawn uniformly"
    noise = {q: (edges(q, statistics.classes), statistics.histogram(q) / statistics.inputs) for q in QUANTITIES}
    return {
        "finds": finds_figure(scans[0].finds, statistics.odds, known.names, f"Most confident of {drawn}", visible=8),
        "gallery": gallery_figure(_gallery(scans, climbed, known), known.names),
        "noise_and_digits": noise_and_digits(
            noise, _digit_quantities(scans[0], logits, norms), float(statistics.odds.max()), f"{drawn}, and test digits"
        ),
    }


def _gallery(scans: "Sequence[Scan]", climbed: Climbed, known: Digits) -> dict[str, NDArray]:
    classes = range(len(known.names))
    rows = {"class mean": np.stack([known.bits[known.labels == k].mean(axis=0) for k in classes])}
    rows["nearest digit\nto the best find"] = np.stack([_nearest(known, k, scans[0].finds[k, 0]) for k in classes])
    for scan in scans:
        rows[f"best find,\n{scan.depth} conv layers"] = scan.finds[:, 0].astype(np.float64)
    ends = np.zeros((len(known.names), 9, 9))
    for k in np.unique(scans[0].wanted):
        own = np.flatnonzero(scans[0].wanted == k)
        ends[k, :8, :8] = bits_of.unpack(climbed.words[own[[climbed.odds[own].argmax()]]])[0]
    rows["best climb"] = ends
    return rows


def _nearest(known: Digits, k: int, find: NDArray) -> NDArray:
    own = known.bits[known.labels == k]
    away = np.bitwise_count(bits_of.pack(own) ^ bits_of.pack(find[None])[0])
    return np.asarray(own[int(away.argmin())], dtype=np.float64)


def _digit_quantities(scan: "Scan", logits: NDArray, norms: NDArray) -> dict[str, Floats]:
    """The four quantities of the statistics, of real digits."""
    weight = np.linalg.norm(scan.network.weight, axis=1)
    cosines = (logits - scan.network.bias) / weight / np.maximum(norms, 1e-30)[:, None]
    return {
        "log_odds": -log_odds(logits),
        "entropy": np.asarray(entropy(logits), dtype=np.float64),
        "norm": norms.astype(np.float64),
        "cosine": cosines.max(axis=1).astype(np.float64),
    }
