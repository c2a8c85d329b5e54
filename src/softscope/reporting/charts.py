"""The pictures of a diagnosis as SVG for a page: bars of causes and outcomes, ROC curves, rows of histograms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from markupsafe import Markup

from ..diagnosis.model import OUTCOMES, Causes, Curve, Histogram, Inputs, Reliability, RiskCurve
from .svg import WIDTH, Drawing, Scale, path, shorten, steps, ticks

_ROW, _LABEL = 62.0, 16.0  # height of a row of histograms, and of the words above it
_MARGIN = 14.0
_BAR = (1000.0, 30.0)  # bars are stretched to the page's width: they hold no words


@dataclass(frozen=True)
class Segment:
    """One piece of a stacked bar: its name, its colour on the page, its size, and its words in a tooltip."""

    name: str
    kind: str
    size: float
    words: str


@dataclass(frozen=True)
class Row:
    """One row of a histogram: words at its left and right end, and counts by their colour on the page."""

    name: str
    note: str
    layers: Mapping[str, Sequence[int]]


def cause_segments(causes: Causes) -> list[Segment]:
    """What plain entropy reaches, then the causes, split as far as they are known: they add up to 1."""
    split = causes.extrapolation_proper is not None and causes.ambiguity is not None
    extrapolation = (
        [("2a extrapolation", "cause-2a", causes.extrapolation_proper), ("2b ambiguity", "cause-2b", causes.ambiguity)]
        if split
        else [("2 extrapolation", "cause-2a", causes.extrapolation)]
    )
    parts = [
        ("reached by plain entropy", "reached", causes.entropy),
        ("1 saturation (rounding)", "cause-1a", causes.rounding),
        ("1 temperature", "cause-1b", causes.temperature),
        *extrapolation,
        ("3 misfit of the density, at least", "cause-3a", causes.misfit),
        ("3 overlap proper, at most", "cause-3b", causes.overlap_proper),
    ]
    return [
        Segment(name, kind, part.value, f"{100 * part.value:.1f} points [{100 * part.low:.1f}, {100 * part.high:.1f}]")
        for name, kind, part in parts
        if part is not None
    ]


def excess(causes: Causes) -> float:
    """By how much the positive causes pass a perfect 1: as much as the negative ones take back."""
    return -sum(min(0.0, part.size) for part in cause_segments(causes)[1:])


def cause_bar(name: str, causes: Causes, low: float, high: float) -> Markup:
    """Stacked on an axis from `low` to `high`, with whiskers for the intervals of B, C and D.

    What causes that came out negative take back, down to 1, is a strip below.
    """
    segments = cause_segments(causes)
    width, height = _BAR
    scale = Scale(low, high, 0.0, width)
    words = "; ".join(f"{part.name} {part.words}" for part in segments)
    drawing = Drawing(width, height, f"{name}: {words}", "bar", stretch=True)
    at = segments[0].size
    _piece(drawing, segments[0], scale(low), scale(at), 0.0, height)
    for part in segments[1:]:
        if part.size > 0:
            _piece(drawing, part, scale(at), scale(at + part.size), 0.0, height)
            at += part.size
    for part in segments[1:]:
        if part.size < 0:
            _piece(drawing, part, scale(at + part.size), scale(at), height - 7, 7.0)
            at += part.size
    if high > 1:
        drawing.put('<path d="M{} 0V{}" class="perfect"/>', scale(1.0), height)
    for y, bound in zip((7.0, 14.0, 21.0), (causes.entropy, causes.cool, causes.density)):
        start, stop = scale(bound.low), scale(bound.high)
        drawing.put('<path d="M{} {}H{}M{} {}v4M{} {}v4" class="whisker"/>', start, y, stop, start, y - 2, stop, y - 2)
    return drawing.markup()


def outcome_bar(name: str, inputs: Inputs) -> Markup:
    """What became of every input of an OOD set at 5 % false alarms, as shares of all."""
    width, height = _BAR
    total = max(1, sum(inputs.counts.values()))
    words = "; ".join(f"{inputs.counts.get(letter, 0) / total:.1%} {what}" for letter, what in OUTCOMES.items())
    drawing = Drawing(width, height, f"{name}: {words}", "bar", stretch=True)
    at = 0.0
    for letter, what in OUTCOMES.items():
        count = inputs.counts.get(letter, 0)
        part = Segment(what, f"outcome-{letter}", count / total, f"{count:,} of {total:,} ({count / total:.1%})")
        if count:
            _piece(drawing, part, width * at, width * (at + part.size), 0.0, height)
        at += part.size
    return drawing.markup()


def _piece(drawing: Drawing, part: Segment, start: float, stop: float, top: float, height: float) -> None:
    element = '<rect x="{}" y="{}" width="{}" height="{}" class="{}"><title>{}: {}</title></rect>'
    drawing.put(element, start, top, max(0.0, stop - start), height, part.kind, part.name, part.words)


def roc(name: str, curves: Mapping[str, Curve], symbols: Mapping[str, str], aurocs: Mapping[str, float]) -> Markup:
    """Caught OOD inputs against false alarms, one line an estimator, and a dot that a script may move.

    The horizontal axis is the root of the false alarms: thresholds are chosen near 0, where a plain axis shows nothing.
    """
    left, top, side = 40.0, 8.0, 262.0
    linear, y = Scale(0.0, 1.0, left, left + side), Scale(0.0, 1.0, top + side, top)

    def x(share: float) -> float:
        return linear(sqrt(share))

    words = ", ".join(f"{symbols[key]} {100 * aurocs[key]:.1f} %" for key in curves)
    drawing = Drawing(left + side + 10, top + side + 38, f"ROC curves of {name}, area under each: {words}", "roc")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.put('<path d="M{} {}H{}" class="grid"/>', left, y(share), left + side)
        drawing.text(left - 5, y(share) + 4, f"{100 * share:.0f}", "tick", "end")
    for share in (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0):
        drawing.put('<path d="M{} {}V{}" class="grid"/>', x(share), top, top + side)
        drawing.text(x(share), top + side + 15, f"{100 * share:.0f}", "tick", "middle")
    chance = _bent(Curve((0.0, 1.0), (0.0, 1.0)))
    drawing.put('<path d="{}" class="chance"/>', path([(x(alarm), y(hit)) for alarm, hit in chance]))
    for index, (key, curve) in enumerate(curves.items()):
        line = path([(x(alarm), y(hit)) for alarm, hit in _bent(curve)])
        element = '<path d="{}" class="line line-{}"><title>{}: {} %</title></path>'
        drawing.put(element, line, index % 8, symbols[key], f"{100 * aurocs[key]:.1f}")
    drawing.put('<circle r="4.5" cx="{}" cy="{}" class="operating" hidden=""/>', x(0.0), y(0.0))
    drawing.text(
        left + side / 2, top + side + 32, "false alarms, % of test inputs (stretched near 0)", "label", "middle"
    )
    drawing.put(
        '<text transform="translate(10 {}) rotate(-90)" class="label" text-anchor="middle">{}</text>',
        top + side / 2,
        "caught, % of OOD inputs",
    )
    return drawing.markup(left=left, top=top, side=side)


def reliability_diagram(reliability: Reliability) -> Markup:
    """Accuracy against confidence, with whiskers; on the diagonal a confidence is a probability."""
    left, top, side = 40.0, 8.0, 262.0
    x, y = Scale(0.0, 1.0, left, left + side), Scale(0.0, 1.0, top + side, top)
    words = ", ".join(f"{one.confidence:.0%} sure: {one.accuracy.value:.0%} right" for one in reliability.bins)
    drawing = Drawing(left + side + 10, top + side + 38, f"Reliability diagram: {words}", "reliability")
    _shares_axes(drawing, x, y, left, top, side)
    drawing.put('<path d="{}" class="chance"/>', path([(x(0.0), y(0.0)), (x(1.0), y(1.0))]))
    for one in reliability.bins:
        at, low, high = x(one.confidence), y(one.accuracy.low), y(one.accuracy.high)
        element = '<path d="M{} {}V{}" class="reliable-arm"/><circle r="4" cx="{}" cy="{}" class="reliable">'
        drawing.put(
            element + "<title>{}</title></circle>",
            at,
            low,
            high,
            at,
            y(one.accuracy.value),
            f"{one.rows:,} inputs, {one.confidence:.1%} sure, {one.accuracy.value:.1%} right",
        )
    _shares_labels(drawing, left, top, side, "confidence, %", "accuracy, %")
    return drawing.markup()


def risk_diagram(curve: RiskCurve) -> Markup:
    """Wrong predictions among the inputs kept, against the share kept, the surest first."""
    left, top, side = 40.0, 8.0, 262.0
    most = max(*curve.risk, 0.01)
    x, y = Scale(0.0, 1.0, left, left + side), Scale(0.0, most, top + side, top)
    words = f"all inputs kept: {curve.risk[-1]:.1%} wrong; the surest half: {_at_half(curve):.1%} wrong"
    drawing = Drawing(left + side + 10, top + side + 38, f"Risk against coverage; {words}", "risk")
    for tick in ticks(0.0, 100 * most, 4):
        drawing.put('<path d="M{} {}H{}" class="grid"/>', left, y(tick / 100), left + side)
        drawing.text(left - 5, y(tick / 100) + 4, f"{tick:g}", "tick", "end")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.text(x(share), top + side + 15, f"{100 * share:.0f}", "tick", "middle")
    line = path([(x(share), y(risk)) for share, risk in zip(curve.coverage, curve.risk)])
    drawing.put('<path d="{}" class="line line-1"/>', line)
    _shares_labels(drawing, left, top, side, "inputs kept, the surest first, %", "wrong among them, %")
    return drawing.markup()


def _at_half(curve: RiskCurve) -> float:
    return next(risk for share, risk in zip(curve.coverage, curve.risk) if share >= 0.5)


def _shares_axes(drawing: Drawing, x: Scale, y: Scale, left: float, top: float, side: float) -> None:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.put(
            '<path d="M{} {}H{}M{} {}V{}" class="grid"/>', left, y(share), left + side, x(share), top, top + side
        )
        drawing.text(left - 5, y(share) + 4, f"{100 * share:.0f}", "tick", "end")
        drawing.text(x(share), top + side + 15, f"{100 * share:.0f}", "tick", "middle")


def _shares_labels(drawing: Drawing, left: float, top: float, side: float, below: str, beside: str) -> None:
    drawing.text(left + side / 2, top + side + 32, below, "label", "middle")
    drawing.put(
        '<text transform="translate(10 {}) rotate(-90)" class="label" text-anchor="middle">{}</text>',
        top + side / 2,
        beside,
    )


def _bent(curve: Curve) -> list[tuple[float, float]]:
    """The curve's points, with further ones on long slopes, which the stretched axis bends."""
    points = list(zip(curve.false_alarms, curve.caught))
    out = points[:1]
    for (alarm, hit), (next_alarm, next_hit) in pairwise(points):
        width = sqrt(next_alarm) - sqrt(alarm)
        count = 1 + int(40 * width) if next_hit > hit else 1
        for step in range(1, count):
            between = (sqrt(alarm) + step / count * width) ** 2
            share = (between - alarm) / (next_alarm - alarm)
            out.append((between, hit + share * (next_hit - hit)))
        out.append((next_alarm, next_hit))
    return out


