"""Scores, ceilings, resamples and causes of all OOD sets against one test set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..metrics import Interval, auroc, balanced
from .causes import CEILING, causes_of, contests_of, raise_ceilings, why_no_ambiguity
from .ceiling import CeilingScores, find_ceiling
from .model import Causes, Ceiling, Score
from .resampling import Contests, Rows, independent_mean, resampled, value_of
from .scores import Scored, mean_scores, set_scores

T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """What was measured, and the rows it was measured on: for each OOD set those of test and its own, balanced."""

    test: Scored
    ood: dict[str, Scored]
    rows: dict[str, tuple[Rows, Rows]]
    ceiling_scores: dict[str, CeilingScores]
    scores: dict[str, dict[str, Score]]
    mean_scores: dict[str, Score]
    causes: dict[str, Causes]
    mean_causes: Causes
    ambiguity_missing: str

    @property
    def ceilings(self) -> dict[str, Ceiling]:
        """By OOD set; where a ceiling came out below U_density it is raised to it."""
        out = {}
        for name, found in self.ceiling_scores.items():
            raised = found.ceiling.auroc.value < self.causes[name].density.value
            out[name] = replace(found.ceiling, auroc=self.causes[name].ceiling, raised=raised)
        return out

    @property
    def mistakes(self) -> dict[str, Interval]:
        """AUROC of each estimator at finding wrong test predictions; {} without labels, or where all are right."""
        correct = self.test.seen.correct
        if correct is None or correct.all() or not correct.any():
            return {}
        return {name: auroc(values[correct], values[~correct]) for name, values in self.test.values.items()}


def measure(test: Scored, ood: dict[str, Scored], seed: int, bootstraps: int, step: Callable[[str], None]) -> Measured:
    """Everything on the same balanced rows and the same resamples; `step` is told what comes next."""
    rows = {name: balanced(len(test), len(scored), seed) for name, scored in ood.items()}
    ceilings = {}
    for name, scored in ood.items():
        step(f"ceiling of {name}")
        ceilings[name] = find_ceiling(test, scored, *rows[name], seed)
    step("resampling")
    missing = why_no_ambiguity(test, {name: low for name, (low, _) in rows.items()})
    contests: dict[tuple[str, str], Contests] = {}
    for name, scored in ood.items():
        found = contests_of(test, scored, *rows[name], split=not missing)
        contests |= {(name, key): contest for key, contest in found.items()}
        contests[name, CEILING] = ceilings[name].contests
    sizes = {name: len(scored) for name, scored in ood.items()}
    draws = resampled(contests, len(test), sizes, bootstraps, seed)
    scores = {name: set_scores(test, scored, *rows[name]) for name, scored in ood.items()}
    means = mean_scores(scores, draws)
    values = {key: value_of(found) for key, found in contests.items()}
    raise_ceilings(values, draws)
    return Measured(
        test=test,
        ood=ood,
        rows=rows,
        ceiling_scores=ceilings,
        scores=scores,
        mean_scores=means,
        causes={
            name: causes_of(_only(values, name), _only(draws, name), scores[name], ceilings[name].ceiling.auroc)
            for name in ood
        },
        mean_causes=causes_of(
            {key: float(np.mean(found)) for key, found in _together(values, ood).items()},
            {key: np.mean(found, axis=0) for key, found in _together(draws, ood).items()},
            means,
            independent_mean([found.ceiling.auroc for found in ceilings.values()]),
        ),
        ambiguity_missing=missing,
    )


def _only(by_key: Mapping[tuple[str, str], T], name: str) -> dict[str, T]:
    return {key: found for (ood, key), found in by_key.items() if ood == name}


def _together(by_key: Mapping[tuple[str, str], T], ood: Mapping[str, Scored]) -> dict[str, list[T]]:
    first = next(iter(ood))
    return {key: [by_key[name, key] for name in ood] for key in _only(by_key, first)}
