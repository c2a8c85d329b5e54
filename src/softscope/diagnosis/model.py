"""`Diagnosis`: everything found about a classifier's confidence, as a plain tree that goes to JSON and back unchanged.

Report, command line and tests read this and nothing else. Larger uncertainty = less familiar; in every AUROC the OOD
inputs are positive. `mean_scores` and `mean_causes` are averages over the OOD sets.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..canonical import decode, parse_json, plain
from ..errors import SoftscopeError
from ..files import existing_file, reading, write_bytes
from ..metrics import Interval

Numbers = tuple[float, ...]
Counts = tuple[int, ...]
Level = Literal["warning", "note"]
Verdict = Literal["trust", "caution", "do not trust", "undecided"]

FORMAT = "softscope.diagnosis/1"

#: letter in `Inputs.codes` -> what first caught the OOD input at 5 % false alarms, so which cause had let it through.
OUTCOMES: dict[str, str] = {
    "E": "caught by plain entropy",
    "R": "let through by rounding: caught by the exact entropy",
    "T": "let through by saturation: caught by cooling",
    "X": "let through by extrapolation: caught by density",
    "M": "let through by a misfit of the density: caught by the ceiling's classifier alone",
    "O": "overlaps with the test inputs: caught by nothing on this layer",
}


@dataclass(frozen=True)
class SetSummary:
    """A feature set as given; `accuracy` and `mean_confidence` are of the head on it. OOD sets have no accuracy."""

    name: str
    role: Literal["train", "test", "ood"]
    rows: int
    file: str | None  # None for features that came from memory
    sha256: str  # of the file, or of the rows where there is none
    accuracy: Interval | None
    mean_confidence: float  # mean of max_i s_i
    stand_in: str = ""  # what takes the place of OOD data; "" for a set that was given


@dataclass(frozen=True)
class EstimatorLabel:
    """What an estimator is called and computes. "plain-max" and "plain-entropy" are E1 and E2 in plain float32."""

    symbol: str
    formula: str
    needs: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Score:
    """How well one estimator tells one OOD set (or, averaged, all of them) from the test inputs; rank form, balanced.

    `gain` is its AUROC minus that of "plain-max", the confidence as networks print it, on the same inputs, and
    `p_value` that of "there is no gain"; `gain_of_all` has the interval that holds for all estimators at once.
    """

    auroc: Interval
    average_precision: Interval  # positive = OOD
    false_alarms_at_95_caught: Interval  # share of test flagged where 95 % of OOD inputs are: FPR at 95 % recall of OOD
    missed_at_95_accepted: Interval  # share of OOD accepted where 95 % of test is: FPR at 95 % recall of test
    gain: Interval
    p_value: float
    gain_of_all: Interval = field(default_factory=lambda: Interval(0.0, -1.0, 1.0))


@dataclass(frozen=True)
class Causes:
    """Why plain entropy misses OOD inputs, in AUROC: B + saturation + extrapolation + overlap = 1.

    B = `entropy` (E2 in plain float32), C = `cool` (E3), D = `density` (E4). The paper's cause 1, `saturation` = C - B,
    is `rounding`, which is what saturation costs, + `temperature`, what another temperature gains where nothing rounds.
    Cause 2, extrapolation = D - C, is extrapolation_proper (2a) + ambiguity (2b); both are None where the test set has
    no labels. Cause 3, overlap = 1 - D, is misfit (ceiling - D) + overlap_proper (1 - ceiling). The ceiling is a lower
    bound, so that misfit is so large at least, overlap_proper at most: their intervals are one-sided.
    """

    entropy: Interval
    cool: Interval
    density: Interval
    saturation: Interval
    rounding: Interval
    temperature: Interval
    extrapolation: Interval
    extrapolation_proper: Interval | None
    ambiguity: Interval | None
    overlap: Interval
    misfit: Interval
    overlap_proper: Interval
    ceiling: Interval


@dataclass(frozen=True)
class Ceiling:
    """An AUROC that some score of this layer reaches, at least: that of a classifier trained to tell test from OOD.

    `auroc` is of scores of rows the classifier had not seen; its lower end holds one-sidedly, its upper end is 1.
    `classifier` is the one chosen (in most folds) on an inner split, `candidates` each one's mean AUROC there.
    `raised`: the best estimator does better, and its AUROC stands here. With `fewer_rows` of each side to learn from
    instead of `rows` the chosen classifiers reached `fewer_auroc`: where the two differ, more rows would reach more.
    """

    auroc: Interval
    classifier: str
    candidates: dict[str, float]
    rows: int  # of each side that it learned from
    columns: int
    raised: bool
    fewer_rows: int = 0
    fewer_auroc: float = 0.5


@dataclass(frozen=True)
class InputRow:
    """One input worth showing: its row in its file, the class it was taken for, how confidently, and its scores."""

    row: int
    predicted: int
    label: int | None
    confidence: float  # max_i s_i
    outcome: str  # a letter of OUTCOMES; "" for test inputs
    scores: dict[str, float]  # by the estimators of `Diagnosis.thresholds`


@dataclass(frozen=True)
class Inputs:
    """What became of every input of one OOD set at 5 % false alarms on test."""

    counts: dict[str, int]  # by letter of OUTCOMES
    codes: str  # one letter per row
    taken_for: Counts  # rows predicted as each class
    let_through: Counts  # of those, rows that plain entropy let through
    examples: tuple[InputRow, ...]  # the most confident first


@dataclass(frozen=True)
class Histogram:
    """Counts by set ("train", "test" or an OOD set's name) in common bins; what lies beyond is in the outer ones."""

    edges: Numbers
    counts: dict[str, Counts]


@dataclass(frozen=True)
class Curve:
    """ROC curve from (0, 0) to (1, 1), at most 200 points."""

    false_alarms: Numbers
    caught: Numbers

    def __post_init__(self) -> None:
        if not all(0 <= share <= 1 for share in (*self.false_alarms, *self.caught)):
            raise SoftscopeError("a ROC curve with shares that are not from 0 to 1", "Write the file again")


@dataclass(frozen=True)
class ThresholdTable:
    """What each threshold of one estimator does: inputs with a score above it are flagged. For the report's slider."""

    thresholds: Numbers  # descending, so that false alarms rise
    false_alarms: Numbers  # share of test inputs flagged
    missed: dict[str, Numbers]  # by OOD set: share not flagged
    at_most: Numbers = ()  # share of 1,000 further known inputs flagged at most, with 95 %, at all thresholds at once


@dataclass(frozen=True)
class FinalLayerMap:
    """The plane of the first two principal components of training and OOD features: points, confidence behind them."""

    x: Numbers  # grid coordinates
    y: Numbers
    confidence: tuple[Numbers, ...]  # max_i s_i at [y][x]
    explained: Numbers  # share of variance along each axis
    points: dict[str, tuple[Numbers, ...]]  # by set: (x, y) of a sample of rows
    classes: dict[str, Counts]  # by set: predicted class of these rows
    sure: dict[str, Numbers] = field(default_factory=dict)  # by set: max_i s_i of these rows themselves


@dataclass(frozen=True)
class ReliabilityBin:
    """Test inputs of about equal confidence: its mean, and the share that is predicted rightly."""

    confidence: float
    accuracy: Interval
    rows: int


@dataclass(frozen=True)
class Reliability:
    """Confidence against accuracy on test, and the expected calibration error."""

    bins: tuple[ReliabilityBin, ...]
    error: Interval


@dataclass(frozen=True)
class RiskCurve:
    """Share of wrong predictions (`risk`) among the surest test inputs, by the share of inputs kept (`coverage`)."""

    coverage: Numbers
    risk: Numbers


@dataclass(frozen=True)
class ClassRow:
    """One class on test: accuracy, mean confidence, false alarms by estimator at 5 % over all, and OOD inputs that
    confidence lets through as this class."""

    number: int
    rows: int
    accuracy: Interval
    confidence: float
    false_alarms: dict[str, Interval]
    let_through: int


@dataclass(frozen=True)
class StructureFigure:
    """One figure of the decision boundary structure, beside the optimum and 95 % of random heads of this shape."""

    name: str
    meaning: str
    value: float
    optimal: float | None
    random: Interval | None  # None where no random weights enter


@dataclass(frozen=True)
class Structure:
    """The head and class means against the optimal structure (X3, T12); class means are None without train labels."""

    classes: int
    features: int
    optimal_cosine: float
    weight_norms: Numbers
    biases: Numbers
    cosines: Histogram  # of cos(w_i, w_j): "head", and "random" for random weights of this shape
    figures: tuple[StructureFigure, ...]
    room: dict[str, dict[str, float]]  # share of "ball" and of "gaussian" in the valid OOD region of each estimator


@dataclass(frozen=True)
class Finding:
    """One line of the self-check: what was found, and what to do about it."""

    level: Level
    what: str
    hint: str


@dataclass(frozen=True)
class Sentence:
    """One piece of advice, on one OOD set if `ood` names it.

    `about`: stand-ins, confidence, estimator, cause, help, samples, mistakes.
    """

    about: str
    text: str
    ood: str | None = None


@dataclass(frozen=True)
class Choice:
    """The estimator that the OOD sets `chosen_on` would have one choose, and what it does to another set."""

    judged_on: str
    chosen_on: tuple[str, ...]
    estimator: str
    auroc: Interval
    missed: Interval  # share of `judged_on` accepted where 95 % of test is
    missed_by_confidence: Interval
    gain: float  # AUROC over that of confidence


@dataclass(frozen=True)
class Advice:
    """The verdict on softmax confidence, over all and by OOD set, and what to do, in plain words with figures.

    `basis` of the recommendation: "chosen" on the OOD sets given, each time judged on one left out; "default", the
    score for all cases where these say too little; "keep" where nothing is better.
    """

    verdict: Verdict
    headline: str
    verdicts: dict[str, Verdict]
    recommended: str | None  # the estimator to use instead, where one is better beyond chance
    sentences: tuple[Sentence, ...]
    basis: str = ""
    choices: tuple[Choice, ...] = ()

    def texts(self, *about: str) -> list[str]:
        """What it says about these things, over all OOD sets."""
        return [one.text for one in self.sentences if one.ood is None and one.about in about]


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What `diagnose` found. Same inputs and settings give the same tree but for `provenance`.

    >>> import numpy as np
    >>> import softscope as sx
    >>> rows, labels = np.abs(np.random.default_rng(0).normal(size=(300, 4))), np.arange(300) % 2
    >>> train, far = (rows[:200], labels[:200]), {"far": 9 + rows}
    >>> diagnosis = sx.diagnose(sx.Head(np.eye(2, 4)), train, rows[200:], far, bootstraps=20)
    >>> diagnosis.scores["far"]["density"].auroc.value
    1.0
    >>> sx.Diagnosis.from_json(diagnosis.to_json()).causes == diagnosis.causes
    True
    """

    classes: tuple[str, ...]
    estimators: dict[str, EstimatorLabel]
    train: SetSummary
    test: SetSummary
    ood: dict[str, SetSummary]
    scores: dict[str, dict[str, Score]]  # by OOD set, by estimator
    mean_scores: dict[str, Score]
    causes: dict[str, Causes]
    mean_causes: Causes
    ambiguity_missing: str  # why causes 2a and 2b are None; "" where they are known
    ceilings: dict[str, Ceiling]
    mistakes: dict[str, Interval]  # by estimator: AUROC of finding the head's wrong test predictions; {} without labels
    inputs: dict[str, Inputs]
    test_mistakes: tuple[InputRow, ...]  # wrong test predictions, the most confident first
    strength: Histogram  # norm(z)
    familiarity: Histogram  # max_i cos(w_i, z)
    other_cosines: Histogram  # the cosines other than the largest
    uncertainty: dict[str, Histogram]  # by estimator, of test and OOD
    curves: dict[str, dict[str, Curve]]  # by OOD set, by estimator
    thresholds: dict[str, ThresholdTable]  # by estimator
    map: FinalLayerMap
    structure: Structure
    self_check: tuple[Finding, ...]
    advice: Advice
    settings: dict[str, Any]
    provenance: dict[str, Any]
    reliability: Reliability | None = None  # None without test labels, as the next
    risk: RiskCurve | None = None
    by_class: tuple[ClassRow, ...] = ()

    @property
    def stands_in(self) -> bool:
        """Whether no OOD data was given, so that stand-ins take its place."""
        return any(one.stand_in for one in self.ood.values())

    def findings(self, level: Level) -> list[Finding]:
        """The warnings, or the notes, of the self-check."""
        return [finding for finding in self.self_check if finding.level == level]

    @property
    def row_scores(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Every row's scores, by set ("test" or an OOD set) and estimator; in memory alone, no file holds them."""
        kept: dict[str, dict[str, NDArray[np.float64]]] | None = getattr(self, "_row_scores", None)
        if kept is None:
            raise SoftscopeError("this diagnosis kept no scores of rows", "Use diagnose(..., keep_scores=True)")
        return kept

    def with_row_scores(self, kept: dict[str, dict[str, NDArray[np.float64]]]) -> "Diagnosis":
        """This diagnosis with `row_scores`: no field, so that they neither go to JSON nor count in comparisons."""
        object.__setattr__(self, "_row_scores", kept)
        return self

    def slim(self) -> "Diagnosis":
        """The same numbers without what only a report says (inputs, curves, map, self-check) and without paths."""
        plane = FinalLayerMap(x=(), y=(), confidence=(), explained=(), points={}, classes={})
        return replace(
            self,
            train=replace(self.train, file=None),
            test=replace(self.test, file=None),
            ood={name: replace(own, file=None) for name, own in self.ood.items()},
            inputs={},
            test_mistakes=(),
            uncertainty={},
            curves={},
            thresholds={},
            map=plane,
            self_check=(),
            settings={name: value for name, value in self.settings.items() if name != "head"},
            provenance={name: value for name, value in self.provenance.items() if name != "command"},
        )

    def __repr__(self) -> str:
        return f"Diagnosis({self.advice.verdict}: {self.advice.headline})"

    def _repr_html_(self) -> str:
        from .notebook import cell

        return cell(self)

    def to_frame(self, what: Literal["scores", "causes", "inputs"] = "scores") -> Any:
        """A pandas DataFrame: `scores` (one row for each OOD set and estimator), `causes` (for each OOD set and cause,
        in AUROC), or `inputs` (for each row of each OOD set, what first caught it)."""
        from .notebook import frame

        return frame(self, what, OUTCOMES)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and text; NaN-free."""
        return {"format": FORMAT, **plain(self, "diagnosis")}

    def to_json(self) -> str:
        """The tree as JSON text; `from_json` gives an equal tree back."""
        import json

        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any], where: str = "diagnosis") -> "Diagnosis":
        """The tree that `to_dict` wrote, or a SoftscopeError that names the field that is wrong."""
        if not isinstance(tree, Mapping) or tree.get("format") != FORMAT:
            kind = tree.get("format") if isinstance(tree, Mapping) else type(tree).__name__
            raise SoftscopeError(
                f"{where}: expected format {FORMAT!r}, found {kind!r}", "Run `softscope diagnose` again"
            )
        diagnosis: Diagnosis = decode(cls, {key: value for key, value in tree.items() if key != "format"}, where)
        return diagnosis

    @classmethod
    def from_json(cls, text: str) -> "Diagnosis":
        """The tree that `to_json` wrote."""
        with reading("diagnosis", "JSON"):
            return cls.from_dict(parse_json(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tree as JSON, atomically."""
        write_bytes(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Diagnosis":
        """Read what `save` wrote."""
        file: Path = existing_file(path)
        with reading(path, "JSON"):
            return cls.from_dict(parse_json(file.read_bytes()), str(path))
