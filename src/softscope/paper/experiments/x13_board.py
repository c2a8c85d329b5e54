"""X13's tables, from the numbers of each case: which score is best, on what, and by how much."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import texts
from .verdict import Mean, Row, Statement
from .x13_plans import BoardSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: what combines other scores: all others are the single ones it is set against
COMBINED = "consensus"
NEAR = "unseen"
NUMBERS = "AUROC, low, high, FPR95"
#: points below the best mean within which the best worst pair decides
WITHIN = 1.0

#: pair ('trained on / OOD set') -> AUROC in percent
Areas = Mapping[str, float]


def joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The numbers of two lots of scores on the same case."""
    numbers = {ood: scores | other[NUMBERS][ood] for ood, scores in one[NUMBERS].items()}
    return one | {NUMBERS: numbers, "refused": one["refused"] | other["refused"]}


def by_score(cases: list[dict[str, Any]], value: int = 0) -> dict[str, dict[str, float]]:
    """score -> pair -> AUROC, or another of the kept `NUMBERS`."""
    out: dict[str, dict[str, float]] = {}
    for case in cases:
        for ood, scores in case[NUMBERS].items():
            for name, numbers in scores.items():
                out.setdefault(name, {})[f"{case['trained on']} / {ood}"] = numbers[value]
    return out


def complete(areas: Mapping[str, Areas]) -> dict[str, Areas]:
    """The scores that have every pair."""
    pairs = max(map(len, areas.values()))
    return {name: own for name, own in areas.items() if len(own) == pairs}


def best_single(areas: Mapping[str, Areas], rank: Callable[[Areas], float]) -> str:
    """The single score with the largest `rank` among those that have every pair."""
    single = [name for name in complete(areas) if name != COMBINED]
    return max(single, key=lambda name: rank(areas[name]))


def mean(own: Areas) -> float:
    """Over pairs."""
    return float(np.mean(list(own.values())))


def worst(own: Areas) -> float:
    """Of all pairs."""
    return min(own.values())


def summary(areas: Iterable[float], whose: str) -> dict[str, str]:
    """Mean and worst as the tables show them."""
    values = list(areas)
    return {f"{whose} mean": f"{np.mean(values):.1f}", f"{whose} worst": f"{min(values):.1f}"}


def of_set(own: Areas, name: str, *, others: bool = False) -> dict[str, float]:
    """The pairs of one training set, or of all others."""
    return {pair: area for pair, area in own.items() if (pair.split(" / ")[0] == name) != others}


def training_sets(own: Areas) -> list[str]:
    """Each once."""
    return list(dict.fromkeys(pair.split(" / ")[0] for pair in own))


def rows(areas: Mapping[str, Areas]) -> list[Row]:
    """The combined score beside the best single ones, by the mean and by the worst pair, and beside the density."""
    by_mean, by_worst, mine = best_single(areas, mean), best_single(areas, worst), areas[COMBINED]
    out = []
    for against in dict.fromkeys((by_mean, by_worst, *({"density"} & areas.keys()))):
        theirs = areas[against]
        shared = {pair: area for pair, area in mine.items() if pair in theirs}
        gains = [mean(of_set(shared, name)) - mean(of_set(theirs, name)) for name in training_sets(shared)]
        label = f"{COMBINED} less {against}: mean AUROC of each training set's pairs"
        out.append(Row(label, Mean.of(gains, "training sets"), Statement("above it", least=0), "points"))
        lowest = Mean(worst(shared) - worst(theirs))
        out.append(Row(f"{COMBINED} less {against}: worst of {len(shared)} pairs", lowest, unit="points"))
    for what, rank, single in (("mean", mean, by_mean), ("worst pair", worst, by_worst)):
        for name, role in ((COMBINED, "combined"), (single, f"the best single score by the {what}")):
            out.append(Row(f"{name}, {role}: {what}", Mean(rank(areas[name])), unit="%"))
    return out


