"""X13: every score of the registry on every pair of our own networks, and which one to use where nobody chooses.

Nothing is tuned on OOD data: each score has its default arguments, the mixtures beside the paper's theirs. Pairs are
far (another data set) or near (classes of the same data set that the network never saw). `x13_board` makes the tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine import Engine
from ...errors import SoftscopeError
from ...estimators import ESTIMATORS, Consensus, estimator
from ...features import FeatureSet
from ...head import Head
from ...metrics import auroc, fpr_at_recall
from ...runs import Draft, StepResult, Store
from . import x13_board as board
from .base import Result, networks_left
from .judge import as_detected, source
from .judgement import Detected, record_name
from .networks import TrainedNetwork, subsets, trained
from .transfer import TransferPlan, transferred
from .x13_board import NEAR, NUMBERS
from .x13_plans import SCALES, BoardSettings

__all__ = ["SCALES", "run"]

#: mixtures beside the paper's K full covariances by EM: one covariance for all classes, one Gaussian for all rows
MIXTURES = ("density(covariance='tied')", "density(components=1)")
CHEAP = [name for name in ESTIMATORS if name != "density"] + [*MIXTURES]
#: K full covariances of H x H have at most so many numbers, 15 classes of 1,280 features: more take long on one core
FULL_NUMBERS = 2.5e7
#: scores that `consensus` could have as parts, and how many of them
POOL = (
    *("mahalanobis++", "relative-mahalanobis", "relative-mahalanobis++", "knn"),
    *("energy", "max", "fdbd", "residual", "vim"),
)
CHOICES = [names for size in (2, 3, 4) for names in combinations(POOL, size)]


@dataclass(frozen=True)
class Case:
    """A head with its training rows, test rows of what it knows, and rows of what it doesn't, by name."""

    name: str
    head: Head
    train: FeatureSet
    test: FeatureSet
    ood: Mapping[str, FeatureSet]


def run(settings: BoardSettings, store: Store, engine: Engine) -> Iterator[Result]:
    """One network after the other, those at hand first, then short trainings; a result after each says what is left.

    What was scored of a network is kept beside the result, so that another machine goes on from there.
    """
    plans = [*settings.networks, *settings.heads]
    done: dict[int, Detected] = {}

    def order(number: int) -> tuple[bool, int]:
        plan = plans[number]
        return not _at_hand(store, plan), 0 if isinstance(plan, TransferPlan) else plan.training.epochs

    for place in sorted(range(len(plans)), key=order):
        work = partial(scored, store, settings)
        (done[place],) = engine.map(work, [plans[place]], threads=settings.threads, label="X13")
        left = [plan.data.dataset for number, plan in enumerate(plans) if number not in done]
        yield _result(settings, [done[number] for number in sorted(done)], left)


def _result(settings: BoardSettings, every: Sequence[Detected], left: Sequence[str]) -> Result:
    cheap, full, parts = ([line for own in every for line in _lines(own, i)] for i in range(3))
    cases = [board.joined(*two) for two in zip(cheap, full)]
    timings = [line for own in every for line in own.numbers["timings"]]
    areas, words = board.by_score(cases), board.words(settings, cases)
    tables = {"scores": board.score_lines(cases, timings), "cases": cases}
    if len(board.training_sets(areas[board.COMBINED])) > 1:
        chosen = board.chosen_parts(parts, areas)
        tables |= {"chosen elsewhere": board.elsewhere(areas), "parts": chosen}
        tables["default"] = board.decision(areas, chosen)
    return Result(
        rows=board.rows(areas),
        figures={"leaderboard": board.picture(areas)},
        tables=tables,
        **words | {"shown": {name: text for name, text in words["shown"].items() if name in tables}},
        subsets=subsets(every),
        kept={record_name(own.plan): own.record for own in every if own.in_store},
        seconds=sum(own.seconds for own in every),
        left=networks_left(len(left), f": {', '.join(left)}"),
    )


