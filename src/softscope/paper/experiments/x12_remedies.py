"""X12 (ours): a dial for each cause of failure, and what each remedy does about it.

LeNet on MNIST, Fashion-MNIST out. Each dial turns one cause and leaves the rest alone:

saturation     the logits are multiplied, so that float32 rounds more confidences to 1
extrapolation  the OOD inputs are magnified, so that they land farther out, where softmax is surer (T22)
ambiguity      training and test images are replaced by blends of two digits with the label of either
overlap        OOD features are replaced by those of held-out digits: no score can tell these, and the truth is known,
               since a share p of them leaves an AUROC of 1 - p / 2 at most

Then two questions: does a remedy help against its own cause only, and does `diagnose` name the cause that was turned?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...diagnosis import Diagnosis, diagnose
from ...engine import Engine
from ...estimators import estimator, scores
from ...estimators.softmax import entropy
from ...features import FeatureSet
from ...head import Head
from ...images import ImageSet
from ...runs import Draft, StepResult, Store
from . import texts
from .base import Result, Settings
from .judge import flagged, source, together
from .networks import Images, NetworkPlan, TrainedNetwork, subsets, trained, wall_time
from .verdict import Mean, Row, rows_of

#: dial -> the field of `Causes` that it turns.
DIALS = {
    "saturation": "rounding",
    "extrapolation": "extrapolation_proper",
    "ambiguity": "ambiguity",
    "overlap": "overlap_proper",
}
#: remedy -> the estimator, or reference, whose AUROC it brings in place of plain U_entropy.
REMEDIES = {"exact ranks": "entropy", "cooling": "cool", "density": "density", "any score": "ceiling"}
MNIST, FASHION = Images("mnist", train=1000, test=1000), Images("fashion_mnist", test=500)
# A cause below one point of AUROC explains nothing: then none is named.
_LEAST = 0.01


@dataclass(frozen=True)
class BlendedImages(Images):
    """A share `ambiguous` of the images is the mean of two of different classes, with the label of either."""

    ambiguous: float = 0.0

    @property
    def name(self) -> str:
        """As of the images, with the share of blends where there are any."""
        plain_name = Images(self.dataset, self.classes).name
        return f"{plain_name}-blended-{self.ambiguous:g}" if self.ambiguous else plain_name

    def load(self, split: str) -> ImageSet:
        """The rows of `split`, blended; which ones doesn't depend on the run's seed."""
        images = super().load(split)
        return blend(images, self.ambiguous, np.random.default_rng([7, split == "train"]))


def blend(images: ImageSet, share: float, rng: np.random.Generator) -> ImageSet:
    """Replace a share of the rows by the mean of the row and one of another class, labelled as one of the two."""
    count = round(share * len(images))
    rows = rng.choice(len(images), count, replace=False)
    partners = rng.integers(0, len(images), count)
    for _ in range(100):
        same = images.labels[partners] == images.labels[rows]
        partners[same] = rng.integers(0, len(images), int(same.sum()))
    pixels, labels = images.images.copy(), images.labels.copy()
    both = images.images[rows].astype(np.uint16) + images.images[partners].astype(np.uint16)
    pixels[rows] = (both // 2).astype(np.uint8)
    labels[rows] = np.where(rng.random(count) < 0.5, images.labels[rows], images.labels[partners])
    return replace(images, images=pixels, labels=labels)


@dataclass(frozen=True, kw_only=True)
class RemedySettings(Settings):
    """Positions of each dial, the first of them off. Half of `data`'s test rows are spare, for the dial of overlap."""

    data: Images = MNIST
    ood: Images = FASHION
    net: str = "lenet"
    features: int = 32
    epochs: int = 4
    batch: int = 16
    saturation: tuple[float, ...] = (1, 10, 100, 1000)
    extrapolation: tuple[float, ...] = (1, 2, 4, 8)
    ambiguity: tuple[float, ...] = (0, 0.2, 0.4, 0.6)
    overlap: tuple[float, ...] = (0, 0.2, 0.4, 0.6)
    bootstraps: int = 100

    def plans(self) -> list[NetworkPlan]:
        """One run's networks, one for each share of ambiguous images."""
        data = self.data
        sets = [BlendedImages(data.dataset, data.classes, data.train, data.test, share) for share in self.ambiguity]
        return [self.network(own, self.ood) for own in sets]


