"""The page `which-score` of the docs, from the leaderboard: `python -m softscope.paper.experiments.x13_advice`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import SoftscopeError
from ...estimators import DEFAULT, FEWEST_PER_CLASS, UNLABELLED_DEFAULT, estimator
from .page import largest_result
from .registry import page_text
from .x13_board import COMBINED, NEAR, NUMBERS, by_score, complete, mean, worst

COMMAND = "python -m softscope.paper.experiments.x13_advice > docs/which-score.md"
_SHOWN = 3


@dataclass(frozen=True)
class Situation:
    """What a user has: the pairs of the leaderboard that are like it, and the scores that can be had there."""

    words: str
    pair: Callable[[dict[str, Any], str], bool] = lambda case, ood: True
    needs: frozenset[str] = frozenset({"head", "train", "labels"})


SITUATIONS = (
    Situation("training features with labels"),
    Situation("training features without labels", needs=frozenset({"head", "train"})),
    Situation("the head alone", needs=frozenset({"head"})),
    Situation("labels; another kind of data is expected (far)", lambda case, ood: NEAR not in ood),
    Situation("labels; new classes of the same kind are expected (near)", lambda case, ood: NEAR in ood),
    Situation("fewer training rows than features", lambda case, ood: case["training rows"] < case["features"]),
    Situation("20 classes or more", lambda case, ood: case["classes"] >= 20),
    Situation("features after a ReLU: none below 0", lambda case, ood: case["rectified"]),
    Situation("features below 0 too: GELU, swish, transformers", lambda case, ood: not case["rectified"]),
)


def advice_page(results: Path) -> str:
    """The page as Markdown, from the largest scale of X13 in `results`."""
    kept = largest_result(results / "X13")
    if kept is None:
        raise SoftscopeError(f"{results}: no result of X13", "Run `softscope reproduce X13 --scale laptop` first")
    cases = kept["tables"]["cases"]
    head = f"| you have | pairs | best by mean AUROC (worst pair), % | `{COMBINED}` |\n|---|---|---|---|"
    lines = [_line(one, cases) for one in SITUATIONS]
    left = f" Not in it yet: {kept['left']}." if kept.get("left") else ""
    return page_text(
        "which-score",
        "page",
        command=COMMAND,
        measured=kept["command"],
        left=left,
        default=DEFAULT,
        unlabelled=UNLABELLED_DEFAULT,
        fewest=FEWEST_PER_CLASS,
        table="\n".join([head, *lines]),
    )


def _line(situation: Situation, cases: list[dict[str, Any]]) -> str:
    alike = [
        case | {NUMBERS: {ood: own for ood, own in case[NUMBERS].items() if situation.pair(case, ood)}}
        for case in cases
    ]
    areas = by_score(alike)
    if not areas:
        return f"| {situation.words} | 0 | no network of this kind in this result | |"
    whole = complete(areas)
    able = [name for name in whole if set(estimator(name).needs) <= situation.needs]
    best = sorted(able, key=lambda name: -mean(whole[name]))[:_SHOWN]
    words = [f"`{name}` {_numbers(whole[name])}" for name in best]
    own = _numbers(whole[COMBINED]) if COMBINED in able else "needs labels"
    return f"| {situation.words} | {max(map(len, whole.values()))} | {', '.join(words)} | {own} |"


def _numbers(own: Any) -> str:
    return f"{mean(own):.1f} ({worst(own):.1f})"


if __name__ == "__main__":
    print(advice_page(Path(sys.argv[1] if len(sys.argv) > 1 else "results")), end="")