def _lines(own: Detected, step: int) -> list[dict[str, Any]]:
    """A step's lines; a transformer's OOD sets carry its name, as another network may have learned the same images."""
    lines: list[dict[str, Any]] = own.numbers["lines"][step]
    if own.plan.net != "vit":
        return lines
    by_set = ("rows", NUMBERS, "AUROC")
    return [
        line | {key: {f"{ood}, vit": kept for ood, kept in line[key].items()} for key in by_set if key in line}
        for line in lines
    ]


def _at_hand(store: Store, plan: Any) -> bool:
    """Features in the store (a step's manifest appears with the whole step), or what an earlier result kept."""
    features = store.run(plan, kind=type(plan).__name__).path.glob("features-*/manifest.json")
    return any(features) or _kept(store, plan) is not None


def _kept(store: Store, plan: Any) -> Detected | None:
    """What an earlier result kept, if it has every score of today."""
    own = Detected.kept(store, "X13", plan)
    return own if own is not None and own.numbers["scores"] == CHEAP else None


def scored(store: Store, settings: BoardSettings, plan: Any) -> Detected:
    """The network of `plan`, trained and scored; where the store lacks it and a result kept it, what was kept."""
    if (kept := _kept(store, plan)) is not None:
        return kept
    network = transferred(store, plan) if isinstance(plan, TransferPlan) else trained(store, plan)
    splits = settings.splits
    if not isinstance(network.plan, TransferPlan) or network.head.n_classes < settings.fewest:
        splits = 0
    known = {"features": network.made, "splits": splits, "source": source(cases_of, linear_head, kept_classes)}
    heads = network.run.step("unseen", partial(_unseen_heads, network, splits), inputs=known)
    cases = partial(cases_of, network, heads, splits)

    def step(name: str, produce: Any, *behind: Any, **inputs: Any) -> StepResult:
        inputs = known | {"heads": heads, "source": source(*behind, cases_of), **inputs}
        return network.run.step(name, produce, inputs=inputs)

    steps = (
        step("scores", partial(_measure, cases, CHEAP), measured, scores=CHEAP, consensus=Consensus().parts),
        step("density", partial(_measure, cases, ["density"]), measured, limit=FULL_NUMBERS),
        step("parts", partial(_combine, cases), combined, pool=POOL),
    )
    timings = [line for own in steps[:2] for line in own.json("timings")]
    return as_detected(network, {"lines": [own.json() for own in steps], "timings": timings, "scores": CHEAP}, steps)


def _measure(cases: Any, names: Sequence[str], draft: Draft) -> None:
    lines, timings = zip(*(measured(case, names) for case in cases()))
    draft.json(list(lines))
    draft.json([line for own in timings for line in own], "timings")


def _combine(cases: Any, draft: Draft) -> None:
    draft.json([combined(case) for case in cases()])


def _unseen_heads(network: TrainedNetwork, splits: int, draft: Draft) -> None:
    """A head for each split, on the classes that it keeps."""
    labels, tensors = network.train.labels, {"splits": np.arange(splits)}
    for split in range(splits):
        assert labels is not None
        kept = kept_classes(network.head.n_classes, split)
        inside = np.isin(labels, kept)
        head = linear_head(network.train.array()[inside], np.searchsorted(kept, labels[inside]))
        tensors |= {f"weight{split}": head.weight, f"bias{split}": head.bias}
    draft.tensors(tensors)