SCALES = {
    "smoke": RemedySettings(
        data=Images("digits", (0, 1, 2, 3, 4)),
        ood=Images("digits", (5, 6, 7, 8, 9)),
        net="small",
        epochs=6,
        saturation=(1, 1000),
        extrapolation=(1, 8),
        ambiguity=(0, 0.5),
        overlap=(0, 0.5),
        bootstraps=20,
        runs=2,
    ),
    "laptop": RemedySettings(runs=5),
    "paper": RemedySettings(data=Images("mnist"), ood=Images("fashion_mnist"), batch=128, bootstraps=1000, runs=5),
}

Readings = dict[str, list[dict[str, Any]]]
MeasuredRun = tuple[list[TrainedNetwork], Readings, float]


def run(settings: RemedySettings, store: Store, engine: Engine) -> Result:
    """Turn every dial in every run; tables of causes, of remedies, and of the causes named."""
    every: list[MeasuredRun] = engine.map(
        partial(_one_run, store), settings.single_runs(), threads=settings.threads, label="X12"
    )
    readings = [measured for _, measured, _ in every]
    alike = list(zip(*(networks for networks, _, _ in every)))
    return Result(
        rows=_rows(settings, readings),
        figures={"dials": _picture(settings, readings)},
        tables={
            "remedies": remedies(readings),
            "named": named(readings),
            "dials": [dict(reading) for measured in readings for dial in measured.values() for reading in dial],
            **_evidence(settings, alike, readings),
        },
        **texts("X12"),
        subsets=subsets([network for networks, _, _ in every for network in networks]),
        seconds=sum(sum(network.seconds for network in networks) + seconds for networks, _, seconds in every),
    )


def _one_run(store: Store, settings: RemedySettings) -> MeasuredRun:
    networks = [trained(store, plan) for plan in settings.plans()]
    known = {
        **{f"features {k}": network.made for k, network in enumerate(networks)},
        "dials": [getattr(settings, dial) for dial in DIALS],
        "bootstraps": settings.bootstraps,
        "source": source(turn, reading, _magnified),
    }
    step: StepResult = networks[0].run.step("dials", partial(_turn, settings, networks), inputs=known)
    return networks, step.json(), wall_time(step)


def _turn(settings: RemedySettings, networks: list[TrainedNetwork], draft: Draft) -> None:
    draft.json(turn(settings, networks))


def turn(settings: RemedySettings, networks: list[TrainedNetwork]) -> Readings:
    """One run's readings: dial -> one for each position."""
    clean = networks[0]
    head, ood = clean.head, clean.ood[settings.ood.name].array()
    half = len(clean.test) // 2
    test, spare = clean.test.part(slice(None, half)), clean.test.array()[half:]
    judge = partial(diagnose, bootstraps=settings.bootstraps, estimators=())
    sets: dict[str, NDArray] = {f"magnified {a:g}": _magnified(clean, settings.ood, a) for a in settings.extrapolation}
    sets |= {f"shared {p:g}": _shared(ood, spare, p) for p in settings.overlap}
    both = judge(head, clean.train, test, sets)
    out: Readings = {
        "extrapolation": [reading(both, f"magnified {a:g}", "extrapolation", a) for a in settings.extrapolation],
        "overlap": [reading(both, f"shared {p:g}", "overlap", p) for p in settings.overlap],
        "saturation": [],
        "ambiguity": [],
    }
    for factor in settings.saturation:
        louder = Head(factor * head.weight, factor * head.bias, classes=head.classes)
        out["saturation"].append(reading(judge(louder, clean.train, test, {"ood": ood}), "ood", "saturation", factor))
    for share, network in zip(settings.ambiguity, networks):
        own = network.test.part(slice(None, half))
        diagnosis = judge(network.head, network.train, own, {"ood": network.ood[settings.ood.name]})
        out["ambiguity"].append(reading(diagnosis, "ood", "ambiguity", share))
    return out


