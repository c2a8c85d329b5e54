"""X8 (sec_app_exp_standard_bench): how U_density is best fitted, on the networks of X9.

The search of `softscope tune`, one network a data set. The paper tuned for AUROC, which looks at the OOD data, and
prints the winner alone: EM, all neurons, ridge 1e-5, after the non-linearity, full covariance, z, K components; kernel
density always worse. Each of these choices is put to the test here, beside what held-out likelihood would choose.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...arrays import Floats
from ...canonical import plain
from ...engine import Engine
from ...estimators import scores
from ...features import FeatureSet
from ...metrics import auroc, balanced
from ...runs import Draft, StepResult, Store
from ...tuning import COMPONENTS, ComponentCount, Features, Search, Sets, Setting, Tried, spread_rows, tune, words
from ..training import TrainSettings
from . import texts
from .base import Result, Settings, networks_left
from .judgement import Detected, record_name
from .networks import Images, NetworkPlan, TrainedNetwork, features_of, is_trained, subsets, trained
from .verdict import Mean, Row, rows_of
from .x09_plans import SCALES as NETWORKS
from .x09_plans import plans

CHOICES = {
    "fit": "free EM",
    "neurons": "all neurons",
    "ridge": "ridge 1e-5",
    "layer": "after the non-linearity",
    "covariance": "full covariance",
    "transform": "z",
    "components": "K components",
}


@dataclass(frozen=True, kw_only=True)
class SearchSettings(Settings):
    """`plans` of the networks; `draws` of the search's first four options; EM's `iterations` at most; at most `judged`
    rows of the test set and of each OOD set (None: all); draws but the first try `elsewhere` components alone."""

    plans: tuple[NetworkPlan, ...] = ()
    draws: int = 48
    iterations: int = 100
    judged: int | None = None
    elsewhere: tuple[ComponentCount, ...] = COMPONENTS


def _digits(classes: tuple[int, ...], others: tuple[int, ...]) -> NetworkPlan:
    return NetworkPlan(
        data=Images("digits", classes),
        ood=(Images("digits", others),),
        net="small",
        config={"features": 16},
        training=TrainSettings(epochs=6, batch=16, precision="float32", threads=1),
    )


_FIRST, _SECOND = (0, 1, 2, 3, 4), (5, 6, 7, 8, 9)

SCALES = {
    "smoke": SearchSettings(plans=(_digits(_FIRST, _SECOND), _digits(_SECOND, _FIRST)), draws=6, iterations=10),
    "laptop": SearchSettings(
        plans=tuple(plans(NETWORKS["laptop"])), draws=8, iterations=10, judged=2_000, elsewhere=("1", "K", "10")
    ),
    # 100 components everywhere would take three nights.
    "overnight": SearchSettings(
        plans=tuple(plans(NETWORKS["overnight"].single_runs()[-1])),
        draws=24,
        elsewhere=("1", "K", "10"),
        piecewise=True,
    ),
    "paper": SearchSettings(plans=tuple(plans(NETWORKS["paper"]))),
}

Searches = dict[str, Search]


def run(settings: SearchSettings, store: Store, engine: Engine) -> "Result | Iterator[Result]":
    """Search on each network and set what is best beside the paper's choice.

    Piecewise, network after network, those at hand first, with a result after each; what was found on one is kept
    beside the result, so that another machine goes on from there.
    """
    if settings.piecewise:
        return _piecewise(settings, store, engine)
    plans = _seeded(settings)
    threads = max(plan.training.threads for plan in plans)
    engine.map(partial(trained, store), plans, threads=threads, label="X8 networks")
    return _result(settings, [_searched(settings, store, engine, plan) for plan in plans])


def _piecewise(settings: SearchSettings, store: Store, engine: Engine) -> Iterator[Result]:
    plans, done = _seeded(settings), dict[int, Detected]()

    def order(number: int) -> tuple[bool, bool, int]:
        plan = plans[number]
        return _kept(settings, store, plan) is None, not is_trained(store, plan), plan.training.epochs

    for number in sorted(range(len(plans)), key=order):
        plan = plans[number]
        done[number] = _kept(settings, store, plan) or _searched(settings, store, engine, plan)
        every = [done[known] for known in sorted(done)]
        left = [other.data.name for place, other in enumerate(plans) if place not in done]
        yield replace(
            _result(settings, every),
            kept={record_name(own.plan): own.record for own in every if own.in_store},
            left=networks_left(len(left), f": {', '.join(left)}"),
            part=bool(left),
        )


def _kept(settings: SearchSettings, store: Store, plan: NetworkPlan) -> Detected | None:
    """What an earlier result kept, if it is of this search."""
    own = Detected.kept(store, "X8", plan)
    return own if own is not None and own.numbers["settings"] == _of_the_search(settings) else None


def _of_the_search(settings: SearchSettings) -> dict[str, Any]:
    """The settings that a search on one network depends on."""
    kept: dict[str, Any] = plain(settings, "settings")
    return {name: value for name, value in kept.items() if name not in ("plans", "runs", "threads", "piecewise")}


def _searched(settings: SearchSettings, store: Store, engine: Engine, plan: NetworkPlan) -> Detected:
    """The search on the network of `plan`, trained if it has to be."""
    threads = plan.training.threads
    (network,) = engine.map(partial(trained, store), [plan], threads=threads, label=f"X8 {plan.data.name}")
    (step,) = engine.map(before, [network], threads=settings.threads, label="X8 features before")
    search = tune(
        both_layers(network, step),
        settings=settings.draws,
        seed=settings.seed,
        iterations=settings.iterations,
        judged=settings.judged,
        elsewhere=settings.elsewhere,
        run=network.run,
        inputs={"after": network.made, "before": step},
        engine=engine,
    )
    numbers = {
        "settings": _of_the_search(settings),
        "search": search.to_dict(),
        "softmax": entropy_auroc(network, settings.judged),
    }
    seconds = sum(one.seconds for one in (*search.tried, *search.kernels))
    return Detected(plan, {"numbers": numbers, "seconds": seconds, "subsets": network.subsets}, network)


def _result(settings: SearchSettings, every: Sequence[Detected]) -> Result:
    from ...reporting import against_likelihood, against_options

    searches = {own.name: Search.from_dict(own.numbers["search"]) for own in every}
    softmax = {own.name: own.numbers["softmax"] for own in every}
    return Result(
        rows=[*_choice_rows(searches), *_outcome_rows(searches, softmax)],
        figures={"options": against_options(searches, softmax), "likelihood": against_likelihood(searches)},
        tables={"chosen": _chosen(searches, softmax), "settings": _settings(searches)},
        **_texts(settings, searches),
        subsets=[*subsets(every), *_judged(settings)],
        seconds=sum(own.seconds for own in every),
        timings={f"{own.name}: search, seconds": round(own.seconds, 1) for own in every},
    )


def entropy_auroc(network: TrainedNetwork, judged: int | None = None) -> float:
    """Mean AUROC of U_entropy over the OOD sets, on the same balanced pairs as the densities, in percent."""

    def entropy(z: FeatureSet) -> Floats:
        return scores(network.head, FeatureSet(spread_rows(z, judged)), ("entropy",))["entropy"]

    low, areas = entropy(network.test), []
    for z in network.ood.values():
        high = entropy(z)
        familiar, unfamiliar = balanced(len(low), len(high))
        areas.append(100 * auroc(low[familiar], high[unfamiliar]).value)
    return float(np.mean(areas))


def alternatives(search: Search, option: str) -> dict[Any, float]:
    """Mean AUROC of every other choice of `option`, all else as in the paper's setting."""
    paper = search.paper.setting
    assert isinstance(paper, Setting)
    return {
        getattr(one.setting, option): one.mean_auroc
        for one in search.tried
        if one.setting != paper and replace(paper, **{option: getattr(one.setting, option)}) == one.setting
    }


