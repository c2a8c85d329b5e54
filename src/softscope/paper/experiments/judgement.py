"""A network and what was measured of it: read from the run store, or, where that lacks it, from what a result kept."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...canonical import fingerprint, parse_json, plain
from ...diagnosis import Diagnosis, cause_sizes
from ...features import FeatureSet
from ...files import existing_file, reading
from ...head import Head
from ...runs import Store
from .networks import NetworkPlan, TrainedNetwork, is_trained

MINOR = 0.05  # points of AUROC that the paper's tables, with one decimal, do not show


def record_name(plan: NetworkPlan) -> str:
    """The file beside a result that keeps what was measured of a network: named by all that determines it."""
    return f"networks/{plan.data.name}-{plan.training.seed}-{fingerprint(plain(plan, 'plan'))[:12]}.json"


@dataclass(frozen=True)
class Detected:
    """The network of `plan` against its OOD set. `record` is what results keep of it: `numbers` that were measured,
    `seconds` of wall time, `subsets` of data used. `stored` is None where its weights and features are elsewhere."""

    plan: NetworkPlan
    record: dict[str, Any] = field(repr=False)
    stored: TrainedNetwork | None = None
    file: Path | None = None

    @classmethod
    def kept(cls, store: Store, experiment: str, plan: NetworkPlan) -> Self | None:
        """What a result of `experiment` kept of the network, if the store lacks it."""
        file = store.results / experiment / record_name(plan)
        if is_trained(store, plan) or not file.is_file():
            return None
        with reading(file, "JSON"):
            return cls(plan, parse_json(existing_file(file).read_bytes()), file=file)

    @property
    def network(self) -> TrainedNetwork:
        """The network itself, where the store has it."""
        assert self.stored is not None
        return self.stored

    @property
    def in_store(self) -> bool:
        """Whether its weights and features are at hand."""
        return self.stored is not None

    @property
    def name(self) -> str:
        """The data set it learned."""
        return self.plan.data.name

    @property
    def title(self) -> str:
        """'mnist against fashion_mnist'."""
        return f"{self.name} against {self.plan.ood[0].name}"

    @property
    def seed(self) -> int:
        """The seed of its run."""
        return self.plan.training.seed

    @property
    def ood(self) -> FeatureSet:
        """Features of the OOD set."""
        return self.network.ood[self.plan.ood[0].name]

    @property
    def layer(self) -> tuple[Head, NDArray, NDArray]:
        """Its last layer: the head, z of test inputs, z of all OOD inputs."""
        ood = np.concatenate([features.array() for features in self.network.ood.values()])
        return self.network.head, self.network.test.array(), ood

    @property
    def numbers(self) -> dict[str, Any]:
        """What was measured of it."""
        numbers: dict[str, Any] = self.record["numbers"]
        return numbers

    @property
    def facts(self) -> dict[str, Any]:
        """`subsets` it used, wall time of all `seconds`."""
        return self.record

    @property
    def subsets(self) -> list[str]:
        """The data sets it used in part."""
        used: list[str] = self.facts["subsets"]
        return used

    @property
    def seconds(self) -> float:
        """Wall time of training, extraction and measuring, whenever they ran."""
        return float(self.facts["seconds"])


class Judged(Detected):
    """A network with a whole diagnosis against every OOD set. `numbers` has `accuracy`, `claims` by OOD set, `mental`
    (T19's assumptions) and `densities` by name and OOD set."""

    @property
    def facts(self) -> dict[str, Any]:
        """`classes`, `images` it learned from, `subsets` it used, wall time of its `training` and of all `seconds`."""
        facts: dict[str, Any] = self.record["facts"]
        return facts

    @property
    def course(self) -> list[dict[str, float]]:
        """How the snapshots of its training fare, the earliest first; empty where none were measured."""
        moments: list[dict[str, float]] = self.record["course"]
        return moments

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """As `softscope diagnose` gives it, without the report's pictures and inputs."""
        return Diagnosis.from_dict(self.record["diagnosis"], str(self.file or self.name))

    @cached_property
    def head(self) -> Head | None:
        """Its last layer, which results keep beside the record; None where an earlier result did not."""
        if self.file is None:
            return self.network.head
        beside = self.file.with_suffix(".safetensors")
        return Head.load(beside) if beside.is_file() else None

    @property
    def accuracy(self) -> float:
        """On the test images, in percent."""
        return float(self.numbers["accuracy"])

    def auroc(self, score: str, ood: str | None = None) -> float:
        """In percent, against one OOD set, or the mean over all of them; `score` may be one of the `densities`."""
        if score in self.numbers["densities"]:
            by_set: dict[str, float] = self.numbers["densities"][score]
            return float(np.mean(list(by_set.values()))) if ood is None else by_set[ood]
        kept = self.diagnosis.mean_scores if ood is None else self.diagnosis.scores[ood]
        return 100 * kept[score].auroc.value

    def cause(self, name: str, ood: str | None = None) -> float:
        """A part of the causes in points of AUROC, of one OOD set or averaged; nan where it is not known.

        As in the paper U_cool takes part only where it is needed: where rounding costs U_entropy nothing that the table
        shows, C = B, so that cause 1 is 0. What a temperature gains there is 'temperature', a column of its own.
        """
        if ood is None:
            return float(np.mean([self.cause(name, each) for each in self.diagnosis.ood]))
        causes = self.diagnosis.causes[ood]
        entropy, cool, density = (100 * own.value for own in (causes.entropy, causes.cool, causes.density))
        paper = cause_sizes(entropy, cool if self.saturates(ood) else entropy, density, 100)
        if name in paper:
            return paper[name]
        part = getattr(causes, name)
        return float("nan") if part is None else 100 * float(part.value)

    def equal_shares(self) -> list[float]:
        """Of each OOD set the share of float32 values of U_max that equal another (T24)."""
        return [float(claims["T24"]["equal_share"]) for claims in self.numbers["claims"].values()]

    def saturates(self, ood: str) -> bool:
        """Whether rounding to float32 costs U_entropy more than the paper's table would show."""
        return 100 * self.diagnosis.causes[ood].rounding.value > MINOR