def histogram_rows(
    edges: Sequence[float],
    rows: Sequence[Row],
    axis: str,
    label: str,
    *,
    optimum: tuple[float, str] | None = None,
    threshold: float | None = None,
) -> Markup:
    """Histograms below each other over one axis, each row as high as its own peak.

    `optimum` is a line with a word at it, `threshold` a line that a script may move.
    """
    top = 14.0 if optimum else 2.0
    bottom = top + _ROW * len(rows)
    x = Scale(edges[0], edges[-1], _MARGIN, WIDTH - _MARGIN)
    drawing = Drawing(WIDTH, bottom + 36, label, "rows")
    for tick in ticks(edges[0], edges[-1]):
        drawing.put('<path d="M{} {}V{}" class="grid"/>', x(tick), top, bottom)
        drawing.text(x(tick), bottom + 14, f"{tick:g}", "tick", "middle")
    drawing.text(WIDTH / 2, bottom + 30, axis, "label", "middle")
    for index, row in enumerate(rows):
        _areas(drawing, edges, row, x, top + _ROW * (index + 1) - 2)
    if optimum:
        drawing.put('<path d="M{} {}V{}" class="optimum"/>', x(optimum[0]), top, bottom)
        anchor = "start" if x(optimum[0]) < WIDTH / 2 else "end"
        drawing.text(x(optimum[0]), top - 4, optimum[1], "tick", anchor)
    if threshold is not None:
        drawing.put('<path d="M0 {}V{}" transform="translate({} 0)" class="threshold"/>', top, bottom, x(threshold))
    for index, row in enumerate(rows):
        _words(drawing, row, top + _ROW * index + 12)
    return drawing.markup(low=edges[0], high=edges[-1], left=x.start, right=x.stop)