def _seeded(settings: SearchSettings) -> list[NetworkPlan]:
    def seeded(plan: NetworkPlan) -> NetworkPlan:
        return replace(plan, training=replace(plan.training, seed=plan.training.seed + settings.seed))

    return [seeded(plan) for plan in settings.plans]


def _choice_rows(searches: Searches) -> list[Row]:
    """One row an option: the paper's choice less the best other one, everything else as the paper has it."""
    rows = []
    for option, choice_words in CHOICES.items():
        others = {name: alternatives(search, option) for name, search in searches.items()}
        shared = [choice for choice in next(iter(others.values())) if all(choice in own for own in others.values())]
        if not shared:
            continue
        gains = {
            choice: [search.paper.mean_auroc - others[name][choice] for name, search in searches.items()]
            for choice in shared
        }
        best = min(shared, key=lambda choice: float(np.mean(gains[choice])))
        ours = {"choice": Mean.of(gains[best], "data sets")}
        rows += rows_of("X8", ours, choice=choice_words, other=_shown(option, best))
    return rows


def _shown(option: str, choice: Any) -> str:
    words = {"classes": "one component a class", "log": "log z", "none": "z", "spherical": "isotropic"}
    if option == "components":
        return f"{choice} components" if choice != "1" else "1 component"
    return f"{choice:g}" if option in ("ridge", "neurons") else words.get(choice, str(choice))


