"""What became of every OOD input at 5 % false alarms: which score first caught it, and which class it was taken for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..geometry import valid_threshold
from .ceiling import CeilingScores
from .model import OUTCOMES, InputRow, Inputs
from .scores import Scored
from .sets import confidence

FALSE_ALARMS = 0.05
EXAMPLES = 48
#: Letter of OUTCOMES -> the score that catches such an input, in the order they are asked.
STAGES = {"E": "plain-entropy", "R": "entropy", "T": "cool", "X": "density"}


def inputs_of(test: Scored, ood: Scored, ceiling: CeilingScores, classes: int, shown: Sequence[str]) -> Inputs:
    """Outcomes of one OOD set's inputs, the classes they were taken for, and the most confident of them."""
    codes = outcomes(test, ood, ceiling)
    through = codes != "E"
    order = np.argsort(ood.seen.odds, kind="stable")[:EXAMPLES]
    return Inputs(
        counts={letter: int((codes == letter).sum()) for letter in OUTCOMES},
        codes="".join(codes.tolist()),
        taken_for=_counted(ood.seen.predicted, classes),
        let_through=_counted(ood.seen.predicted[through], classes),
        examples=tuple(_row(ood, int(row), str(codes[row]), shown) for row in order),
    )


def outcomes(test: Scored, ood: Scored, ceiling: CeilingScores) -> NDArray[np.str_]:
    """One letter of OUTCOMES a row: the first score that exceeds its threshold of 5 % false alarms on test."""
    codes = np.full(len(ood), "O")
    open_ = np.ones(len(ood), bool)
    stages = {letter: (test.values[name], ood.values[name]) for letter, name in STAGES.items()}
    for letter, (familiar, unfamiliar) in (stages | {"M": (ceiling.test, ceiling.ood)}).items():
        caught = open_ & flagged(familiar if ood.against is None else familiar[ood.against], unfamiliar)
        codes[caught] = letter
        open_ &= ~caught
    return codes


def flagged(test: Floats, ood: Floats) -> NDArray[np.bool_]:
    """Rows of `ood` above the score that at most 5 % of `test` exceed."""
    above: NDArray[np.bool_] = ood > valid_threshold(test, FALSE_ALARMS)
    return above


def mistakes_of(test: Scored, shown: Sequence[str]) -> tuple[InputRow, ...]:
    """The test inputs that the head gets wrong, the most confident first."""
    correct = test.seen.correct
    if correct is None:
        return ()
    wrong = np.flatnonzero(~correct)
    order = wrong[np.argsort(test.seen.odds[wrong], kind="stable")][:EXAMPLES]
    return tuple(_row(test, int(row), "", shown) for row in order)


def _counted(predicted: NDArray[np.int64], classes: int) -> tuple[int, ...]:
    return tuple(np.bincount(predicted, minlength=classes).tolist())


def _row(scored: Scored, row: int, outcome: str, shown: Sequence[str]) -> InputRow:
    labels = scored.seen.features.labels
    return InputRow(
        row=row,
        predicted=int(scored.seen.predicted[row]),
        label=None if labels is None else int(labels[row]),
        confidence=float(confidence(scored.seen.odds[[row]])[0]),
        outcome=outcome,
        scores={name: float(scored.values[name][row]) for name in shown},
    )