def cases_of(network: TrainedNetwork, heads: StepResult, splits: int) -> Iterator[Case]:
    """The network against its OOD sets, and its `splits` heads on two thirds of the classes against the last third."""
    data, train, test = network.plan.data, network.train, network.test
    learned = data.name if data.dataset == "digits" else data.dataset
    ood = {f"{NEAR} classes" if name.startswith(f"{learned}-") else name: z for name, z in network.ood.items()}
    yield Case(learned, network.head, train, test, ood)
    for split in range(splits):
        assert train.labels is not None
        assert test.labels is not None
        own, kept = heads.tensors(), kept_classes(network.head.n_classes, split)
        inside, known = np.isin(train.labels, kept), np.isin(test.labels, kept)
        yield Case(
            learned,
            Head(own[f"weight{split}"], own[f"bias{split}"]),
            FeatureSet(train.array()[inside], np.searchsorted(kept, train.labels[inside]), name="train"),
            FeatureSet(test.array()[known], name="test"),
            {f"{NEAR} classes, split {split + 1}": FeatureSet(test.array()[~known], name=NEAR)},
        )


def kept_classes(classes: int, split: int) -> NDArray[np.int64]:
    """Two thirds of the classes, drawn by the number of the split, ascending."""
    return np.sort(np.random.default_rng(split).permutation(classes)[classes // 3 :])


def linear_head(z: NDArray, labels: NDArray[np.int64]) -> Head:
    """Multinomial logistic regression on z over its mean norm, C = 100."""
    from sklearn.linear_model import LogisticRegression

    scale = float(np.linalg.norm(z, axis=1).mean())
    model = LogisticRegression(C=100.0, max_iter=300).fit(z / scale, labels)
    weight, bias = model.coef_ / scale, model.intercept_
    if len(weight) == 1:  # two classes: scikit-learn keeps the difference of their logits
        weight, bias = np.concatenate([np.zeros_like(weight), weight]), np.concatenate([[0.0], bias])
    return Head(weight, bias)


def measured(case: Case, names: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """AUROC with interval and FPR95 of the scores on every pair of `case`, in percent, and what each score costs."""
    numbers: dict[str, dict[str, list[float]]] = {name: {} for name in case.ood}
    refused: dict[str, str] = {}
    timings = []
    for name in names:
        if name == "density" and case.head.n_classes * case.head.n_features**2 > FULL_NUMBERS:
            refused[name] = "too many numbers"
            continue
        start = process_time()
        try:
            fitted = estimator(name).fit(case.head, case.train)
        except SoftscopeError as error:
            refused[name] = str(error).splitlines()[0].replace(case.train.name, "the training features")
            continue
        fit_seconds, start = process_time() - start, process_time()
        low = fitted.uncertainty(case.test)
        rows = len(case.test)
        for ood, z in case.ood.items():
            high = fitted.uncertainty(z)
            rows += len(z)
            area, passed = auroc(low, high), fpr_at_recall(low, high)
            numbers[ood][name] = [round(100 * x, 2) for x in (area.value, area.low, area.high, passed.value)]
        size = sum(array.nbytes for array in fitted.state().values()) / 1e6
        each = 1e6 * (process_time() - start) / rows
        timings.append({"score": name, "fit, s": fit_seconds, "row, us": each, "state, MB": size})
    line = {
        "trained on": case.name,
        "classes": case.head.n_classes,
        "features": case.head.n_features,
        "training rows": len(case.train),
        "rectified": bool(case.train.array().min() >= 0),
        "rows": {"test": len(case.test)} | {name: len(z) for name, z in case.ood.items()},
        NUMBERS: numbers,
        "refused": refused,
    }
    return line, timings


def combined(case: Case) -> dict[str, Any]:
    """AUROC in percent of Fisher's rule on each choice of parts, by OOD set, in the order of `CHOICES`."""
    fitted = Consensus(parts=", ".join(POOL)).fit(case.head, case.train)
    low = fitted.surprises(case.test.array())
    places = [[POOL.index(name) for name in names] for names in CHOICES]
    areas = {}
    for ood, z in case.ood.items():
        high = fitted.surprises(z.array())
        areas[ood] = [round(100 * auroc(low[at].sum(axis=0), high[at].sum(axis=0)).value, 2) for at in places]
    return {"trained on": case.name, "choices": [", ".join(names) for names in CHOICES], "AUROC": areas}