def score_lines(cases: list[dict[str, Any]], timings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each score, the best mean first; those that don't have every pair last."""
    areas, passed = by_score(cases), by_score(cases, value=3)
    whole, lines = complete(areas), []
    for name in sorted(areas, key=lambda name: (name not in whole, -mean(areas[name]))):
        own = areas[name]
        near = [area for pair, area in own.items() if NEAR in pair]
        far = [area for pair, area in own.items() if NEAR not in pair]
        hardest = min(own, key=lambda pair: own[pair])
        cost = [line for line in timings if line["score"] == name]
        lines.append(
            {
                "score": name,
                "mean AUROC, %": f"{mean(own):.1f}",
                "near": f"{np.mean(near):.1f}" if near else "",
                "far": f"{np.mean(far):.1f}" if far else "",
                "worst": f"{own[hardest]:.1f}",
                "worst pair": hardest,
                "mean FPR95, %": f"{mean(passed[name]):.1f}",
                "pairs": len(own),
                "fit, s": f"{np.median([line['fit, s'] for line in cost]):.2g}",
                "microseconds per row": f"{np.median([line['row, us'] for line in cost]):.3g}",
                "state, MB": f"{max(line['state, MB'] for line in cost):.3g}",
            }
        )
    return lines


def elsewhere(areas: Mapping[str, Areas]) -> list[dict[str, Any]]:
    """For each training set: the single score that is best on all others, beside the combined one, on its pairs."""
    whole, lines = complete(areas), []
    for name in training_sets(whole[COMBINED]):
        chosen = best_single({key: of_set(own, name, others=True) for key, own in whole.items()}, mean)
        line: dict[str, Any] = {"trained on": name, "best single score elsewhere": chosen}
        for key, label in ((chosen, "its"), (COMBINED, COMBINED)):
            line |= summary(of_set(whole[key], name).values(), label)
        lines.append(line)
    return lines


def chosen_parts(parts: list[dict[str, Any]], areas: Mapping[str, Areas]) -> list[dict[str, Any]]:
    """Leave one training set out: the choice of parts with the largest mean + worst on the others, judged on it.

    The last two lines are all training sets: every one left out once, and the choice on all of them together.
    """
    pairs = [f"{case['trained on']} / {ood}" for case in parts for ood in case["AUROC"]]
    values = np.array([own for case in parts for own in case["AUROC"].values()])
    choices, learned = parts[0]["choices"], np.array([pair.split(" / ")[0] for pair in pairs])

    def best(of: Any) -> int:
        return int((values[of].mean(axis=0) + values[of].min(axis=0)).argmax())

    def line(name: str, choice: str, inside: Any, judged: Any) -> dict[str, Any]:
        own = [areas[COMBINED][pair] for pair, this in zip(pairs, inside) if this]
        return {"left out": name, "chosen on the others": choice} | summary(judged, "its") | summary(own, COMBINED)

    lines, left_out = [], np.empty(len(pairs))
    for name in dict.fromkeys(learned):
        inside = learned == name
        at = best(~inside)
        left_out[inside] = values[inside, at]
        lines.append(line(str(name), choices[at], inside, values[inside, at]))
    everywhere = np.ones(len(pairs), bool)
    at = best(everywhere)
    lines.append(line("each in turn", "as above", everywhere, left_out))
    lines.append(line("none", choices[at], everywhere, values[:, at]))
    return lines


def decision(areas: Mapping[str, Areas], chosen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The default by the rule of docs/consensus.md, from the lines of `chosen_parts`; one line for each step of it."""
    in_turn, on_all = chosen[-2:]
    left_out = {what: float(in_turn[f"its {what}"]) for what in ("mean", "worst")}
    mine = {"mean": mean(areas[COMBINED]), "worst": worst(areas[COMBINED])}
    anew = all(left_out[what] > mine[what] for what in mine)
    words = {True: f"those chosen on all sets, {on_all['chosen on the others']}", False: "those of the first round"}
    judged = left_out if anew else mine
    single = {name: (mean(own), worst(own)) for name, own in complete(areas).items() if name != COMBINED}
    best_mean, best_worst = (max(numbers) for numbers in zip(*single.values()))
    wins = judged["mean"] > best_mean and judged["worst"] > best_worst
    near_best = [name for name, numbers in single.items() if numbers[0] >= best_mean - WITHIN]
    default = COMBINED if wins else max(near_best, key=lambda name: single[name][1])
    best = f"best single scores: mean {best_mean:.1f}, worst pair {best_worst:.1f}"
    return [
        {
            "question": "parts of consensus chosen anew, judged left out, above the first round's on both counts?",
            "numbers": "mean {mean:.1f}, worst {worst:.1f}; ".format(**left_out)
            + "the first round's: mean {mean:.1f}, worst {worst:.1f}".format(**mine),
            "answer": f"{'yes' if anew else 'no'}: {words[anew]}",
        },
        {
            "question": "consensus above every single score on both counts?",
            "numbers": "mean {mean:.1f}, worst {worst:.1f}; ".format(**judged) + best,
            "answer": "yes" if wins else "no",
        },
        {
            "question": "default",
            "numbers": "" if wins else f"the best worst pair among {', '.join(sorted(near_best))}",
            "answer": default,
        },
    ]


def picture(areas: Mapping[str, Areas]) -> "Figure":
    """Every score that has every pair, the best mean on top: a dot for each pair, near ones apart, mean and worst."""
    from ...reporting.style import FAINT, INK, OOD, PAGE, TRAIN, new_figure, style

    whole = complete(areas)
    names = sorted(whole, key=lambda name: mean(whole[name]))
    with style():
        figure = new_figure(PAGE, 0.8 + 0.19 * len(names))
        axes = figure.subplots()
        for place, name in enumerate(names):
            for near, colour in ((False, TRAIN), (True, OOD)):
                own = [area for pair, area in whole[name].items() if (NEAR in pair) == near]
                label = ("unseen classes of the same set" if near else "another data set") if not place else None
                axes.plot(own, [place] * len(own), ".", color=colour, alpha=0.5, markersize=4, label=label)
            axes.plot(mean(whole[name]), place, "|", color=INK, markersize=11, label=None if place else "mean")
            axes.plot(worst(whole[name]), place, "x", color=INK, markersize=5, label=None if place else "worst pair")
        axes.axvline(50, color=FAINT, linewidth=0.8)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(-0.7, len(names) - 0.3)
        axes.set_xlabel("AUROC of a pair, %")
        axes.grid(axis="x")
        figure.legend(loc="outside upper center", ncols=4)
    return figure


def words(settings: BoardSettings, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Words above the tables, and notes: what was scored, and what refused."""
    pairs = [f"{case['trained on']} / {ood}" for case in cases for ood in case[NUMBERS]]
    refused: dict[str, set[str]] = {}
    for case in cases:
        for name in case["refused"]:
            refused.setdefault(name, set()).add(case["trained on"])
    near, sets = sum(NEAR in pair for pair in pairs), len(training_sets(dict.fromkeys(pairs, 0.0)))
    own = texts("X13", pairs=len(pairs), near=near, sets=sets, fewest=settings.fewest, splits=settings.splits)
    own["notes"] += [f"{name}: not on {', '.join(sorted(sets))}." for name, sets in sorted(refused.items())]
    return own