def reading(diagnosis: Diagnosis, ood: str, dial: str, position: float) -> dict[str, Any]:
    """What a position of a dial shows: causes and AUROCs in percent, and the cause that the diagnosis names."""
    causes = diagnosis.causes[ood]
    sizes = {name: getattr(causes, field) for name, field in DIALS.items()}
    values = {name: 0.0 if size is None else 100 * size.value for name, size in sizes.items()}
    largest = max(values, key=lambda name: values[name])
    area = {name: 100 * score.auroc.value for name, score in diagnosis.scores[ood].items()}
    return {
        "dial": dial,
        "position": float(position),
        "accuracy": 100 * diagnosis.test.accuracy.value if diagnosis.test.accuracy else None,
        "named": largest if values[largest] >= 100 * _LEAST else "none",
        "causes": values | {"temperature": 100 * causes.temperature.value, "misfit": 100 * causes.misfit.value},
        "auroc": area | {"ceiling": 100 * causes.ceiling.value},
    }


def remedies(readings: Sequence[Readings]) -> list[dict[str, str]]:
    """The table remedy x cause: what a remedy gains at the last position beyond its gain with the dial off.

    The last line is what learning without blends gains; a thing of the dial of ambiguity alone, the others learned
    clean images.
    """

    def line(remedy: str, gains: Mapping[str, Any]) -> dict[str, str]:
        return {"remedy": remedy} | {dial: _shown(Mean.of(gains[dial])) if dial in gains else "" for dial in DIALS}

    def gained(dial: str, name: str) -> list[float]:
        return [_gain(run[dial][-1], name) - _gain(run[dial][0], name) for run in readings]

    lines = [line(remedy, {dial: gained(dial, name) for dial in DIALS}) for remedy, name in REMEDIES.items()]
    first, last = ([run["ambiguity"][place]["auroc"]["plain-entropy"] for run in readings] for place in (0, -1))
    return [*lines, line("cleaner data", {"ambiguity": np.subtract(first, last)})]


def named(readings: Sequence[Readings]) -> list[dict[str, Any]]:
    """For each position of each dial: which causes were named, in how many runs."""
    rows = []
    for dial in DIALS:
        for place in range(len(readings[0][dial])):
            said = [run[dial][place]["named"] for run in readings]
            counts = {name: said.count(name) for name in (*DIALS, "none")}
            rows.append({"dial": dial, "position": readings[0][dial][place]["position"], **counts})
    return rows


def rightly_named(run: Readings, *, last: bool) -> float:
    """Percentage of a run's positions (the last of each dial, or all but the first) whose named cause is the dial's."""
    places = [reading for dial in DIALS for reading in (run[dial][-1:] if last else run[dial][1:])]
    return 100 * float(np.mean([reading["named"] == reading["dial"] for reading in places]))


def _gain(reading: Mapping[str, Any], name: str) -> float:
    return float(reading["auroc"][name] - reading["auroc"]["plain-entropy"])


def _shown(mean: Mean) -> str:
    interval = mean.interval()
    return f"{mean.value:+.1f}" + ("" if interval is None else f" [{interval[0]:.1f}, {interval[1]:.1f}]")


