"""What is measured of one network of X9: its diagnosis against every OOD set, and what the claims read.

AUROCs are in percent, OOD is the positive class, and every pair is balanced: all rows of the smaller side and as many
of the larger one, drawn by the run's seed. Causes as in the paper, with B, C, D the mean AUROC over the OOD sets of
U_entropy as float32 prints it, of U_cool and of U_density: 1 = C - B, 2 = D - C, 3 = 100 - D.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...diagnosis import Diagnosis, diagnose
from ...diagnosis.scores import DEFAULT
from ...estimators import Estimator, estimator, scores
from ...features import FeatureSet
from ...head import Head
from ...metrics import balanced
from ...runs import Draft, StepResult, Store
from .detection import PLAIN, Scores, evidence, flagged
from .mental_model import assumptions
from .networks import NetworkPlan, TrainedNetwork, trained

VERSION = 1  # of what the step holds: raised when it holds more, so that stores compute it again


@dataclass(frozen=True)
class Judged:
    """A trained network and the step that judged it. Small, picklable."""

    network: TrainedNetwork
    step: StepResult

    @property
    def name(self) -> str:
        """The data set it learned."""
        return self.network.plan.data.name

    @property
    def seed(self) -> int:
        """The seed of its run."""
        return self.network.plan.training.seed

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """As `softscope diagnose` gives it; its file is beside the numbers."""
        return Diagnosis.load(self.step.path("diagnosis.json"))

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """`accuracy`, `claims` by OOD set, `mental` (T19's assumptions)."""
        found: dict[str, Any] = self.step.json()
        return found

    @property
    def accuracy(self) -> float:
        """On the test images, in percent."""
        return float(self.numbers["accuracy"])

    @property
    def seconds(self) -> float:
        """Wall time of training, extraction and judging, whenever they ran."""
        return self.network.seconds + float(self.step.provenance.get("seconds", 0.0))

    def auroc(self, score: str, ood: str | None = None) -> float:
        """In percent, against one OOD set, or the mean over all of them."""
        found = self.diagnosis.mean_scores if ood is None else self.diagnosis.scores[ood]
        return 100 * found[score].auroc.value

    def cause(self, name: str) -> float:
        """A field of `Causes` averaged over the OOD sets, in points of AUROC; nan where it is not known."""
        part = getattr(self.diagnosis.mean_causes, name)
        return float("nan") if part is None else 100 * float(part.value)


def judged(store: Store, plan: NetworkPlan) -> Judged:
    """The network that `plan` describes, trained and judged, or read where the store has it."""
    network = trained(store, plan)
    known = {"features": network.made, "version": VERSION}
    return Judged(network, network.run.step("judge", partial(_judge, network), inputs=known))


def _judge(network: TrainedNetwork, draft: Draft) -> None:
    seed, head = network.plan.training.seed, network.head
    density = estimator("density")  # the diagnosis fits this very one
    found = diagnose(head, network.train, network.test, network.ood, seed=seed, estimators=(*DEFAULT, density))
    found.save(draft.path("diagnosis.json"))
    known, low = (_claim_scores(head, features, density) for features in (network.train, network.test))
    claims = {}
    for name, features in network.ood.items():
        high = _claim_scores(head, features, density)
        kept = zip((low, high), balanced(len(network.test), len(features), seed))
        pair = [{key: values[rows] for key, values in side.items()} for side, rows in kept]
        claims[name] = {**evidence(*pair), "T21": flagged(known, high)}
    sets = {"train": network.train, "test": network.test, **network.ood}
    mental = assumptions(head, sets)
    draft.json({"accuracy": network.numbers["accuracy"], "claims": claims, "mental": mental})


def _claim_scores(head: Head, features: FeatureSet, density: Estimator) -> Scores:
    printed = scores(head, features, tuple(PLAIN.values()), plain=True)
    return {
        **{name: printed[of].astype(np.float64) for name, of in PLAIN.items()},
        **scores(head, features, ("max", "entropy")),
        "mental": estimator("mental").fit(head, features).uncertainty(features),
        "density": density.uncertainty(features),
    }