def _outcome_rows(searches: Searches, softmax: Mapping[str, float]) -> list[Row]:
    gains: dict[str, list[float]] = {}
    for name, search in searches.items():
        best, paper, kernel = (one.mean_auroc for one in (search.by_auroc, search.paper, search.kernel))
        own = {"kernel": kernel - best, "beyond": kernel - paper, "paper": paper - best}
        own |= {"likely": search.by_likelihood.mean_auroc - best, "over_softmax": paper - softmax[name]}
        # What the start alone does, at one number of components; absent where the grid has no K components by k-means.
        clustered = alternatives(search, "components").get(str(search.classes))
        for what, gain in (own if clustered is None else own | {"start": paper - clustered}).items():
            gains.setdefault(what, []).append(gain)
    return rows_of("X8", {what: Mean.of(own, "data sets") for what, own in gains.items()})


def _chosen(searches: Searches, softmax: Mapping[str, float]) -> list[dict[str, Any]]:
    """What each rule chose on each network, and softmax beside it."""
    chosen = []
    for name, search in searches.items():
        chosen.append(
            {"trained on": name, "score": "U_entropy", "setting": "", "mean AUROC, %": round(softmax[name], 1)}
        )
        for rule, one in (
            ("U_density, the paper's setting", search.paper),
            ("U_density, chosen by held-out likelihood", search.by_likelihood),
            ("U_density, chosen by AUROC", search.by_auroc),
            ("kernel density, chosen by AUROC", search.kernel),
        ):
            area = round(one.mean_auroc, 1)
            chosen.append({"trained on": name, "score": rule, "setting": words(one), "mean AUROC, %": area})
    return chosen


def _settings(searches: Searches) -> list[dict[str, Any]]:
    """Every setting tried, rounded to what the eye needs."""

    def short(name: str, one: Tried) -> dict[str, Any]:
        kept = one.to_dict() | {"seconds": round(one.seconds, 2)}
        for usual in ("remedied", "remedy", "bandwidth", "test"):
            if not kept[usual] or usual == "test":
                del kept[usual]
        kept["auroc"] = {ood: round(value, 2) for ood, value in one.auroc.items()}
        kept["held_out"] = None if kept["held_out"] is None else float(f"{kept['held_out']:.6g}")
        return {"data": name, "mean_auroc": round(one.mean_auroc, 2), **kept}

    return [short(name, one) for name, search in searches.items() for one in (*search.tried, *search.kernels)]


def _judged(settings: SearchSettings) -> list[str]:
    said = []
    if settings.judged is not None:
        said.append(f"at most {settings.judged:,} rows of the test set and of each OOD set judge a setting")
    if missing := [count for count in COMPONENTS if count not in settings.elsewhere]:
        said.append(f"{', '.join(missing)} components are tried with the paper's draw alone")
    return said


def _texts(settings: SearchSettings, searches: Searches) -> dict[str, Any]:
    every = [one for search in searches.values() for one in search.tried]
    first = next(iter(searches.values()))
    return texts(
        "X8",
        draws=settings.draws,
        iterations=settings.iterations,
        tried=len(every),
        networks=len(searches),
        zeros=", ".join(f"{name} {search.zeros:.0%}" for name, search in searches.items()),
        early=sum(not one.converged for one in every),
        propped=sum(one.remedied > 0 for one in every),
        kernels=len(first.kernels),
        mixtures=len(first.tried),
    )


def before(network: TrainedNetwork) -> StepResult:
    """The step with features before the last non-linearity: train, test and OOD sets, row for row as those after it."""
    known = {"train": network.fit, "features": network.made}
    return network.run.step("before", partial(_extract, network), inputs=known)


def both_layers(network: TrainedNetwork, extracted: StepResult) -> Features:
    """What a search works on."""

    def opened(name: str) -> FeatureSet:
        return FeatureSet.open(extracted.path(f"{name}.safetensors"))

    earlier = Sets(opened("train"), opened("test"), {name: opened(name) for name in network.ood})
    later = Sets(network.train, network.test, network.ood)
    return Features(network.head.n_classes, later, earlier)


def _extract(network: TrainedNetwork, draft: Draft) -> None:
    plan, net = network.plan, network.net()
    for name, (source, split) in plan.sets().items():
        about = {"model": plan.net, "dataset": source.name, "split": split}
        out = draft.path(f"{name}.safetensors")
        features_of(net, source.load(split).images, layer="before", out=out, name=name, metadata=about)
