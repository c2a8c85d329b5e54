"""What is measured of one network of X10: its diagnosis against every OOD set, under two densities.

With ten images a class at H = 1280 a covariance for each class means nothing, so the main density has one covariance
for all classes, shrunk as Ledoit and Wolf do, on log z. The paper's own (a full one for each class by EM, ridge 1e-3,
on log z) stands beside it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...diagnosis import diagnose
from ...diagnosis.scores import DEFAULT
from ...estimators import Density, Estimator, estimator, scores
from ...estimators.density import LOG_OFFSET, log_features
from ...features import FeatureSet
from ...head import Head
from ...metrics import auroc, balanced
from ...runs import Draft, Store
from .detection import PLAIN, Scores, evidence
from .five_scores import Judged
from .networks import NetworkPlan, TrainedNetwork, trained
from .transfer import TransferPlan, transferred

VERSION = 1  # of what the step holds: raised when it holds more, so that stores compute it again
PAPER = "paper-density"
BOOTSTRAPS = 200


@dataclass(frozen=True)
class Compared(Judged):
    """A judged network; the `numbers` of a fine-tuned one also have the paper's density."""

    def auroc(self, score: str, ood: str | None = None) -> float:
        """As for every judged network; `paper-density` is the paper's own."""
        if score != PAPER:
            return super().auroc(score, ood)
        found: dict[str, float] = self.numbers[PAPER]
        return float(np.mean(list(found.values()))) if ood is None else found[ood]


def compared(store: Store, plan: NetworkPlan) -> Compared:
    """The network that `plan` describes, trained and judged, or read where the store has it."""
    network = transferred(store, plan) if isinstance(plan, TransferPlan) else trained(store, plan)
    known = {"features": network.made, "version": VERSION}
    return Compared(network, network.run.step("compare", partial(_compare, network), inputs=known))


def shrunk_density(train: FeatureSet) -> Density:
    """Class means and one covariance on log z, with the ridge that makes it Ledoit and Wolf's shrunk one.

    Theirs is (1 - s) S + s m I with m = tr(S) / H, in proportion to S + s m / (1 - s) I, S that of rows about their
    class's mean and s from their formula.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    if train.labels is None:
        raise AssertionError("training features have labels")
    rows = log_features(train.array(), LOG_OFFSET).astype(np.float64)
    for label in np.unique(train.labels):
        own = train.labels == label
        rows[own] -= rows[own].mean(axis=0)
    share = min(float(ledoit_wolf_shrinkage(rows, assume_centered=True)), 1 - 1e-9)
    ridge = share / (1 - share) * float(np.square(rows).mean())
    return Density(covariance="tied", transform="log", ridge=ridge, one_per_class=True)


def _compare(network: TrainedNetwork, draft: Draft) -> None:
    seed, head = network.plan.training.seed, network.head
    density = shrunk_density(network.train)  # the diagnosis fits this very one
    found = diagnose(
        head, network.train, network.test, network.ood, seed=seed, bootstraps=BOOTSTRAPS,
        estimators=(*DEFAULT, density),
    )  # fmt: skip
    found.save(draft.path("diagnosis.json"))
    paper = _papers_density(network)
    low = _scores(head, network.test, paper)
    claims, theirs = {}, {}
    for name, features in network.ood.items():
        high = _scores(head, features, paper)
        kept = zip((low, high), balanced(len(network.test), len(features), seed))
        pair = [{key: values[rows] for key, values in side.items()} for side, rows in kept]
        claims[name] = evidence(*pair)
        if paper is not None:
            theirs[name] = 100 * auroc(pair[0][PAPER], pair[1][PAPER]).value
    numbers: dict[str, Any] = {"accuracy": network.numbers["accuracy"], "claims": claims, PAPER: theirs}
    draft.json(numbers | {"ridge": density.ridge, "skipped": network.numbers.get("skipped", [])})


def _papers_density(network: TrainedNetwork) -> Density | None:
    """Fitted for the networks that the paper has, the fine-tuned ones: with many classes it takes long."""
    plan = network.plan
    if not isinstance(plan, TransferPlan) or plan.tuning is None:
        return None
    density = Density(transform="log", ridge=1e-3)
    density.fit(network.head, network.train)
    return density


def _scores(head: Head, features: FeatureSet, paper: Estimator | None) -> Scores:
    printed = scores(head, features, tuple(PLAIN.values()), plain=True)
    found = {
        **{name: printed[of].astype(np.float64) for name, of in PLAIN.items()},
        **scores(head, features, ("max", "entropy")),
        "mental": estimator("mental").fit(head, features).uncertainty(features),
    }
    return found if paper is None else {**found, PAPER: paper.uncertainty(features)}