def _rows(settings: RemedySettings, readings: Sequence[Readings]) -> list[Row]:
    rows = []
    for dial in DIALS:
        grown = [run[dial][-1]["causes"][dial] - run[dial][0]["causes"][dial] for run in readings]
        rows += rows_of("X12", {"grown": grown}, dial=dial, position=getattr(settings, dial)[-1])
    ours = {"truth": [run["overlap"][-1]["causes"]["overlap"] - 50 * settings.overlap[-1] for run in readings]}
    for name in ("last", "all"):
        ours[name] = [rightly_named(run, last=name == "last") for run in readings]
    return rows + rows_of("X12", ours)


def _evidence(
    settings: RemedySettings, alike: Sequence[Sequence[TrainedNetwork]], readings: Sequence[Readings]
) -> dict[str, list[dict[str, Any]]]:
    """Rows for T21, T26 and T34.

    T26 and T34: networks that differ in nothing but their seed, one setting for each share of blends. T21: the networks
    that learned clean images.
    """
    name = settings.ood.name
    rises, spreads = [], []
    for place, (share, networks) in enumerate(zip(settings.ambiguity, alike)):
        known = {"network": f"LeNet on MNIST, {100 * share:g} % ambiguous", "ood": name}
        rises.append(known | together(list(networks), name))
        low = np.stack([entropy(network.head.logits(network.test.array())) for network in networks])
        high = np.stack([entropy(network.head.logits(network.ood[name].array())) for network in networks])
        own = [run["ambiguity"][place]["auroc"] for run in readings]
        spreads.append(
            known
            | {"ambiguous": float(share), "spreads": jackknife(low, high)}
            | {score: [area[score] for area in own] for score in ("entropy", "density")}
        )
    clean = [
        {"network": f"LeNet on MNIST, seed {n.plan.training.seed}", "ood": name, **_flags(n, name)} for n in alike[0]
    ]
    return {"T21": clean, "T26": rises, "T34": spreads}


def _flags(network: TrainedNetwork, ood: str) -> dict[str, Any]:
    density = estimator("density").fit(network.head, network.train)

    def both(features: FeatureSet) -> dict[str, Floats]:
        softmax = scores(network.head, features, ("entropy",))["entropy"]
        return {"entropy": softmax, "density": density.uncertainty(features)}

    return flagged(both(network.test), both(network.ood[ood]))


def jackknife(low: Floats, high: Floats) -> list[float]:
    """One value for each network whose mean is the rise of the variance of entropies [networks, inputs] on OOD inputs.

    n x rise of all less (n - 1) x rise without this network: the mean of these pseudo-values is the jackknife estimate.
    """
    count = len(low)
    if count < 3:
        return []

    def rise(kept: Any) -> float:
        return float(high[kept].var(axis=0, ddof=1).mean() - low[kept].var(axis=0, ddof=1).mean())

    whole = rise(np.arange(count))
    return [count * whole - (count - 1) * rise(np.delete(np.arange(count), left)) for left in range(count)]


def _magnified(network: TrainedNetwork, images: Images, factor: float) -> NDArray:
    """Features of the OOD images times `factor`."""
    from ...images import fit_images
    from ...models import extract_features

    net = network.net()
    x = fit_images(images.load("test").images, net.input_shape).astype(np.float32)
    return np.asarray(extract_features(net, factor * x).array())


def _shared(ood: NDArray, spare: NDArray, share: float) -> NDArray:
    """OOD features of which a share is that of held-out digits."""
    count = min(round(share * len(ood)), len(spare))
    return np.concatenate([spare[:count], ood[count:]])


def _picture(settings: RemedySettings, readings: Sequence[Readings]) -> Any:
    from ..plots.benchmark import dials

    def curves(dial: str) -> tuple[list[float], dict[str, list[list[float]]]]:
        places = zip(*(run[dial] for run in readings))
        by_place = [[own["causes"] for own in runs] for runs in places]
        values = {cause: [[own[cause] for own in runs] for runs in by_place] for cause in DIALS}
        return [float(position) for position in getattr(settings, dial)], values

    return dials({dial: curves(dial) for dial in DIALS})
