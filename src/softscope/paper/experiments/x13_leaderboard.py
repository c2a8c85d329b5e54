"""X13: every score of the registry on every pair of our own networks, and which one to use where nobody chooses.

Nothing is tuned on OOD data: each score has its default arguments, the densities beside the paper's theirs. Pairs are
far (another data set) or near (classes of the same data set that the network never saw).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine import Engine
from ...errors import SoftscopeError
from ...estimators import DEFAULT, ESTIMATORS, estimator
from ...features import FeatureSet
from ...head import Head
from ...metrics import auroc, fpr_at_recall
from ...runs import Draft, StepResult, Store
from .base import Result
from .judge import source
from .networks import TrainedNetwork, subsets, trained
from .transfer import TransferPlan, transferred
from .verdict import Mean, Row, Statement
from .x13_plans import SCALES, BoardSettings

__all__ = ["SCALES", "run"]

#: what combines other scores: the others are the single ones it is set against
COMBINED = ("consensus",)
#: mixtures beside the paper's, which is K full covariances by EM: one covariance for all classes, one Gaussian for all rows
MIXTURES = ("density(covariance='tied')", "density(components=1)")
NEAR = "unseen"

#: pair -> AUROC in percent
Areas = Mapping[str, float]


@dataclass(frozen=True)
class Case:
    """A head with its training rows, test rows of what it knows, and rows of what it doesn't, by name."""

    name: str
    head: Head
    train: FeatureSet
    test: FeatureSet
    ood: Mapping[str, FeatureSet]


def run(settings: BoardSettings, store: Store, engine: Engine) -> Result:
    """Train or read the networks, score all pairs, and set the combined score against the single ones."""
    plans = [*settings.networks, *settings.heads]
    made: list[tuple[TrainedNetwork, StepResult]] = engine.map(
        partial(_measured, store, settings), plans, threads=settings.threads, label="X13"
    )
    cases = [case for _, step in made for case in step.json()]
    timings = [line for _, step in made for line in step.json("timings")]
    networks = [network for network, _ in made]
    areas = by_score(cases)
    return Result(
        rows=rows(areas),
        tables={"scores": score_lines(cases, timings), "chosen elsewhere": elsewhere(areas), "cases": cases},
        shown=_SHOWN,
        notes=_notes(settings, cases),
        subsets=subsets(networks),
        seconds=sum(own.seconds + float(step.provenance.get("seconds", 0.0)) for own, step in made),
    )


def _measured(store: Store, settings: BoardSettings, plan: Any) -> tuple[TrainedNetwork, StepResult]:
    network = transferred(store, plan) if isinstance(plan, TransferPlan) else trained(store, plan)
    known = {
        "features": network.made,
        "source": source(_measure, measured, cases_of, unseen_cases),
        "scores": [*ESTIMATORS, *MIXTURES],
        "splits": [settings.fewest, settings.splits],
    }
    return network, network.run.step("leaderboard", partial(_measure, network, settings), inputs=known)


def _measure(network: TrainedNetwork, settings: BoardSettings, draft: Draft) -> None:
    lines, timings = zip(*(measured(case) for case in cases_of(network, settings)))
    draft.json(list(lines))
    draft.json([line for own in timings for line in own], "timings")


def cases_of(network: TrainedNetwork, settings: BoardSettings) -> Iterator[Case]:
    """The network against its OOD sets, and, where it is a head with many classes, heads on two thirds of them."""
    data = network.plan.data
    ood = {_short(name, data.dataset): rows for name, rows in network.ood.items()}
    yield Case(data.dataset if data.dataset != "digits" else data.name, network.head, network.train, network.test, ood)
    if isinstance(network.plan, TransferPlan) and network.head.n_classes >= settings.fewest:
        yield from unseen_cases(data.dataset, network.train, network.test, settings.splits)


