"""A network as it was judged: read from the run store, or, where that lacks it, from what a result kept of it."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...canonical import parse_json
from ...diagnosis import Diagnosis, cause_sizes
from ...files import existing_file, reading
from ...head import Head
from ...runs import StepResult
from .networks import NetworkPlan, TrainedNetwork

MINOR = 0.05  # points of AUROC that the paper's tables, with one decimal, do not show


@dataclass(frozen=True)
class Judged:
    """A trained network and the step that judged it. Small, picklable."""

    network: TrainedNetwork
    step: StepResult
    further: StepResult | None = None

    @property
    def plan(self) -> NetworkPlan:
        """What determined it."""
        return self.network.plan

    @property
    def name(self) -> str:
        """The data set it learned."""
        return self.plan.data.name

    @property
    def seed(self) -> int:
        """The seed of its run."""
        return self.plan.training.seed

    @property
    def in_store(self) -> bool:
        """Whether its weights and features are at hand."""
        return True

    @cached_property
    def head(self) -> Head | None:
        """Its last layer."""
        return self.network.head

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """As `softscope diagnose` gives it; its file is beside the numbers."""
        return Diagnosis.load(self.step.path("diagnosis.json"))

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """`accuracy`, `claims` by OOD set, `mental` (T19's assumptions), `densities` by name and OOD set."""
        kept: dict[str, Any] = self.step.json()
        return kept

    @cached_property
    def facts(self) -> dict[str, Any]:
        """`classes`, `images` it learned from, `subsets` it used, wall time of its `training` and of all `seconds`."""
        step = float(self.step.provenance.get("seconds", 0.0))
        return {
            "classes": self.network.head.n_classes,
            "images": len(self.network.train),
            "subsets": self.network.numbers["subsets"],
            "training": float(self.network.fit.provenance.get("seconds", 0.0)),
            "seconds": self.network.seconds + step,
        }

    @cached_property
    def course(self) -> list[dict[str, float]]:
        """How the snapshots of its training fare, the earliest first; empty where none were measured."""
        moments: list[dict[str, float]] = [] if self.further is None else self.further.json()
        return moments

    def record(self) -> dict[str, Any]:
        """What a result keeps of it: all that tables and figures read, without the report's pictures and inputs."""
        own = {"facts": self.facts, "numbers": self.numbers, "course": self.course}
        return {**own, "diagnosis": self.diagnosis.slim().to_dict()}

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

    def saturates(self, ood: str) -> bool:
        """Whether rounding to float32 costs U_entropy more than the paper's table would show."""
        return 100 * self.diagnosis.causes[ood].rounding.value > MINOR


class NotInStore:
    """What both kinds of kept networks share: the plan is known, weights and features are elsewhere."""

    known: NetworkPlan

    @property
    def plan(self) -> NetworkPlan:
        """What determined it."""
        return self.known

    @property
    def in_store(self) -> bool:
        """Whether its weights and features are at hand."""
        return False


@dataclass(frozen=True)
class Kept(NotInStore, Judged):
    """A network that a result kept (`Judged.record`) and the store lacks: its weights and features are elsewhere."""

    network: TrainedNetwork = field(init=False, repr=False)
    step: StepResult = field(init=False, repr=False)
    further: None = field(init=False, repr=False)
    known: NetworkPlan
    file: Path

    @cached_property
    def head(self) -> Head | None:
        """Its last layer, which results keep beside the record; None where an earlier result did not."""
        beside = self.file.with_suffix(".safetensors")
        return Head.load(beside) if beside.is_file() else None

    @cached_property
    def _record(self) -> dict[str, Any]:
        with reading(self.file, "JSON"):
            kept: dict[str, Any] = parse_json(existing_file(self.file).read_bytes())
        return kept

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """As it was judged, without the report's pictures and inputs."""
        return Diagnosis.from_dict(self._record["diagnosis"], str(self.file))

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """As the step that judged it had them."""
        kept: dict[str, Any] = self._record["numbers"]
        return kept

    @cached_property
    def course(self) -> list[dict[str, float]]:
        """As the step that measured it had it."""
        kept: list[dict[str, float]] = self._record["course"]
        return kept

    @cached_property
    def facts(self) -> dict[str, Any]:
        """As the store had them."""
        kept: dict[str, Any] = self._record["facts"]
        return kept
