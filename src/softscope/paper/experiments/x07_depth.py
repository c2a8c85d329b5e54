"""X7 (fig_depth_experiment): do deeper networks detect OOD data better?

VGG blocks of two convolutions, 2 to 8 of them in all, on all classes of MNIST and of Fashion-MNIST, each confronted
with the other. Past the paper: the AUROC of norm(z), max cos and density, which say what depth does to the features.
The paper shows curves and prints no numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...canonical import LATER
from ...engine import Engine
from ...runs import Store
from ..training import Precision
from . import texts
from .base import Result, Settings, networks_left
from .judge import claim_tables, detected, together
from .judgement import Detected, record_name
from .networks import Images, NetworkPlan, subsets
from .verdict import Row, rows_of

SHOWN = ("entropy", "density", "norm", "familiarity")
MNIST, FASHION = Images("mnist"), Images("fashion_mnist")


@dataclass(frozen=True, kw_only=True)
class DepthSettings(Settings):
    """`first` and `second` are each learned and each OOD of the other; `blocks` of two convolutions; `size` pixels;
    `precision` of the training."""

    first: Images = MNIST
    second: Images = FASHION
    blocks: tuple[int, ...] = (1, 2, 3, 4)
    features: int = 512
    size: int = 28
    epochs: int = 12
    batch: int = 128
    precision: Precision = field(default="float32", metadata=LATER)


SCALES = {
    "smoke": DepthSettings(
        first=Images("digits", (0, 1, 2, 3, 4)),
        second=Images("digits", (5, 6, 7, 8, 9)),
        blocks=(1, 2),
        features=32,
        size=8,
        epochs=6,
        batch=16,
        runs=2,
    ),
    "laptop": DepthSettings(
        first=replace(MNIST, train=3000, test=1000),
        second=replace(FASHION, train=3000, test=1000),
        epochs=3,
        batch=32,
        runs=2,
    ),
    # A third of the images: all of them would take three times the night. The deeper networks learn twice as fast in
    # bfloat16.
    "overnight": DepthSettings(
        first=replace(MNIST, train=20_000),
        second=replace(FASHION, train=20_000),
        precision="auto",
        runs=3,
        piecewise=True,
    ),
    "paper": DepthSettings(runs=5),
}


def run(settings: DepthSettings, store: Store, engine: Engine) -> "Result | Iterator[Result]":
    """Train `runs` networks for each direction and depth, and set accuracy and AUROC against depth."""
    if settings.piecewise:
        return _piecewise(settings, store, engine)
    plans = [plan for own in settings.single_runs() for plan in _plans(own)]
    return _result(settings, engine.map(partial(detected, store), plans, threads=settings.threads, label="X7"))


def _piecewise(settings: DepthSettings, store: Store, engine: Engine) -> Iterator[Result]:
    """After each network what is known of all runs that are whole; the others are kept for a later call."""
    runs = [_plans(own) for own in settings.single_runs()]
    plans = [plan for run_plans in runs for plan in run_plans]
    done: list[Detected] = []
    for one in engine.as_done(partial(_kept_or_detected, store), plans, threads=settings.threads):
        done.append(one)
        by_plan = {record_name(own.plan): own for own in done}
        whole = [own for own in runs if all(record_name(plan) in by_plan for plan in own)]
        every = [by_plan[record_name(plan)] for own in whole for plan in own]
        result = _result(settings, every) if every else Result(rows=[], part=True)
        yield replace(
            result,
            kept={name: own.record for name, own in by_plan.items() if own.in_store},
            left=networks_left(len(plans) - len(done)),
        )


def _kept_or_detected(store: Store, plan: NetworkPlan) -> Detected:
    return Detected.kept(store, "X7", plan) or detected(store, plan)


def _result(settings: DepthSettings, every: list[Detected]) -> Result:
    directions = _by_direction(every)
    rows = [row for title, depths in directions.items() for row in _rows(title.split()[0], depths)]
    return Result(
        rows=rows,
        figures={"depth": _picture(directions)},
        tables=_tables(directions),
        **texts("X7", batch=settings.batch),
        subsets=subsets(every),
        seconds=sum(one.seconds for one in every),
    )


def _plans(settings: DepthSettings) -> list[NetworkPlan]:
    """One run's networks: both directions, every depth."""
    pairs = ((settings.first, settings.second), (settings.second, settings.first))
    return [
        NetworkPlan(
            data=data,
            ood=(ood,),
            net="vgg",
            config={"blocks": blocks, "features": settings.features, "size": settings.size},
            training=settings.training(),
        )
        for data, ood in pairs
        for blocks in settings.blocks
    ]


Depths = dict[int, list[Detected]]


def _by_direction(every: list[Detected]) -> dict[str, Depths]:
    """title -> number of convolutions -> the runs."""
    directions: dict[str, Depths] = {}
    for one in every:
        depths = directions.setdefault(one.title, {})
        depths.setdefault(2 * one.plan.config["blocks"], []).append(one)
    return directions


def _values(runs: list[Detected], name: str) -> list[float]:
    """One value for each run: accuracy, or the AUROC of an estimator."""
    numbers = [one.numbers for one in runs]
    return [float(own["accuracy"] if name == "accuracy" else own["auroc"][name]) for own in numbers]


def _rows(learned: str, depths: Depths) -> list[Row]:
    rows = []
    for layers, runs in depths.items():
        ours = {name: _values(runs, name) for name in ("accuracy", "entropy")}
        rows += rows_of("X7", ours, learned=learned, layers=layers)
    shallow, half, deep = min(depths), max(depths) // 2, max(depths)
    gains = {f"{name}_gain": _gain(depths, name, shallow, deep) for name in SHOWN}
    gains["gained"] = _gain(depths, "accuracy", half, deep)
    return rows + rows_of("X7", gains, learned=learned, shallow=shallow, half=half, deep=deep)


def _gain(depths: Depths, name: str, shallow: int, deep: int) -> list[float]:
    """The difference run by run: networks of one run share a seed, hence the order of their batches."""
    return [b - a for a, b in zip(_values(depths[shallow], name), _values(depths[deep], name))]


def _tables(directions: dict[str, Depths]) -> dict[str, list[dict[str, Any]]]:
    named = []
    alike = []
    numbers = []
    for title, depths in directions.items():
        for layers, runs in depths.items():
            plan = runs[0].plan
            known = {"network": f"VGG, {layers} conv layers, on {plan.data.name}", "ood": plan.ood[0].name}
            if all(one.in_store for one in runs):  # an ensemble needs the features of all its networks
                alike.append(known | together([one.network for one in runs], known["ood"]))
            for one in runs:
                named.append((f"{known['network']}, seed {one.seed}", one.numbers))
                own = {"accuracy": one.numbers["accuracy"], **one.numbers["auroc"], **one.numbers["causes"]}
                numbers.append({"direction": title, "layers": layers, "seed": one.seed, **own})
    return {"runs": numbers, **claim_tables(named, ("T19", "T23")), "T26": alike}


def _picture(directions: dict[str, Depths]) -> Any:
    from ..plots.benchmark import against_depth

    names = ("accuracy", *SHOWN)
    return against_depth(
        {
            title: {name: {layers: _values(runs, name) for layers, runs in depths.items()} for name in names}
            for title, depths in directions.items()
        }
    )
