"""X6 (fig_noise): does a network, bombarded with inputs drawn uniformly, call those certain that look like digits?

A small network learns digits as 9x9 bits; then 2^27 inputs are drawn, and the five most confident of each class shown.
Past the paper: how alike finds and training data are, measured, with a permutation test; where real digits rank among
noise; the same with fewer convolutions; and how far a climb by bit flips gets beyond what drawing finds.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...engine import Engine
from ...images import binarise9
from ...progress import bar
from ...provenance import cores
from ...runs import Draft, Run, StepResult, Store
from ..filter import (
    Climbed,
    Folded,
    Match,
    Range,
    Statistics,
    climb,
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
from .base import Result, Settings
from .networks import Images
from .verdict import Mean, Row, Statement
from .x06_report import Digits, figures, tables

LEVELS = (0.5, 0.9, 0.99, 0.999)
_SIGNIFICANT = 0.01
_SHAPE = (9, 9)


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


def trained_filter(store: Store, plan: BinaryPlan) -> tuple[Run, StepResult]:
    """The run of `plan` and its step with `model.safetensors` and, as numbers, the accuracy on the test split."""
    run = store.run(plan)
    files = {split: plan.data.digests(split) for split in ("train", "test")}
    return run, run.step("train", partial(_train, plan), inputs={"images": files})


def _train(plan: BinaryPlan, draft: Draft) -> None:
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
    statistics: Statistics
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
    rows = _rows(every, climbs, [_digit_odds(own) for own, _ in logits])
    first = every[0]
    timings = {
        f"{what}_seconds": sum(s.seconds[i] for own in every for s in own)
        for i, what in enumerate(("training", "scan"))
    }
    return Result(
        rows=rows,
        figures=figures(first, climbs[0], known, test, *logits[0]),
        captions=_CAPTIONS,
        tables=tables(first, climbs[0], LEVELS),
        notes=_notes(settings),
        subsets=[]
        if settings.data.train is None
        else [f"{settings.data.dataset}: {settings.data.train:,} training images"],
        seconds=sum(timings.values()),
        timings=timings | {"inputs_per_second": settings.runs * len(first) * settings.inputs / timings["scan_seconds"]},
    )


_CAPTIONS = {
    "finds": "The most confident of the inputs drawn uniformly, a column a class, best first, with their confidence. "
    "The last row and column, drawn faint, never reach the network's output.",
    "gallery": "Row by row: the mean training image of each class, the training image nearest to the best find, the "
    "best find of networks with fewer convolutions, and where climbing by bit flips leads from the best find.",
    "noise_and_digits": "Share of uniform noise and of real test digits by confidence, entropy, norm(z) and max cos.",
}


def _scan(settings: FilterSettings, depth: int, known: Digits, store: Store, engine: Engine) -> Scan:
    from ..nets import load_model

    training = TrainSettings(
        epochs=settings.epochs, batch=settings.batch, seed=settings.seed, threads=settings.threads, precision="float32"
    )
    plan = BinaryPlan(data=settings.data, conv_layers=depth, training=training)
    home, fit = trained_filter(store, plan)
    network = scanned(load_model(fit.path("model.safetensors")).net)
    assert isinstance(network, Folded)
    what = Range(settings.seed, 0, settings.inputs, settings.top)
    with bar(show=engine.progress) as progress:
        watch = told(progress, settings.inputs)
        statistics, seconds = scan_in_store(home, network, what, engine, threads=cores(), watch=watch)
    finds = bits_of.images(settings.seed, statistics.numbers.ravel(), _SHAPE).reshape(
        *statistics.numbers.shape, *_SHAPE
    )
    templates, nearest = _resemblance(settings, statistics, finds, known)
    spent = float(fit.provenance.get("seconds", 0.0)), seconds
    return Scan(depth, fit.json()["accuracy"], network, statistics, finds, templates, nearest, spent)


def _resemblance(
    settings: FilterSettings, statistics: Statistics, finds: NDArray, known: Digits
) -> tuple[Match, Match]:
    """How well finds match their own class: correlation with its mean image, distance to its nearest image."""
    real = statistics.odds > -np.inf
    wanted = np.nonzero(real)[0]
    alike = template_correlations(finds[real], known.bits, known.labels, statistics.classes)
    away = nearest_distances(bits_of.pack(finds[real]), bits_of.pack(known.bits), known.labels, statistics.classes)
    tests = (alike, -away.astype(np.float64))
    one, other = (permutation_test(match, wanted, settings.permutations, settings.seed) for match in tests)
    return one, other


def _digit_odds(logits: NDArray) -> Floats:
    from ...estimators.softmax import log_odds

    return -log_odds(logits)


def _rows(every: list[list[Scan]], climbs: list[Climbed], real: list[Floats]) -> list[Row]:
    first = [scans[0] for scans in every]
    rows = [Row("accuracy on test digits", Mean.of([100 * s.accuracy for s in first]), unit="%")]
    for level in LEVELS:
        shares = [1e6 * s.statistics.share_above(log_odds_of(level)).value for s in first]
        rows.append(Row(f"inputs with confidence above {level:g}", Mean.of(shares), unit="per million", digits=2))
    best = [float(s.statistics.odds.max()) for s in first]
    rows.append(Row("log-odds of the most confident input drawn", Mean.of(best), digits=2))
    middle = [float(np.median(odds)) for odds in real]
    above = [1e6 * s.statistics.share_above(m).value for s, m in zip(first, middle)]
    rows.append(Row("log-odds of the median test digit", Mean.of(middle), digits=2))
    rows.append(Row("noise above the median test digit", Mean.of(above), unit="per million", digits=3))
    beyond = [100 * float((odds > b).mean()) for odds, b in zip(real, best)]
    rows.append(Row("test digits above the most confident noise", Mean.of(beyond), unit="%"))
    rows.append(Row("log-odds where climbing ends, best", Mean.of([c.odds.max() for c in climbs]), digits=2))
    for i, scan in enumerate(every[0]):
        rows += _depth_rows(scan.depth, [scans[i] for scans in every], stated=i == 0)
    return rows


def _depth_rows(depth: int, scans: list[Scan], stated: bool) -> list[Row]:
    """How alike finds and training data are, for networks of one depth; the paper speaks of the deepest."""
    name = f"{depth} conv layers: "
    words = Statement("finds contain features of the training data", most=_SIGNIFICANT)
    one = [Row(f"{name}accuracy on test digits", Mean.of([100 * s.accuracy for s in scans]), unit="%")]
    share = [1e6 * s.statistics.share_above(log_odds_of(0.99)).value for s in scans]
    one.append(Row(f"{name}inputs with confidence above 0.99", Mean.of(share), unit="per million", digits=2))
    return ([] if stated else one) + [
        Row(f"{name}correlation with own class's mean image", Mean.of([s.templates.own for s in scans]), digits=3),
        Row(f"{name}with classes dealt at random", Mean.of([s.templates.dealt for s in scans]), digits=3),
        Row(
            f"{name}p-value of the difference",
            Mean.of([s.templates.p_value for s in scans]),
            words if stated else None,
            digits=4,
        ),
        Row(f"{name}pixels to own class's nearest digit", Mean.of([-s.nearest.own for s in scans]), digits=2),
        Row(f"{name}pixels with classes dealt at random", Mean.of([-s.nearest.dealt for s in scans]), digits=2),
        Row(f"{name}p-value of that difference", Mean.of([s.nearest.p_value for s in scans]), digits=4),
    ]


def _notes(settings: FilterSettings) -> list[str]:
    return [
        f"{settings.inputs:,} inputs drawn uniformly from {{0,1}}^81 for each network. The last row and column of the "
        "9x9 pixels never reach the output (valid convolutions, pooling that drops the fifth row and column): the "
        "paper's 2^81 inputs are 2^64 as far as the network can tell, and all numbers of pixels here are of these 64.",
        "The paper states neither how digits were binarised nor the optimiser: ours are the mean of each pixel's area "
        "at least 0.3, and Adam at 1e-3 with batches of 128 (smoke: 16).",
        f"p-values: {settings.permutations:,} permutations of the classes among the finds, one-sided; p can't be below "
        f"{1 / (settings.permutations + 1):g}.",
        "Climbing starts at every find and takes the best flip of one or two pixels until none helps: a lower bound of "
        "the largest confidence that exists.",
    ]