def _areas(drawing: Drawing, edges: Sequence[float], row: Row, x: Scale, base: float) -> None:
    widths = [max(right - left, 1e-300) for left, right in pairwise(edges)]
    for kind, counts in row.layers.items():
        densities = [count / width for count, width in zip(counts, widths)]
        peak = max(densities, default=0.0) or 1.0
        room = _ROW - _LABEL - 4
        outline = steps(edges, [room * density / peak for density in densities], x, base)
        drawing.put('<path d="{}" class="area {}"/>', outline, kind)
    drawing.put('<path d="M{} {}H{}" class="base"/>', x.start, base, x.stop)


def _words(drawing: Drawing, row: Row, y: float) -> None:
    short = shorten(row.name, WIDTH - 2 * _MARGIN - 7 * len(row.note))
    drawing.put('<text x="{}" y="{}" class="name">{}<title>{}</title></text>', _MARGIN, y, short, row.name)
    drawing.text(WIDTH - _MARGIN, y, row.note, "tick", "end")


def set_rows(histogram: Histogram, ood: Sequence[str]) -> list[Row]:
    """One row for each set of a histogram: train and test first, then the OOD sets."""
    roles = {"train": "train", "test": "test"} | dict.fromkeys(ood, "ood")
    return [Row(name, "", {role: histogram.counts[name]}) for name, role in roles.items() if name in histogram.counts]
