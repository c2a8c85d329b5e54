"""Every triple of classes of a data set, one small network each, ranked by how much its features overlap with OOD data.

Overlap is the paper's cause 3: 100 % less the AUROC of U_density. Which class is to blame is read off means: the
overlap of triples with the class less that of triples without it.
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...estimators import scores
from ...runs import Store
from ..training import TrainSettings
from .base import Settings
from .judge import detected
from .networks import Images, NetworkPlan, TrainedNetwork
from .verdict import Mean, Row, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Search:
    """Triples of the classes of `data` (all of them unless it names some) against `ood`, on small networks."""

    data: Images
    ood: Images
    net: str = "lenet"
    features: int = 16
    epochs: int = 3
    batch: int = 16

    def plans(self, settings: Settings) -> list[NetworkPlan]:
        """One network a triple, all from the same seed."""
        from ..datasets import find

        training = TrainSettings(
            epochs=self.epochs, batch=self.batch, seed=settings.seed, threads=settings.threads, precision="float32"
        )
        classes = self.data.classes or range(len(find(self.data.dataset).classes))
        return [
            NetworkPlan(
                data=replace(self.data, classes=triple),
                ood=(self.ood,),
                net=self.net,
                config={"features": self.features},
                training=training,
            )
            for triple in combinations(classes, 3)
        ]


@dataclass(frozen=True)
class Triples:
    """`table` has a row a triple, the largest overlap first."""

    table: list[dict[str, Any]]
    subsets: list[str]
    seconds: float

    def effects(self) -> list[dict[str, Any]]:
        """For each class the mean overlap of triples with it and without it, the largest difference first, and the
        percentage of OOD inputs that networks which know the class take for it."""
        names = dict.fromkeys(name for row in self.table for name in row["classes"])
        rows = [{"class": name, **self._effect(name)} for name in names]
        return sorted(rows, key=lambda row: -row["difference"])

    def most_taken_for(self, suspect: str) -> tuple[int, ...]:
        """Labels of the triple with `suspect` that takes most OOD inputs for it, first of all those with confidence."""

        def taken(row: dict[str, Any]) -> tuple[float, float]:
            (own,) = (own for own in row["landing"] if own["class"] == suspect)
            return own["confident_share"], own["share"]

        worst = max((row for row in self.table if suspect in row["classes"]), key=taken)
        return tuple(worst["labels"])

    def rows(self, suspect: str) -> list[Row]:
        """The suspect beside the other classes; it is to blame where triples with it overlap more, over triples."""
        order = [row["class"] for row in self.effects()]
        named = [suspect in row["classes"] for row in self.table]
        ends = {"worst": self.table[0], "best": self.table[-1]}
        ends["lowest"] = min(self.table, key=lambda row: float(row["auroc_entropy"]))
        landed = [own["share"] for row in self.table for own in row["landing"] if own["class"] == suspect]
        ours = {
            "landed": Mean.of(landed, "triples"),
            "entropy_less": self._compare(suspect, "auroc_entropy")[1],
            "overlap_less": self._compare(suspect, "overlap")[1],
            "rank": Mean(1.0 + order.index(suspect)),
            "among_worst": Mean(sum(named[: sum(named)])),
            "worst": Mean(ends["worst"]["overlap"]),
            "best": Mean(ends["best"]["overlap"]),
            "lowest": Mean(ends["lowest"]["auroc_entropy"]),
        }
        words: dict[str, Any] = {end: ", ".join(row["classes"]) for end, row in ends.items()}
        words |= {"named": sum(named), "triples": len(self.table), "classes": len(order)}
        return rows_of("X5", ours, suspect=suspect, **words)

    def picture(self, suspect: str) -> "Figure":
        """The ranking, and the effect of each class."""
        from ..plots.layers import ranking

        return ranking([(row["classes"], row["overlap"]) for row in self.table], self.effects(), suspect)

    def _effect(self, name: str) -> dict[str, float]:
        landed = [own for row in self.table for own in row["landing"] if own["class"] == name]
        sides, difference = self._compare(name, "overlap")
        return {
            "share": float(np.mean([own["share"] for own in landed])),
            "confident_share": float(np.mean([own["confident_share"] for own in landed])),
            "with": sides[0].value,
            "with_error": sides[0].standard_error or 0.0,
            "without": sides[1].value,
            "without_error": sides[1].standard_error or 0.0,
            "difference": difference.value,
            "standard_error": difference.standard_error or 0.0,
        }

    def _compare(self, name: str, column: str) -> tuple[list[Mean], Mean]:
        """Means over triples with the class and without it, and their difference."""
        sides = [
            Mean.of([row[column] for row in self.table if (name in row["classes"]) == inside], "triples")
            for inside in (True, False)
        ]
        error = float(np.hypot(sides[0].standard_error or 0.0, sides[1].standard_error or 0.0))
        # The smaller side's degrees of freedom: never too many (Welch).
        return sides, Mean(sides[0].value - sides[1].value, error, min(side.runs for side in sides), "triples")


def rank_triples(search: Search, settings: Settings, store: Store, engine: Engine) -> Triples:
    """Train (or read) a network for each triple and rank them."""
    plans = search.plans(settings)
    done = engine.map(partial(_one_triple, store), plans, threads=settings.threads, label="triples")
    table = sorted((row for row, _, _ in done), key=lambda row: -row["overlap"])
    return Triples(table, [f"each triple, {line}" for line in done[0][1]], sum(seconds for _, _, seconds in done))


def _one_triple(store: Store, plan: NetworkPlan) -> tuple[dict[str, Any], list[str], float]:
    one = detected(store, plan)
    network, numbers = one.network, one.numbers
    row = {
        "classes": list(network.head.classes or ()),
        "labels": list(plan.data.classes or ()),
        "overlap": numbers["causes"]["overlap"],
        "auroc_entropy": numbers["auroc"]["entropy"],
        "auroc_density": numbers["auroc"]["density"],
        "accuracy": numbers["accuracy"],
        "landing": landing(network),
    }
    return row, network.numbers["subsets"], one.seconds


def landing(network: TrainedNetwork) -> list[dict[str, Any]]:
    """For each class the percentage of OOD inputs that the network takes for it, and of those as many again that it
    does with more confidence (lower U_entropy) than it has on the median training input."""
    head, (ood,) = network.head, network.ood.values()
    taken = np.asarray(head.logits(ood.array())).argmax(axis=1)
    entropy = scores(head, ood, ("entropy",))["entropy"]
    confident = entropy < np.median(scores(head, network.train, ("entropy",))["entropy"])
    return [
        {
            "class": head.class_name(index),
            "share": 100 * float(np.mean(taken == index)),
            "confident_share": 100 * float(np.mean((taken == index) & confident)),
        }
        for index in range(head.n_classes)
    ]