def unseen_cases(name: str, train: FeatureSet, test: FeatureSet, splits: int) -> Iterator[Case]:
    """A third of the classes, drawn by the number of the split, is left out of a new head and is OOD."""
    assert train.labels is not None and test.labels is not None
    classes = int(train.labels.max()) + 1
    for split in range(splits):
        kept = np.sort(np.random.default_rng(split).permutation(classes)[classes // 3 :])
        inside, known = np.isin(train.labels, kept), np.isin(test.labels, kept)
        labels = np.searchsorted(kept, train.labels[inside])
        own = FeatureSet(train.array()[inside], labels, name="train")
        rows = test.array()
        yield Case(
            name,
            linear_head(own.array(), labels),
            own,
            FeatureSet(rows[known], np.searchsorted(kept, test.labels[known]), name="test"),
            {f"{NEAR} classes, split {split + 1}": FeatureSet(rows[~known], name=NEAR)},
        )


def linear_head(z: NDArray, labels: NDArray[np.int64]) -> Head:
    """Multinomial logistic regression on z over its mean norm, C = 100."""
    from sklearn.linear_model import LogisticRegression

    scale = float(np.linalg.norm(z, axis=1).mean())
    model = LogisticRegression(C=100.0, max_iter=300).fit(z / scale, labels)
    weight, bias = model.coef_ / scale, model.intercept_
    if len(weight) == 1:  # two classes: scikit-learn keeps the difference of their logits
        weight, bias = np.concatenate([np.zeros_like(weight), weight]), np.concatenate([[0.0], bias])
    return Head(weight, bias)


def measured(case: Case) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """AUROC with interval and FPR95 of every score on every pair of `case`, in percent, and what each score costs."""
    areas: dict[str, dict[str, list[float]]] = {name: {} for name in case.ood}
    refused: dict[str, str] = {}
    timings = []
    for name in (*ESTIMATORS, *MIXTURES):
        start = process_time()
        try:
            fitted = estimator(name).fit(case.head, case.train)
        except SoftscopeError as error:
            refused[name] = str(error).splitlines()[0]
            continue
        fit_seconds, start = process_time() - start, process_time()
        low = fitted.uncertainty(case.test)
        scored = len(case.test)
        for ood, rows in case.ood.items():
            high = fitted.uncertainty(rows)
            scored += len(rows)
            area, missed = auroc(low, high), fpr_at_recall(low, high)
            areas[ood][name] = [round(100 * x, 2) for x in (area.value, area.low, area.high, missed.value)]
        size = sum(array.nbytes for array in fitted.state().values()) / 1e6
        each = 1e6 * (process_time() - start) / scored
        timings.append({"score": name, "fit seconds": fit_seconds, "microseconds a row": each, "state MB": size})
    line = {
        "trained on": case.name,
        "classes": case.head.n_classes,
        "features": case.head.n_features,
        "training rows": len(case.train),
        "rectified": bool(case.train.array().min() >= 0),
        "rows": {"test": len(case.test)} | {name: len(rows) for name, rows in case.ood.items()},
        "AUROC, low, high, FPR95": areas,
        "refused": refused,
    }
    return line, timings


def by_score(cases: list[dict[str, Any]], value: int = 0) -> dict[str, dict[str, float]]:
    """score -> pair -> AUROC (or another of the kept numbers); pairs are 'trained on / OOD set'."""
    out: dict[str, dict[str, float]] = {}
    for case in cases:
        for ood, scores in case["AUROC, low, high, FPR95"].items():
            for name, numbers in scores.items():
                out.setdefault(name, {})[f"{case['trained on']} / {ood}"] = numbers[value]
    return out


def complete(areas: Mapping[str, Areas]) -> dict[str, Areas]:
    """The scores that refused no pair."""
    pairs = max(map(len, areas.values()))
    return {name: own for name, own in areas.items() if len(own) == pairs}


def best_single(areas: Mapping[str, Areas], rank: Callable[[Areas], float]) -> str:
    """The single score with the largest `rank` among those that refused no pair."""
    single = [name for name in complete(areas) if name not in COMBINED]
    return max(single, key=lambda name: rank(areas[name]))


def mean(own: Areas) -> float:
    """Over pairs."""
    return float(np.mean(list(own.values())))


def worst(own: Areas) -> float:
    """Of all pairs."""
    return min(own.values())


def over_training_sets(own: Areas) -> dict[str, float]:
    """The mean over the pairs of each training set."""
    names = dict.fromkeys(pair.split(" / ")[0] for pair in own)
    return {name: float(np.mean([v for pair, v in own.items() if pair.split(" / ")[0] == name])) for name in names}


def rows(areas: Mapping[str, Areas]) -> list[Row]:
    """Each combined score beside the best single one by the mean and by the worst pair, and the default beside both."""
    by_mean, by_worst = best_single(areas, mean), best_single(areas, worst)
    out = []
    for name in COMBINED:
        for against in dict.fromkeys((by_mean, by_worst)):
            mine, theirs = over_training_sets(areas[name]), over_training_sets(areas[against])
            gains = [mine[key] - theirs[key] for key in mine]
            label = f"{name} less {against}: mean AUROC of each training set's pairs"
            out.append(Row(label, Mean.of(gains, "training sets"), Statement("above it", least=0), "points"))
        out.append(
            Row(f"{name} less {by_worst}: worst pair", Mean(worst(areas[name]) - worst(areas[by_worst])), unit="points")
        )
    for what, single in (("mean", by_mean), ("worst pair", by_worst)):
        rank = mean if what == "mean" else worst
        out.append(Row(f"{single}, the best single score by the {what}", Mean(rank(areas[single])), unit="%"))
        out.append(Row(f"{DEFAULT}, the default: {what}", Mean(rank(areas[DEFAULT])), unit="%"))
    return out


def score_lines(cases: list[dict[str, Any]], timings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each score, the best mean first; those that refuse some sets last."""
    areas, missed = by_score(cases), by_score(cases, value=3)
    pairs = max(map(len, areas.values()))
    lines = []
    for name in sorted(areas, key=lambda name: (len(areas[name]) < pairs, -mean(areas[name]))):
        own = areas[name]
        near = [area for pair, area in own.items() if NEAR in pair]
        far = [area for pair, area in own.items() if NEAR not in pair]
        hardest = min(own, key=lambda pair: own[pair])
        cost = [line for line in timings if line["score"] == name]
        lines.append(
            {
                "score": name,
                "mean AUROC, %": _number(mean(own)),
                "near": _number(float(np.mean(near))) if near else "",
                "far": _number(float(np.mean(far))),
                "worst": _number(own[hardest]),
                "worst pair": hardest,
                "mean FPR95, %": _number(mean(missed[name])),
                "pairs": len(own),
                "microseconds per row": _few(float(np.median([line["microseconds a row"] for line in cost]))),
                "state, MB": _few(max(line["state MB"] for line in cost)),
            }
        )
    return lines


def elsewhere(areas: Mapping[str, Areas]) -> list[dict[str, Any]]:
    """For each training set: the single score that is best on all the others, beside the combined one, on its pairs."""
    whole = complete(areas)
    lines = []
    for name in over_training_sets(whole[COMBINED[0]]):
        others = {key: {p: v for p, v in own.items() if p.split(" / ")[0] != name} for key, own in whole.items()}
        own = {key: {p: v for p, v in every.items() if p.split(" / ")[0] == name} for key, every in whole.items()}
        chosen = best_single(others, mean) if others[COMBINED[0]] else best_single(own, mean)
        line: dict[str, Any] = {"trained on": name, "pairs": len(own[chosen]), "best single score elsewhere": chosen}
        for key in (chosen, *COMBINED):
            label = "its" if key == chosen else key
            line |= {f"{label} mean": _number(mean(own[key])), f"{label} worst": _number(worst(own[key]))}
        lines.append(line)
    return lines


def _short(name: str, learned: str) -> str:
    """Other classes of the data set that was learned are unseen classes."""
    dataset = name.split("-")[0]
    return f"{NEAR} classes" if dataset == learned and dataset != "digits" else name


def _number(value: float) -> str:
    return f"{value:.1f}"


def _few(value: float) -> str:
    return f"{value:.3g}"


_SHOWN = {
    "scores": "Every score over all pairs; near pairs are classes of the same data set that the network never saw. "
    "FPR95: the share of OOD rows that pass where 95 % of the test rows do. Cost: CPU time per row with one thread, "
    "median over networks, and the largest fitted state.",
    "chosen elsewhere": "Leave one training set out: the single score with the best mean on all other training sets, and "
    "what it reaches on this one.",
}


def _notes(settings: BoardSettings, cases: list[dict[str, Any]]) -> list[str]:
    pairs = sum(len(case["rows"]) - 1 for case in cases)
    kinds = {NEAR: sum(NEAR in name for case in cases for name in case["rows"])}
    refused: dict[str, set[str]] = {}
    for case in cases:
        for name in case["refused"]:
            refused.setdefault(name, set()).add(case["trained on"])
    said = [f"{name} refuses {', '.join(sorted(sets))}" for name, sets in sorted(refused.items())]
    return [
        f"{pairs} pairs of {len({case['trained on'] for case in cases})} training sets, {kinds[NEAR]} of them near. All "
        "test rows and all OOD rows are scored; AUROC is of OOD rows as the positive class, intervals are in the file.",
        f"Near pairs of heads: of training sets with at least {settings.fewest} classes a third of the classes, "
        f"{settings.splits} times by chance, is left out of a new head (logistic regression on the same features).",
        "Every score has its default arguments. No parameter is chosen on OOD data; the parts of `consensus` were chosen "
        "before, on other networks (docs/consensus.md).",
        *said,
    ]
